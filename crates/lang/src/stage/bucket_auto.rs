//! `$bucketAuto`: groups of about equal size along the values of an expression.
//!
//! ```text
//! [{$bucketAuto: {groupBy: '$a', buckets: 2}}] on [{a: 4}, {a: 1}, {a: 3}, {a: 2}] => [{_id: {min: 1, max: 3}, count: 2}, {_id: {min: 3, max: 4}, count: 2}]
//! [{$bucketAuto: {groupBy: '$x', buckets: 4}}] on [{x: 10}, {x: 2}, {x: 5}] => [{_id: {min: 2, max: 5}, count: 1}, {_id: {min: 5, max: 10}, count: 1}, {_id: {min: 10, max: 10}, count: 1}]
//! [{$bucketAuto: {groupBy: '$a', buckets: 2}}] on [{a: 1}, {a: 1}, {a: 1}, {a: 2}] => [{_id: {min: 1, max: 2}, count: 3}, {_id: {min: 2, max: 2}, count: 1}]
//! [{$bucketAuto: {groupBy: '$a', buckets: 1, output: {s: {$sum: '$a'}}}}] on [{a: 1}, {a: 2}] => [{_id: {min: 1, max: 2}, s: 3}]
//! [{$bucketAuto: {groupBy: '$a', buckets: 2, granularity: '1-2-5'}}] on [{a: 3}, {a: 4}, {a: 7}, {a: 8}] => [{_id: {min: 2.0, max: 5.0}, count: 2}, {_id: {min: 5.0, max: 10.0}, count: 2}]
//! [{$bucketAuto: {groupBy: '$a', buckets: 2}}] on [] => []
//! [{$bucketAuto: {groupBy: '$a', buckets: 1, granularity: 'R5'}}] on [{a: 'x'}] => error 40258: $bucketAuto can specify a 'granularity' with numeric boundaries only, but found a value with type: string
//! [{$bucketAuto: {groupBy: '$a', buckets: 1, granularity: 'R5'}}] on [{a: -1}] => error 40260: $bucketAuto can specify a 'granularity' with non-negative numbers only, but found a negative number
//! [{$bucketAuto: 1}] => error 40240: The argument to $bucketAuto must be an object, but found type: int.
//! [{$bucketAuto: {groupBy: 'a', buckets: 1}}] => error 40239: The $bucketAuto 'groupBy' field must be defined as a $-prefixed path or an expression object, but found: "a"
//! [{$bucketAuto: {groupBy: '$a', buckets: 'x'}}] => error 40241: The $bucketAuto 'buckets' field must be a numeric value, but found type: string.
//! [{$bucketAuto: {groupBy: '$a', buckets: 1.5}}] => error 40242: The $bucketAuto 'buckets' field must be representable as a 32-bit integer, but found 1.5.
//! [{$bucketAuto: {groupBy: '$a', buckets: 0}}] => error 40243: The $bucketAuto 'buckets' field must be greater than 0, but found: 0.
//! [{$bucketAuto: {groupBy: '$a', buckets: 1, output: 1}}] => error 40244: The $bucketAuto 'output' field must be an object, but found type: int.
//! [{$bucketAuto: {groupBy: '$a', buckets: 1, granularity: 1}}] => error 40261: The $bucketAuto 'granularity' field must be a string, but found type: int.
//! [{$bucketAuto: {groupBy: '$a', buckets: 1, granularity: 'R7'}}] => error 40257: Unknown rounding granularity 'R7'
//! [{$bucketAuto: {groupBy: '$a', buckets: 1, x: 1}}] => error 40245: Unrecognized option to $bucketAuto: x.
//! [{$bucketAuto: {groupBy: '$a'}}] => error 40246: $bucketAuto requires 'groupBy' and 'buckets' to be specified.
//! ```
//!
//! The input is sorted by the expression. A bucket takes its share of the documents and then those that its last value
//! or its rounded boundary covers; its `max` is the `min` of the next one.

use std::sync::Arc;

use arbor_bson::{DocBuf, Value, ValueRef};

use super::accumulated::{FieldStates, Fields};
use super::flow::{Flow, FlowStage};
use super::granularity::Granularity;
use super::{Arrange, Stage};
use crate::expression::Environment;
use crate::{Code, Collation, Context, Error, Expression, Result, SortPattern, number, text};

#[derive(Clone, Debug)]
struct BucketAuto {
    group_by: Expression,
    buckets: u64,
    granularity: Option<Granularity>,
    fields: Fields,
    collation: Collation,
}

pub(super) fn parse(spec: ValueRef, context: &Context) -> Result<[Stage; 2]> {
    let ValueRef::Document(spec) = spec else {
        return Err(wrong_type(40240, "The argument to $bucketAuto must be an object", spec));
    };
    let (mut group_by, mut buckets, mut granularity) = (None, None, None);
    let mut output = DocBuf::new().with("count", &DocBuf::new().with("$sum", 1));
    for (name, value) in spec {
        match (name, value) {
            ("groupBy", value) => group_by = Some(group_expression(value, context)?),
            ("buckets", value) => buckets = Some(bucket_count(value)?),
            ("granularity", ValueRef::String(name)) => granularity = Some(Granularity::named(name)?),
            ("granularity", _) => {
                return Err(wrong_type(40261, "The $bucketAuto 'granularity' field must be a string", value));
            }
            ("output", ValueRef::Document(fields)) => output = fields.to_buf(),
            ("output", _) => return Err(wrong_type(40244, "The $bucketAuto 'output' field must be an object", value)),
            _ => return Err(Error::location(40245, format!("Unrecognized option to $bucketAuto: {name}."))),
        }
    }
    let (Some(group_by), Some(buckets)) = (group_by, buckets) else {
        return Err(Error::location(40246, "$bucketAuto requires 'groupBy' and 'buckets' to be specified."));
    };
    let fields = Fields::parse(output.as_doc(), context)?;
    let order = Arrange { by: group_by.clone(), pattern: SortPattern::of_parts(Vec::new(), &context.collation) };
    let stage = BucketAuto { group_by, buckets, granularity, fields, collation: context.collation.clone() };
    Ok([Stage::Arrange(order), Stage::Flow(Arc::new(stage))])
}

