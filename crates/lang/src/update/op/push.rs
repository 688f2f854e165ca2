//! `$push: { field: value }` or `{ field: { $each: [..], $position: n, $sort: .., $slice: n } }`
//!
//! The values go in at the position, then the array is sorted, then cut: a positive slice keeps the first, a negative
//! one the last elements. A field that is not there becomes an array.
//!
//! `{ a: [5] }`, `{ $push: { a: { $each: [9, 1], $sort: 1, $slice: 2 } } }` -> `{ a: [1, 5] }`

use std::cmp::Ordering;

use arbor_bson::{Doc, Value, ValueRef};

use super::{Change, Run, Slot};
use crate::stop::{self, tick, tick_for};
use crate::{Collation, Context, Error, Result, SortPattern, number, text};

#[derive(Clone, Debug)]
pub(in crate::update) struct Push {
    values: Vec<Value>,
    /// From the start, or from the end when negative; the end when there is none.
    position: Option<i64>,
    slice: Option<i64>,
    sort: Option<Sort>,
}

#[derive(Clone, Debug)]
enum Sort {
    Whole { descending: bool },
    Fields(SortPattern),
}

impl Push {
    pub(super) fn parse(operand: ValueRef, context: &Context) -> Result<Push> {
        let clauses = match operand {
            ValueRef::Document(doc) if doc.get("$each").is_some() => Some(doc),
            _ => None,
        };
        let Some(clauses) = clauses else {
            return Ok(Push { values: vec![operand.to_value()], position: None, slice: None, sort: None });
        };
        let mut push = Push { values: Vec::new(), position: None, slice: None, sort: None };
        for (name, value) in clauses {
            match name {
                "$each" => push.values = values(value)?,
                "$position" => push.position = Some(position(value)?),
                "$slice" => push.slice = Some(slice(value)?),
                "$sort" => push.sort = Some(Sort::parse(value, context)?),
                _ => return Err(Error::bad_value(format!("Unrecognized clause in $push: {name}"))),
            }
        }
        Ok(push)
    }

    pub(super) fn modify<'a>(&'a self, slot: &mut Slot<'a>, run: &Run<'a>) -> Result<Change> {
        if !slot.is_array() {
            let path = run.dotted();
            let ty = text::type_alias(slot.value().ty());
            let id = run.id_text();
            let message = format!("The field '{path}' must be an array but is of type {ty} in document {{{id}}}");
            return Err(Error::bad_value(message));
        }
        if let Some(elements) = slot.elements() {
            self.push_into(elements, run.collation);
        }
        Ok(Change::Changed)
    }

    pub(super) fn appends_behind(&self, slot: &mut Slot<'_>) -> Option<usize> {
        let len = slot.elements()?.len();
        let at_end = self.position.is_none_or(|position| position >= len as i64);
        let cuts = self.slice.is_some_and(|slice| slice.unsigned_abs() < (len + self.values.len()) as u64);
        (len > 0 && at_end && self.sort.is_none() && !cuts).then_some(len)
    }

    pub(super) fn create(&self, collation: &Collation) -> Slot<'_> {
        let mut elements = Vec::new();
        self.push_into(&mut elements, collation);
        Slot::Array(elements)
    }

    fn push_into<'a>(&'a self, elements: &mut Vec<Slot<'a>>, collation: &Collation) {
        let len = elements.len() as i64;
        let at = match self.position {
            None => len,
            Some(position) if position < 0 => len.saturating_add(position).max(0),
            Some(position) => position.min(len),
        } as usize;
        elements.splice(at..at, self.values.iter().map(|value| Slot::Raw(value.as_ref())));
        if let Some(sort) = &self.sort {
            sort.sort(elements, collation);
        }
        match self.slice {
            None => {}
            Some(first) if first >= 0 => elements.truncate(usize::try_from(first).unwrap_or(usize::MAX)),
            Some(last) => {
                let keep = usize::try_from(last.unsigned_abs()).unwrap_or(usize::MAX);
                elements.drain(..elements.len().saturating_sub(keep));
            }
        }
    }
}

