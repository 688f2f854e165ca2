//! `$bucket`: a group for each range between two boundaries, in order of the boundaries.
//!
//! ```text
//! [{$bucket: {groupBy: '$a', boundaries: [0, 10, 20]}}] on [{a: 3}, {a: 10}, {a: 9}] => [{_id: 0, count: 2}, {_id: 10, count: 1}]
//! [{$bucket: {groupBy: '$a', boundaries: [0, 10], default: 'other', output: {all: {$push: '$a'}}}}] on [{a: 3}, {a: 10}, {}] => [{_id: 0, all: [3]}, {_id: 'other', all: [10]}]
//! [{$bucket: {groupBy: {$year: '$a'}, boundaries: [1970, 1980], default: 0}}] on [{a: Date(0)}] => [{_id: 1970, count: 1}]
//! [{$bucket: {groupBy: '$a', boundaries: [0, 10]}}] on [{a: 11}] => error 40066: $switch could not find a matching branch for an input, and no default was specified.
//! [{$bucket: 1}] => error 40201: Argument to $bucket stage must be an object, but found type: int.
//! [{$bucket: {groupBy: 'a', boundaries: [0, 10]}}] => error 40202: The $bucket 'groupBy' field must be defined as a $-prefixed path or an expression, but found: groupBy: "a".
//! [{$bucket: {groupBy: '$a', boundaries: 1}}] => error 40200: The $bucket 'boundaries' field must be an array, but found type: int.
//! [{$bucket: {groupBy: '$a', boundaries: ['$b', 1]}}] => error 40191: The $bucket 'boundaries' field must be an array of constant values, but found value: "$b".
//! [{$bucket: {groupBy: '$a', boundaries: ['$$NOW', 1]}}] => error 40191: The $bucket 'boundaries' field must be an array of constant values, but found value: "$$NOW".
//! [{$bucket: {groupBy: '$a', boundaries: [1]}}] => error 40192: The $bucket 'boundaries' field must have at least 2 values, but found 1 value(s).
//! [{$bucket: {groupBy: '$a', boundaries: [1, 'x']}}] => error 40193: All values in the 'boundaries' option to $bucket must have the same type. Found conflicting types int and string.
//! [{$bucket: {groupBy: '$a', boundaries: [2, 1]}}] => error 40194: The 'boundaries' option to $bucket must be sorted, but elements 0 and 1 are not in ascending order (2 is not less than 1).
//! [{$bucket: {groupBy: '$a', boundaries: [1, 2], default: '$b'}}] => error 40195: The $bucket 'default' field must be a constant expression, but found: default: "$b".
//! [{$bucket: {groupBy: '$a', boundaries: [1, 2], output: 1}}] => error 40196: The $bucket 'output' field must be an object, but found type: int.
//! [{$bucket: {groupBy: '$a', boundaries: [1, 2], x: 1}}] => error 40197: Unrecognized option to $bucket: x.
//! [{$bucket: {groupBy: '$a'}}] => error 40198: $bucket requires 'groupBy' and 'boundaries' to be specified.
//! [{$bucket: {groupBy: '$a', boundaries: [1, 3], default: 2}}] => error 40199: The $bucket 'default' field must be less than the lowest boundary or greater than or equal to the highest boundary.
//! ```
//!
//! It is a `$group` by a `$switch` and a `$sort` by `_id`.

use arbor_bson::{Array, ArrayBuf, DocBuf, Value, ValueRef};

use super::{Group, Stage, sort};
use crate::{Collation, Context, Error, Expression, Result, text};

pub(super) fn parse(spec: ValueRef, context: &Context) -> Result<[Stage; 2]> {
    let ValueRef::Document(spec) = spec else {
        return Err(wrong_type(40201, "Argument to $bucket stage must be an object", spec));
    };
    let (mut group_by, mut boundaries, mut default, mut output) = (None, None, None, None);
    for (name, value) in spec {
        match (name, value) {
            ("groupBy", value) => group_by = Some(group_expression(value)?),
            ("boundaries", ValueRef::Array(values)) => boundaries = Some(read_boundaries(values, context)?),
            ("boundaries", _) => {
                return Err(wrong_type(40200, "The $bucket 'boundaries' field must be an array", value));
            }
            ("default", value) => default = Some(read_default(value, context)?),
            ("output", ValueRef::Document(fields)) => output = Some(fields),
            ("output", _) => return Err(wrong_type(40196, "The $bucket 'output' field must be an object", value)),
            _ => return Err(Error::location(40197, format!("Unrecognized option to $bucket: {name}."))),
        }
    }
    let (Some(group_by), Some(boundaries)) = (group_by, boundaries) else {
        return Err(Error::location(40198, "$bucket requires 'groupBy' and 'boundaries' to be specified."));
    };
    if let Some(default) = &default {
        check_default(default, &boundaries, &context.collation)?;
    }
    let mut group = DocBuf::new().with("_id", &switch(group_by, &boundaries, default.as_ref()));
    match output {
        Some(fields) => {
            for (name, value) in fields {
                group.append(name, value);
            }
        }
        None => {
            group.append("count", &DocBuf::new().with("$sum", 1));
        }
    }
    let order = DocBuf::new().with("_id", 1);
    Ok([Stage::Group(Group::parse((&group).into(), context)?), Stage::Sort(sort::parse((&order).into(), context)?)])
}

