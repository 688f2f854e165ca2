//! `$densify`: documents for the places of a range where there is none.
//!
//! ```text
//! [{$densify: {field: 'a', range: {step: 1, bounds: 'full'}}}] on [{a: 4}, {a: 1, x: 1}] => [{a: 1, x: 1}, {a: 2}, {a: 3}, {a: 4}]
//! [{$densify: {field: 'a', range: {step: 2, bounds: [0, 5]}}}] on [{a: 1}, {a: 2, x: 1}] => [{a: 0}, {a: 1}, {a: 2, x: 1}, {a: 4}]
//! [{$densify: {field: 'a', range: {step: 1, bounds: [0, 2]}}}] on [] => [{a: 0}, {a: 1}]
//! [{$densify: {field: 'a', partitionByFields: ['p'], range: {step: 1, bounds: 'partition'}}}] on [{p: 1, a: 1}, {p: 2, a: 2}, {p: 1, a: 3}] => [{p: 1, a: 1}, {p: 1, a: 2}, {p: 1, a: 3}, {p: 2, a: 2}]
//! [{$densify: {field: 'a', partitionByFields: ['p'], range: {step: 1, bounds: 'full'}}}] on [{p: 1, a: 1}, {p: 2, a: 2}] => [{p: 1, a: 1}, {p: 2, a: 1}, {p: 2, a: 2}, {p: 1, a: 2}]
//! [{$densify: {field: 't', range: {step: 1, unit: 'month', bounds: 'full'}}}] on [{t: Date("2021-01-31T00:00:00Z")}, {t: Date("2021-03-31T00:00:00Z")}] => [{t: Date("2021-01-31T00:00:00Z")}, {t: Date("2021-02-28T00:00:00Z")}, {t: Date("2021-03-31T00:00:00Z")}]
//! [{$densify: {field: 'a', range: {step: 0.5, bounds: 'full'}}}] on [{x: 1}, {a: null}, {a: 1}, {a: 2}] => [{x: 1}, {a: null}, {a: 1}, {a: 1.5}, {a: 2}]
//! [{$densify: {field: 'a', range: {step: 1, bounds: 'full'}}}] on [{a: 'x'}] => error 5733201: Densify field type must be numeric or a date
//! [{$densify: {field: 'a', range: {step: 1, bounds: 'full'}}}] on [{a: Date(0)}] => error 6053600: Encountered date densify value in collection when step does not have a date unit
//! [{$densify: {field: 'a', range: {step: 1, unit: 'day', bounds: 'full'}}}] on [{a: 1}] => error 6053600: Encountered numeric densify value in collection when step has a date unit
//! [{$densify: {field: 'a', range: {step: 1, bounds: 'full'}}}] on [{a: 0}, {a: 1000000}] => error 5897900: Generated 500001 documents in $densify, which is over the limit of 500000. Increase the 'internalQueryMaxAllowedDensifyDocs' parameter to allow more generated documents
//! [{$densify: 1}] => error 5733201: $densify specification must be an object, found int
//! [{$densify: {field: 'a'}}] => error 40414: BSON field '$densify.range' is missing but a required field
//! [{$densify: {field: 'a', range: {step: 0, bounds: 'full'}}}] => error 5733401: The step parameter in a range statement must be a strictly positive numeric value
//! [{$densify: {field: 'a', range: {step: 1.5, unit: 'day', bounds: 'full'}}}] => error 6586400: The step parameter in a range statement must be a whole number when densifying a date range
//! [{$densify: {field: 'a', range: {step: 1, bounds: 'x'}}}] => error 5946802: Bounds string must either be 'full' or 'partition'
//! [{$densify: {field: 'a', range: {step: 1, bounds: 'partition'}}}] => error 5733408: one may not specify the bounds as 'partition' without specifying a non-empty array of partitionByFields. You may have meant to specify 'full' bounds.
//! [{$densify: {field: 'a', range: {step: 1, bounds: [1]}}}] => error 5733403: A bounding array in a range statement must have exactly two elements
//! [{$densify: {field: 'a', range: {step: 1, bounds: [2, 1]}}}] => error 5733402: A bounding array must be an ascending array of either two dates or two numbers
//! ```
//!
//! Its input is sorted by the field, with bounds of partitions by those first. New documents precede the next document of their partition, the rest follow at the end.

use std::sync::Arc;

use arbor_bson::keystring::KeyBuilder;
use arbor_bson::{Array, Doc, DocBuf, Number, ValueRef};
use hashbrown::HashMap;

