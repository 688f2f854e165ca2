//! `$locf`: null and missing values take the last value there was.

use std::sync::Arc;

use arbor_bson::Value;

use super::{Call, Column, Rows, WindowFunction};
use crate::{Expression, Result};

#[derive(Clone, Debug)]
struct Locf {
    input: Expression,
}

pub(super) fn parse(call: &Call) -> Result<Arc<dyn WindowFunction>> {
    call.refuse_window()?;
    Ok(Arc::new(Locf { input: Expression::parse(call.argument, call.context)? }))
}

impl WindowFunction for Locf {
    fn start(&self) -> Box<dyn Column> {
        Box::new(Carried { function: self.clone(), last: Value::Null })
    }

    fn look_back(&self) -> Option<usize> {
        Some(0)
    }
}

struct Carried {
    function: Locf,
    last: Value,
}

impl Column for Carried {
    fn value(&mut self, at: usize, rows: &Rows) -> Result<Value> {
        let value = match rows.get(at) {
            Some(doc) => self.function.input.eval(doc.as_doc())?,
            None => None,
        };
        match value {
            None | Some(Value::Null | Value::Undefined) => {}
            Some(value) => self.last = value,
        }
        Ok(self.last.clone())
    }
}
