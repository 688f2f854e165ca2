//! `$min` and `$max`: the smallest or the greatest value by the order of all types; null and missing do not count; null
//! without any.

use std::cmp::Ordering;

use arbor_bson::{Doc, Value, ValueRef};

use super::{State, elements, optional, value_bytes};
use crate::expression::Evaluated;
use crate::{Collation, Result};

#[derive(Debug)]
pub struct Extreme {
    /// Result of comparing a value with the best so far for which the value replaces it.
    better: Ordering,
    best: Option<Value>,
    collation: Collation,
}

impl Extreme {
    pub fn least(collation: &Collation) -> Extreme {
        Extreme { better: Ordering::Less, best: None, collation: collation.clone() }
    }

    pub fn greatest(collation: &Collation) -> Extreme {
        Extreme { better: Ordering::Greater, best: None, collation: collation.clone() }
    }

    pub fn consider(&mut self, value: ValueRef) {
        let counts = !matches!(value, ValueRef::Null | ValueRef::Undefined);
        if counts && self.best.as_ref().is_none_or(|best| self.collation.compare(value, best.as_ref()) == self.better) {
            self.best = Some(value.to_value());
        }
    }

    pub fn best(self) -> Value {
        self.best.unwrap_or(Value::Null)
    }
}

impl State for Extreme {
    fn add(&mut self, value: Evaluated, _root: Doc) -> Result<()> {
        if let Some(value) = value.get() {
            self.consider(value);
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Value {
        self.best()
    }

    fn partial(&self) -> Value {
        optional(&self.best)
    }

    fn absorb(&mut self, partial: ValueRef) -> Result<()> {
        elements(partial).for_each(|value| self.consider(value));
        Ok(())
    }

    fn size_bytes(&self) -> usize {
        self.best.as_ref().map_or(0, value_bytes)
    }
}