use super::Stage;
use super::flow::{Flow, FlowStage};
use crate::document::with_value;
use crate::expression::date::Zone;
use crate::expression::{Evaluated, Unit};
use crate::sort::SortPart;
use crate::window::{Place, order};
use crate::{Code, Collation, Context, Error, Path, Result, SortPattern, field_path, number, text};

/// MongoDB's limit on the documents that it makes.
const MADE_MAX: u64 = 500_000;

#[derive(Clone, Debug)]
struct Densify {
    field: Path,
    partition_by: Vec<Path>,
    step: Number,
    unit: Option<Unit>,
    bounds: Bounds,
    collation: Collation,
}

#[derive(Clone, Copy, Debug)]
enum Bounds {
    Full,
    Partition,
    /// The upper end is not part of it.
    Between(Place, Place),
}

pub(super) fn parse(spec: ValueRef, context: &Context) -> Result<[Stage; 2]> {
    let ValueRef::Document(spec) = spec else {
        let found = text::type_name(Some(spec));
        return Err(Error::location(5733201, format!("$densify specification must be an object, found {found}")));
    };
    check_fields("$densify", spec, &["field", "partitionByFields", "range"])?;
    let ValueRef::String(field) = require("$densify", spec, "field")? else {
        return Err(Error::type_mismatch("BSON field '$densify.field' must be a string"));
    };
    let field = field_path::parse(field)?;
    let ValueRef::Document(range) = require("$densify", spec, "range")? else {
        return Err(Error::type_mismatch("BSON field '$densify.range' must be an object"));
    };
    let partition_by = match spec.get("partitionByFields") {
        None => Vec::new(),
        Some(ValueRef::Array(names)) => names.iter().map(partition_field).collect::<Result<_>>()?,
        Some(_) => return Err(Error::type_mismatch("BSON field '$densify.partitionByFields' must be an array")),
    };
    let stage = read_range(range, field, partition_by, &context.collation)?;
    let partitions = match stage.bounds {
        Bounds::Partition => stage.partition_by.as_slice(),
        Bounds::Full | Bounds::Between(..) => &[],
    };
    let paths = partitions.iter().chain([&stage.field]).cloned();
    let order = SortPattern::of_parts(paths.map(|path| SortPart::of_path(path, false)).collect(), &context.collation);
    Ok([Stage::Sort(order), Stage::Flow(Arc::new(stage))])
}

fn partition_field(name: ValueRef) -> Result<Path> {
    match name {
        ValueRef::String(name) => field_path::parse(name),
        _ => Err(Error::type_mismatch("'partitionByFields' must be an array of strings")),
    }
}

fn read_range(range: Doc, field: Path, partition_by: Vec<Path>, collation: &Collation) -> Result<Densify> {
    check_fields("$densify.range", range, &["step", "unit", "bounds"])?;
    let step = require("$densify.range", range, "step")?;
    let positive = Number::of(step).filter(|step| step.to_f64() > 0.0 && step.to_f64().is_finite());
    let step = positive.ok_or_else(|| {
        let message = "The step parameter in a range statement must be a strictly positive numeric value";
        Error::location(5733401, message)
    })?;
    let unit = range.get("unit").map(|unit| Unit::of("$densify", &Evaluated::Borrowed(unit), 5733404)).transpose()?;
    if unit.is_some() && step.to_i64_exact().is_none() {
        let message = "The step parameter in a range statement must be a whole number when densifying a date range";
        return Err(Error::location(6586400, message));
    }
    let bounds = match require("$densify.range", range, "bounds")? {
        ValueRef::String("full") => Bounds::Full,
        ValueRef::String("partition") if partition_by.is_empty() => {
            let message = "one may not specify the bounds as 'partition' without specifying a non-empty array of \
                           partitionByFields. You may have meant to specify 'full' bounds.";
            return Err(Error::location(5733408, message));
        }
        ValueRef::String("partition") => Bounds::Partition,
        ValueRef::Array(ends) => between(ends, unit)?,
        _ => return Err(Error::location(5946802, "Bounds string must either be 'full' or 'partition'")),
    };
    Ok(Densify { field, partition_by, step, unit, bounds, collation: collation.clone() })
}

