//! `$in` and `$nin`.

use std::sync::Arc;

use arbor_bson::{Value, ValueRef};

use super::{In, Regex};
use crate::stop::{sort_by, tick, tick_for};
use crate::{Collation, Error, Path, Result};

impl In {
    /// Parses the operand of `$in` or `$nin`.
    pub(super) fn parse(name: &str, path: Path, value: ValueRef, collation: &Collation) -> Result<In> {
        let ValueRef::Array(list) = value else {
            return Err(Error::bad_value(format!("{name} needs an array")));
        };
        let mut values = Vec::new();
        let mut regexes = Vec::new();
        for value in list.iter() {
            tick()?;
            match value {
                ValueRef::Regex { pattern, options } => regexes.push(Arc::new(Regex::new(pattern, options)?)),
                ValueRef::Document(doc) if doc.first().is_some_and(|(name, _)| super::parse::is_operator(name)) => {
                    return Err(Error::bad_value(format!("cannot nest $ under {name}")));
                }
                ValueRef::Undefined => return Err(Error::bad_value("InMatchExpression equality cannot be undefined")),
                other => {
                    tick_for(other.content_bytes())?;
                    values.push(other.to_value());
                }
            }
        }
        sort_by(&mut values, |a, b| collation.compare(a.as_ref(), b.as_ref()))?;
        Ok(In { regexes, ..In::of_sorted(path, values, collation) })
    }

    /// A list of plain values, in any order.
    pub fn of_values(path: Path, mut values: Vec<Value>, collation: &Collation) -> In {
        // cut short when the statement is to stop, as the caller's loop is
        let _sorted = sort_by(&mut values, |a, b| collation.compare(a.as_ref(), b.as_ref()));
        In::of_sorted(path, values, collation)
    }

    fn of_sorted(path: Path, mut values: Vec<Value>, collation: &Collation) -> In {
        values.dedup_by(|a, b| tick().is_ok() && collation.equal(a.as_ref(), b.as_ref()));
        In { path, values, regexes: Vec::new() }
    }

    /// Returns true if the value (`None`: missing, which counts as null) is in the list.
    pub(super) fn contains(&self, value: Option<ValueRef>, collation: &Collation) -> Result<bool> {
        let target = value.unwrap_or(ValueRef::Null);
        if self.values.binary_search_by(|known| collation.compare(known.as_ref(), target)).is_ok() {
            return Ok(true);
        }
        let Some(value) = value else { return Ok(false) };
        for regex in &self.regexes {
            if regex.matches(value)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