fn group_expression(value: ValueRef) -> Result<ValueRef> {
    match value {
        ValueRef::String(path) if path.starts_with('$') => Ok(value),
        ValueRef::Document(doc) if doc.first().is_some_and(|(name, _)| name.starts_with('$')) => Ok(value),
        _ => {
            let found = text::field("groupBy", value);
            let message = format!(
                "The $bucket 'groupBy' field must be defined as a $-prefixed path or an expression, but found: {found}."
            );
            Err(Error::location(40202, message))
        }
    }
}

fn read_boundaries(values: Array, context: &Context) -> Result<Vec<Value>> {
    let mut boundaries: Vec<Value> = Vec::new();
    for value in values.iter() {
        let Some(constant) = constant(value, context)? else {
            let shown = text::shell(value);
            let message = format!(
                "The $bucket 'boundaries' field must be an array of constant values, but found value: {shown}."
            );
            return Err(Error::location(40191, message));
        };
        boundaries.push(constant);
    }
    if boundaries.len() < 2 {
        let found = boundaries.len();
        let message =
            format!("The $bucket 'boundaries' field must have at least 2 values, but found {found} value(s).");
        return Err(Error::location(40192, message));
    }
    boundaries.windows(2).enumerate().try_for_each(|(at, pair)| match pair {
        [low, high] => check_pair(at, low.as_ref(), high.as_ref(), &context.collation),
        _ => Ok(()),
    })?;
    Ok(boundaries)
}

fn check_pair(at: usize, low: ValueRef, high: ValueRef, collation: &Collation) -> Result<()> {
    if low.canonical_type() != high.canonical_type() {
        let (one, other) = (text::type_name(Some(low)), text::type_name(Some(high)));
        let message = format!(
            "All values in the 'boundaries' option to $bucket must have the same type. Found conflicting types {one} \
             and {other}."
        );
        return Err(Error::location(40193, message));
    }
    if !collation.compare(low, high).is_lt() {
        let (i, j) = (at, at + 1);
        let message = format!(
            "The 'boundaries' option to $bucket must be sorted, but elements {i} and {j} are not in ascending order \
             ({} is not less than {}).",
            text::shell(low),
            text::shell(high)
        );
        return Err(Error::location(40194, message));
    }
    Ok(())
}

fn read_default(value: ValueRef, context: &Context) -> Result<Value> {
    match constant(value, context)? {
        Some(constant) => Ok(constant),
        None => {
            let found = text::field("default", value);
            let message = format!("The $bucket 'default' field must be a constant expression, but found: {found}.");
            Err(Error::location(40195, message))
        }
    }
}

/// Returns the value of a constant expression; the time of the command is none.
fn constant(value: ValueRef, context: &Context) -> Result<Option<Value>> {
    match value {
        ValueRef::String("$$NOW" | "$$CLUSTER_TIME") => Ok(None),
        value => Ok(Expression::parse(value, context)?.into_constant()),
    }
}

fn check_default(default: &Value, boundaries: &[Value], collation: &Collation) -> Result<()> {
    let default = default.as_ref();
    let below = boundaries.first().is_some_and(|lowest| collation.compare(default, lowest.as_ref()).is_lt());
    let above = boundaries.last().is_some_and(|highest| collation.compare(default, highest.as_ref()).is_ge());
    if below || above {
        return Ok(());
    }
    let message = "The $bucket 'default' field must be less than the lowest boundary or greater than or equal to the \
                   highest boundary.";
    Err(Error::location(40199, message))
}

fn switch(group_by: ValueRef, boundaries: &[Value], default: Option<&Value>) -> DocBuf {
    let literal = |value: &Value| DocBuf::new().with("$literal", value);
    let mut branches = ArrayBuf::new();
    for pair in boundaries.windows(2) {
        let [low, high] = pair else { continue };
        let side = |operator: &str, bound: &Value| {
            let mut sides = ArrayBuf::new();
            sides.push(group_by).push(&literal(bound));
            DocBuf::new().with(operator, &sides)
        };
        let both: ArrayBuf = [&side("$gte", low), &side("$lt", high)].into_iter().collect();
        let case = DocBuf::new().with("case", &DocBuf::new().with("$and", &both)).with("then", &literal(low));
        branches.push(&case);
    }
    let mut switch = DocBuf::new().with("branches", &branches);
    if let Some(default) = default {
        switch.append("default", &literal(default));
    }
    DocBuf::new().with("$switch", &switch)
}

fn wrong_type(code: i32, what: &str, value: ValueRef) -> Error {
    Error::location(code, format!("{what}, but found type: {}.", text::type_name(Some(value))))
}