fn between(ends: Array, unit: Option<Unit>) -> Result<Bounds> {
    let (Some(low), Some(high), 2) = (ends.get(0), ends.get(1), ends.len()) else {
        let message = "A bounding array in a range statement must have exactly two elements";
        return Err(Error::location(5733403, message));
    };
    let place = |end: ValueRef| match (end, unit) {
        (ValueRef::DateTime(millis), Some(_)) => Some(Place::Date(millis)),
        (ValueRef::DateTime(_), None) => None,
        (other, None) if !number::is_nan(other) => Number::of(other).map(Place::Number),
        _ => None,
    };
    let is_place = |end: ValueRef| matches!(end, ValueRef::DateTime(_)) || Number::of(end).is_some();
    match (place(low), place(high)) {
        (None, _) | (_, None) if !is_place(low) || !is_place(high) => {
            let message = "A bounding array must be an ascending array of either two dates or two numbers";
            Err(Error::location(5733402, message))
        }
        (Some(low), Some(high)) if order(low, high).is_le() => Ok(Bounds::Between(low, high)),
        (Some(_), Some(_)) => {
            let message = "A bounding array must be an ascending array of either two dates or two numbers";
            Err(Error::location(5733402, message))
        }
        _ => {
            let message =
                "A bounding array must contain either both dates, with a unit, or both numeric types, without";
            Err(Error::location(5733406, message))
        }
    }
}

fn check_fields(of: &str, spec: Doc, known: &[&str]) -> Result<()> {
    match spec.iter().find(|(name, _)| !known.contains(name)) {
        Some((name, _)) => Err(Error::location(40415, format!("BSON field '{of}.{name}' is an unknown field."))),
        None => Ok(()),
    }
}

fn require<'v>(of: &str, spec: Doc<'v>, name: &str) -> Result<ValueRef<'v>> {
    let missing = || Error::location(40414, format!("BSON field '{of}.{name}' is missing but a required field"));
    spec.get(name).ok_or_else(missing)
}

impl Densify {
    /// Returns the place that many steps after another one.
    fn point(&self, base: Place, steps: i64) -> Result<Place> {
        match (base, self.unit) {
            (Place::Date(millis), Some(unit)) => {
                let overflow = || Error::new(Code::DURATION_OVERFLOW, "$densify: a date is out of range");
                let amount = self.step.to_i64_exact().and_then(|step| step.checked_mul(steps));
                let later = amount.and_then(|amount| Zone::utc().later(millis, unit, amount));
                Ok(Place::Date(later.ok_or_else(overflow)?))
            }
            (Place::Number(base), _) => {
                let steps = i32::try_from(steps).map_or(Number::Int64(steps), Number::Int32);
                Ok(Place::Number(base + self.step * steps))
            }
            (base, None) => Ok(base),
        }
    }

    /// None: the document has no value to be densified by.
    fn place_of(&self, doc: Doc) -> Result<Option<Place>> {
        match (self.field.get_strict(doc), self.unit) {
            (None | Some(ValueRef::Null | ValueRef::Undefined), _) => Ok(None),
            (Some(ValueRef::DateTime(millis)), Some(_)) => Ok(Some(Place::Date(millis))),
            (Some(ValueRef::DateTime(_)), None) => {
                let message = "Encountered date densify value in collection when step does not have a date unit";
                Err(Error::location(6053600, message))
            }
            (Some(value), unit) => match (Number::of(value), unit) {
                (Some(number), None) => Ok(Some(Place::Number(number))),
                (Some(_), Some(_)) => {
                    let message = "Encountered numeric densify value in collection when step has a date unit";
                    Err(Error::location(6053600, message))
                }
                (None, _) => Err(Error::location(5733201, "Densify field type must be numeric or a date")),
            },
        }
    }
}

impl FlowStage for Densify {
    fn name(&self) -> &'static str {
        "$densify"
    }

    fn start(&self) -> Box<dyn Flow> {
        Box::new(Filling {
            stage: self.clone(),
            by_key: HashMap::new(),
            partitions: Vec::new(),
            ends: None,
            filling: None,
            behind: None,
            rest: None,
            made: 0,
            bytes: 0,
        })
    }
}

struct Partition {
    /// The partition's fields.
    fields: DocBuf,
    base: Place,
    /// Steps from the base to the next point without a document.
    steps: i64,
}

struct Filling {
    stage: Densify,
    by_key: HashMap<Vec<u8>, usize>,
    partitions: Vec<Partition>,
    /// The first and the last place of all documents.
    ends: Option<(Place, Place)>,
    /// The partition that is being filled, and up to where; with the end itself, or without.
    filling: Option<(usize, Place, bool)>,
    /// The document that comes then.
    behind: Option<DocBuf>,
    /// After the last document: the partition that is filled next.
    rest: Option<usize>,
    made: u64,
    bytes: usize,
}