fn group_expression(value: ValueRef, context: &Context) -> Result<Expression> {
    match value {
        ValueRef::String(path) if path.starts_with('$') && path.len() > 1 => Expression::parse(value, context),
        ValueRef::Document(doc) if doc.first().is_some_and(|(name, _)| name.starts_with('$')) => {
            Expression::parse(value, context)
        }
        _ => {
            let found = text::shell(value);
            let message = format!(
                "The $bucketAuto 'groupBy' field must be defined as a $-prefixed path or an expression object, but \
                 found: {found}"
            );
            Err(Error::location(40239, message))
        }
    }
}

fn bucket_count(value: ValueRef) -> Result<u64> {
    if !number::is_number(value) {
        return Err(wrong_type(40241, "The $bucketAuto 'buckets' field must be a numeric value", value));
    }
    let shown = text::shell(value);
    match number::exact_i32(value) {
        Some(count) if count > 0 => Ok(count as u64),
        Some(_) => {
            let message = format!("The $bucketAuto 'buckets' field must be greater than 0, but found: {shown}.");
            Err(Error::location(40243, message))
        }
        None => {
            let message = format!(
                "The $bucketAuto 'buckets' field must be representable as a 32-bit integer, but found {shown}."
            );
            Err(Error::location(40242, message))
        }
    }
}

fn wrong_type(code: i32, what: &str, value: ValueRef) -> Error {
    Error::location(code, format!("{what}, but found type: {}.", text::type_name(Some(value))))
}

impl FlowStage for BucketAuto {
    fn name(&self) -> &'static str {
        "$bucketAuto"
    }

    fn start(&self) -> Box<dyn Flow> {
        Box::new(Filling { stage: self.clone(), share: 1, begun: 0, current: None, last_max: None, done: None })
    }
}

struct Filling {
    stage: BucketAuto,
    /// Documents that a bucket takes at least.
    share: u64,
    /// Buckets begun so far.
    begun: u64,
    current: Option<Bucket>,
    /// Upper end of the bucket before, where a granularity makes it the lower one of the next.
    last_max: Option<Value>,
    done: Option<DocBuf>,
}

struct Bucket {
    min: Value,
    max: Value,
    count: u64,
    states: FieldStates,
}

impl Filling {
    /// Returns true if the current bucket takes a document with this value.
    fn takes(&self, bucket: &Bucket, value: ValueRef) -> bool {
        if bucket.count < self.share || self.begun == self.stage.buckets {
            return true;
        }
        match self.stage.granularity {
            Some(granularity) => arbor_bson::compare(granularity.above(bucket.max.as_ref()).as_ref(), value).is_gt(),
            None => self.stage.collation.equal(bucket.max.as_ref(), value),
        }
    }

    /// Closes the current bucket; `next` is the first value after it.
    fn close(&mut self, next: Option<ValueRef>) {
        let Some(bucket) = self.current.take() else { return };
        let max = match (self.stage.granularity, next) {
            (Some(granularity), _) => granularity.above(bucket.max.as_ref()),
            (None, Some(next)) => next.to_value(),
            (None, None) => bucket.max,
        };
        let range = DocBuf::new().with("min", &bucket.min).with("max", &max);
        let mut doc = DocBuf::new().with("_id", &range);
        bucket.states.finish(&self.stage.fields, &mut doc);
        self.last_max = Some(max);
        self.done = Some(doc);
    }

    fn open(&mut self, value: ValueRef) -> Bucket {
        let min = match (self.stage.granularity, self.last_max.take()) {
            (Some(_), Some(max)) => max,
            (Some(granularity), None) => granularity.below(value),
            (None, _) => value.to_value(),
        };
        self.begun += 1;
        Bucket { min, max: value.to_value(), count: 0, states: self.stage.fields.start() }
    }
}

impl Flow for Filling {
    fn expect(&mut self, documents: u64) {
        self.share = ((documents as f64 / self.stage.buckets as f64).round() as u64).max(1);
    }

    fn feed(&mut self, doc: DocBuf) -> Result<()> {
        let stage = self.stage.group_by.clone();
        let value = stage.eval_in(&Environment::new(doc.as_doc()))?;
        let value = value.or_null();
        if let Some(granularity) = self.stage.granularity {
            granularity.check(value)?;
        }
        if self.current.as_ref().is_some_and(|bucket| !self.takes(bucket, value)) {
            self.close(Some(value));
        }
        let mut bucket = match self.current.take() {
            Some(bucket) => bucket,
            None => self.open(value),
        };
        bucket.max = value.to_value();
        bucket.count += 1;
        bucket.states.add(&self.stage.fields, doc.as_doc())?;
        self.current = Some(bucket);
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        self.close(None);
        Ok(())
    }

    fn next(&mut self) -> Result<Option<DocBuf>> {
        Ok(self.done.take())
    }

    fn size_bytes(&self) -> usize {
        self.current.as_ref().map_or(0, |bucket| bucket.states.size_bytes())
    }

    fn too_large(&self, _allowed_bytes: usize) -> Error {
        let message = "Exceeded memory limit for $bucketAuto, but didn't allow external spilling; pass allowDiskUse:true \
                       to opt in";
        Error::new(Code::QUERY_EXCEEDED_MEMORY_LIMIT_NO_DISK_USE_ALLOWED, message)
    }
}
