//! Values in the order of their rows.

use std::collections::VecDeque;

use arbor_bson::{ArrayBuf, Doc, Value};

use super::Moving;
use crate::Result;
use crate::accumulator::value_bytes;
use crate::expression::Evaluated;

/// Which values count.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    /// All but missing ones.
    Present,
    First(usize),
    Last(usize),
}

#[derive(Debug)]
pub(crate) struct Arrived {
    part: Part,
    /// None: a missing value that does not count.
    values: VecDeque<Option<Value>>,
    bytes: usize,
}

impl Arrived {
    pub(crate) fn new(part: Part) -> Arrived {
        Arrived { part, values: VecDeque::new(), bytes: 0 }
    }
}

fn bytes(value: &Option<Value>) -> usize {
    value.as_ref().map_or(size_of::<Value>(), value_bytes)
}

impl Moving for Arrived {
    fn enter(&mut self, value: Evaluated, _root: Doc) -> Result<()> {
        let value = match self.part {
            Part::Present => value.into_value(),
            Part::First(_) | Part::Last(_) => Some(value.into_value().unwrap_or(Value::Null)),
        };
        self.bytes += bytes(&value);
        self.values.push_back(value);
        Ok(())
    }

    fn leave(&mut self) {
        if let Some(gone) = self.values.pop_front() {
            self.bytes -= bytes(&gone);
        }
    }

    fn value(&self) -> Value {
        let values = self.values.iter().flatten();
        Value::Array(match self.part {
            Part::Present => values.collect::<ArrayBuf>(),
            Part::First(n) => values.take(n).collect(),
            Part::Last(n) => values.skip(self.values.len().saturating_sub(n)).collect(),
        })
    }

    fn size_bytes(&self) -> usize {
        self.bytes
    }
}