impl Sort {
    fn parse(value: ValueRef, context: &Context) -> Result<Sort> {
        const INVALID: &str = "The $sort is invalid: use 1/-1 to sort the whole element, or {field:1/-1} to sort \
                               embedded fields";
        if let ValueRef::Document(pattern) = value {
            return Sort::parse_pattern(pattern, context);
        }
        match number::to_f64(value) {
            Some(1.0) => Ok(Sort::Whole { descending: false }),
            Some(-1.0) => Ok(Sort::Whole { descending: true }),
            _ => Err(Error::bad_value(INVALID)),
        }
    }

    fn parse_pattern(pattern: Doc, context: &Context) -> Result<Sort> {
        if pattern.is_empty() {
            return Err(Error::bad_value("The $sort pattern is empty when it should be a set of fields."));
        }
        for (name, value) in pattern {
            if !matches!(number::to_f64(value), Some(1.0 | -1.0)) {
                return Err(Error::bad_value("The $sort element value must be either 1 or -1"));
            }
            if name.is_empty() {
                return Err(Error::bad_value("The $sort field cannot be empty"));
            }
            if name.split('.').any(str::is_empty) {
                let message = format!("The $sort field is a dotted field but has an empty part: {name}");
                return Err(Error::bad_value(message));
            }
        }
        Ok(Sort::Fields(SortPattern::parse(pattern, context).map_err(|error| Error::bad_value(error.message))?))
    }

    /// Cut short when the statement is to stop.
    fn sort(&self, elements: &mut Vec<Slot<'_>>, collation: &Collation) {
        // opened elements are put together, so that all can be looked at while they are sorted
        elements.iter_mut().for_each(|element| _ = element.value());
        let doc = |slot: &Slot<'_>| match slot.peek() {
            Some(ValueRef::Document(doc)) => doc.to_buf(),
            _ => Doc::empty().to_buf(),
        };
        match self {
            Sort::Whole { descending } => {
                let compare = |a: &Slot<'_>, b: &Slot<'_>| match (a.peek(), b.peek()) {
                    (Some(a), Some(b)) if *descending => collation.compare(b, a),
                    (Some(a), Some(b)) => collation.compare(a, b),
                    _ => Ordering::Equal,
                };
                let _sorted = stop::sort_by(elements, compare);
            }
            Sort::Fields(pattern) => {
                let keyed = elements.drain(..).take_while(|_| tick().is_ok());
                let mut keyed: Vec<_> =
                    keyed.map(|slot| (pattern.key(doc(&slot).as_doc()).unwrap_or_default(), slot)).collect();
                let _sorted = stop::sort_by(&mut keyed, |(a, _), (b, _)| a.cmp(b));
                elements.extend(keyed.into_iter().map(|(_, slot)| slot));
            }
        }
    }
}

fn values(value: ValueRef) -> Result<Vec<Value>> {
    match value {
        ValueRef::Array(values) => {
            let own = |value: ValueRef| tick_for(value.content_bytes()).map(|()| value.to_value());
            values.iter().map(own).collect()
        }
        other => {
            let ty = text::type_alias(other.ty());
            let message = format!("The argument to $each in $push must be an array but it was of type: {ty}");
            Err(Error::bad_value(message))
        }
    }
}

fn position(value: ValueRef) -> Result<i64> {
    value.as_number().and_then(|number| number.to_i64_exact()).ok_or_else(|| {
        let ty = text::type_alias(value.ty());
        Error::bad_value(format!("The value for $position must be an integer value, not of type: {ty}"))
    })
}

fn slice(value: ValueRef) -> Result<i64> {
    value.as_number().and_then(|number| number.to_i64_exact()).ok_or_else(|| {
        let ty = text::type_alias(value.ty());
        Error::bad_value(format!("The value for $slice must be an integer value but was given type: {ty}"))
    })
}