impl Filling {
    fn partition(&mut self, doc: Doc, base: Place) -> usize {
        let mut key = KeyBuilder::new();
        let mut fields = DocBuf::new();
        for path in &self.stage.partition_by {
            let value = path.get_strict(doc);
            self.stage.collation.push_key(&mut key, value.unwrap_or(ValueRef::Null), false);
            if value.is_some() {
                fields = with_value(fields.as_doc(), path.components(), value);
            }
        }
        let key = key.finish().bytes;
        if let Some(at) = self.by_key.get(&key) {
            // equal values may differ under a collation: new documents have those of the document that follows them
            if let Some(known) = self.partitions.get_mut(*at).filter(|_| !self.stage.collation.is_simple()) {
                known.fields = fields;
            }
            return *at;
        }
        self.bytes += key.len() + fields.as_bytes().len() + 128;
        self.partitions.push(Partition { fields, base, steps: 0 });
        self.by_key.insert(key, self.partitions.len() - 1);
        self.partitions.len() - 1
    }

    /// The next new document on the way to the end that is being filled to.
    fn make(&mut self) -> Result<Option<DocBuf>> {
        let Some((at, end, inclusive)) = self.filling else { return Ok(None) };
        let Some(partition) = self.partitions.get_mut(at) else { return Ok(None) };
        let point = self.stage.point(partition.base, partition.steps)?;
        let order = order(point, end);
        if order.is_gt() || (order.is_eq() && !inclusive) {
            if order.is_eq() {
                partition.steps += 1;
            }
            self.filling = None;
            return Ok(None);
        }
        partition.steps += 1;
        self.made += 1;
        if self.made > MADE_MAX {
            let made = self.made;
            let message = format!(
                "Generated {made} documents in $densify, which is over the limit of {MADE_MAX}. Increase the \
                 'internalQueryMaxAllowedDensifyDocs' parameter to allow more generated documents"
            );
            return Err(Error::location(5897900, message));
        }
        let value = match point {
            Place::Number(number) => number.as_value(),
            Place::Date(millis) => ValueRef::DateTime(millis),
        };
        Ok(Some(with_value(partition.fields.as_doc(), self.stage.field.components(), Some(value))))
    }

    /// Starts filling the next partition after its last document; false if none is left.
    fn fill_next_rest(&mut self) -> bool {
        let Some(at) = self.rest.filter(|at| *at < self.partitions.len()) else { return false };
        self.rest = Some(at + 1);
        self.filling = match (self.stage.bounds, self.ends) {
            (Bounds::Full, Some((_, last))) => Some((at, last, true)),
            (Bounds::Between(_, high), _) => Some((at, high, false)),
            _ => None,
        };
        true
    }
}

impl Flow for Filling {
    fn feed(&mut self, doc: DocBuf) -> Result<()> {
        if let Some(place) = self.stage.place_of(doc.as_doc())? {
            let first = self.ends.map_or(place, |(first, _)| first);
            self.ends = Some((first, place));
            let (base, end) = match self.stage.bounds {
                Bounds::Full => (first, place),
                Bounds::Partition => (place, place),
                Bounds::Between(low, high) => (low, if order(place, high).is_lt() { place } else { high }),
            };
            let at = self.partition(doc.as_doc(), base);
            self.filling = Some((at, end, false));
        }
        self.behind = Some(doc);
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        if let (Bounds::Between(low, _), true, true) =
            (self.stage.bounds, self.partitions.is_empty(), self.stage.partition_by.is_empty())
        {
            self.partition(Doc::empty(), low);
        }
        self.rest = Some(0);
        Ok(())
    }

    fn next(&mut self) -> Result<Option<DocBuf>> {
        loop {
            if let Some(made) = self.make()? {
                return Ok(Some(made));
            }
            if let Some(doc) = self.behind.take() {
                return Ok(Some(doc));
            }
            if !self.fill_next_rest() {
                return Ok(None);
            }
        }
    }

    fn size_bytes(&self) -> usize {
        self.bytes
    }

    fn too_large(&self, allowed_bytes: usize) -> Error {
        let message = format!("$densify exceeded memory limit of {allowed_bytes}");
        Error::location(6007200, message)
    }
}
