//! `$shift`: `{ output, by, default }`; the value of the row that many places after this one, or before.

use std::sync::Arc;

use arbor_bson::{Doc, Value, ValueRef};

use super::{Call, Column, Rows, WindowFunction};
use crate::{Error, Expression, Result, number, text};

#[derive(Clone, Debug)]
struct Shift {
    output: Expression,
    by: i64,
    default: Value,
}

pub(super) fn parse(call: &Call) -> Result<Arc<dyn WindowFunction>> {
    call.refuse_window()?;
    if call.sort_by.is_empty() {
        return Err(Error::failed_to_parse("'$shift' requires a sortBy"));
    }
    let ValueRef::Document(spec) = call.argument else {
        let found = text::type_name(Some(call.argument));
        let message = format!("Argument to $shift must be an object: found {found}");
        return Err(Error::failed_to_parse(message));
    };
    if let Some((unknown, _)) = spec.iter().find(|(name, _)| !matches!(*name, "output" | "by" | "default")) {
        return Err(Error::failed_to_parse(format!("Unknown argument in $shift: {unknown}")));
    }
    let missing = |name: &str| Error::failed_to_parse(format!("$shift requires an '{name}' expression."));
    let output = Expression::parse(spec.get("output").ok_or_else(|| missing("output"))?, call.context)?;
    let by = spec.get("by").ok_or_else(|| Error::failed_to_parse("$shift requires 'by' as an integer value."))?;
    let by = number::exact_i32(by).map(i64::from).ok_or_else(|| {
        let found = text::shell(by);
        Error::failed_to_parse(format!("'$shift:by' field must be an integer, but found {found}"))
    })?;
    let default = match spec.get("default") {
        None => Value::Null,
        Some(default) => {
            let expression = Expression::parse(default, call.context)?;
            if !matches!(expression, Expression::Constant(_)) {
                let shown = text::shell(default);
                let message = format!("'$shift:default' expression must yield a constant value. Found: {shown}");
                return Err(Error::failed_to_parse(message));
            }
            expression.eval(Doc::empty())?.unwrap_or(Value::Null)
        }
    };
    Ok(Arc::new(Shift { output, by, default }))
}

impl WindowFunction for Shift {
    fn start(&self) -> Box<dyn Column> {
        Box::new(self.clone())
    }

    fn look_back(&self) -> Option<usize> {
        (self.by <= 0).then_some(self.by.unsigned_abs() as usize)
    }
}

impl Column for Shift {
    fn value(&mut self, at: usize, rows: &Rows) -> Result<Value> {
        let other = usize::try_from(at as i64 + self.by).ok().and_then(|other| rows.get(other));
        match other {
            Some(doc) => Ok(self.output.eval(doc.as_doc())?.unwrap_or(Value::Null)),
            None => Ok(self.default.clone()),
        }
    }
}
