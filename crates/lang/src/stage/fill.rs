//! `$fill`: values in the place of null and missing ones.
//!
//! ```text
//! [{$fill: {output: {a: {value: 0}, b: {value: {$add: ['$c', 1]}}}}}] on [{a: null, c: 1}, {a: 5, b: 6}] => [{a: 0, c: 1, b: 2}, {a: 5, b: 6}]
//! [{$fill: {sortBy: {x: 1}, output: {a: {method: 'locf'}}}}] on [{x: 1, a: 7}, {x: 3}, {x: 2, a: null}] => [{x: 1, a: 7}, {x: 2, a: 7}, {x: 3, a: 7}]
//! [{$fill: {sortBy: {x: 1}, output: {a: {method: 'linear'}}}}] on [{x: 1, a: 10}, {x: 2}, {x: 3, a: 30}] => [{x: 1, a: 10}, {x: 2, a: 20.0}, {x: 3, a: 30}]
//! [{$fill: {partitionByFields: ['p'], sortBy: {x: 1}, output: {a: {method: 'locf'}}}}] on [{p: 1, x: 1, a: 7}, {p: 2, x: 2}, {p: 1, x: 3}] => [{p: 1, x: 1, a: 7}, {p: 1, x: 3, a: 7}, {p: 2, x: 2, a: null}]
//! [{$fill: {partitionBy: {y: '$p'}, sortBy: {x: 1}, output: {a: {method: 'locf'}, b: {value: 1}}}}] on [{p: 1, x: 1, a: 7}] => [{p: 1, x: 1, a: 7, b: 1}]
//! [{$fill: 1}] => error 6050200: the $fill stage specification must be an object, found int
//! [{$fill: {sortBy: {x: 1}}}] => error 40414: BSON field '$fill.output' is missing but a required field
//! [{$fill: {output: {a: {}}}}] => error 6050201: Each fill output specification must have exactly one of 'value' or 'method'
//! [{$fill: {output: {a: {method: 'x'}}}}] => error 6050202: Method must be either locf or linear
//! [{$fill: {output: {a: {method: 'locf'}}}}] on [{a: 7}, {}] => [{a: 7}, {a: 7}]
//! [{$fill: {partitionBy: '$a', partitionByFields: ['a'], output: {a: {value: 1}}}}] => error 6050204: Maximum one of 'partitionBy' and 'partitionByFields can be specified in '$fill'
//! ```
//!
//! It is a `$setWindowFields` for the methods and an `$addFields` for the values.

use arbor_bson::{Array, ArrayBuf, Doc, DocBuf, ValueRef};

use super::{Stage, add_fields, set_window_fields};
use crate::{Context, Error, Result, field_path, text};

pub(super) fn parse(spec: ValueRef, context: &Context) -> Result<Vec<Stage>> {
    let ValueRef::Document(spec) = spec else {
        let found = text::type_name(Some(spec));
        return Err(Error::location(
            6050200,
            format!("the $fill stage specification must be an object, found {found}"),
        ));
    };
    let known = ["partitionBy", "partitionByFields", "sortBy", "output"];
    if let Some((name, _)) = spec.iter().find(|(name, _)| !known.contains(name)) {
        return Err(Error::location(40415, format!("BSON field '$fill.{name}' is an unknown field.")));
    }
    let Some(ValueRef::Document(output)) = spec.get("output") else {
        return Err(Error::location(40414, "BSON field '$fill.output' is missing but a required field"));
    };
    let (functions, values) = read_output(output)?;
    let mut windows = DocBuf::new();
    match (spec.get("partitionBy"), spec.get("partitionByFields")) {
        (Some(_), Some(_)) => {
            let message = "Maximum one of 'partitionBy' and 'partitionByFields can be specified in '$fill'";
            return Err(Error::location(6050204, message));
        }
        (Some(by), None) => {
            windows.append("partitionBy", by);
        }
        (None, Some(ValueRef::Array(names))) => {
            windows.append("partitionBy", &partition(names)?);
        }
        (None, Some(_)) => return Err(Error::type_mismatch("BSON field '$fill.partitionByFields' must be an array")),
        (None, None) => {}
    }
    if let Some(sort_by) = spec.get("sortBy") {
        windows.append("sortBy", sort_by);
    }
    let mut stages = Vec::new();
    if !functions.as_doc().is_empty() {
        windows.append("output", &functions);
        stages.extend(set_window_fields::parse((&windows).into(), context)?);
    }
    if !values.as_doc().is_empty() {
        stages.push(Stage::Map(add_fields::parse("$addFields", (&values).into(), context)?));
    }
    Ok(stages)
}

/// Window functions by field, and values by field.
fn read_output(output: Doc) -> Result<(DocBuf, DocBuf)> {
    let (mut functions, mut values) = (DocBuf::new(), DocBuf::new());
    for (name, how) in output {
        let wrong = || {
            let message = "Each fill output specification must have exactly one of 'value' or 'method'";
            Error::location(6050201, message)
        };
        let ValueRef::Document(how) = how else { return Err(wrong()) };
        let own = format!("${name}");
        match (how.get("value"), how.get("method"), how.iter().count()) {
            (Some(value), None, 1) => {
                let mut either = ArrayBuf::new();
                either.push(own.as_str()).push(value);
                values.append(name, &DocBuf::new().with("$ifNull", &either));
            }
            (None, Some(method), 1) => {
                let function = match method {
                    ValueRef::String("locf") => "$locf",
                    ValueRef::String("linear") => "$linearFill",
                    _ => return Err(Error::location(6050202, "Method must be either locf or linear")),
                };
                functions.append(name, &DocBuf::new().with(function, own.as_str()));
            }
            _ => return Err(wrong()),
        }
    }
    Ok((functions, values))
}

/// Returns an expression that partitions documents by these fields.
fn partition(names: Array) -> Result<DocBuf> {
    let mut by = DocBuf::new();
    for (at, name) in names.iter().enumerate() {
        let ValueRef::String(name) = name else {
            return Err(Error::type_mismatch("'partitionByFields' must be an array of strings"));
        };
        field_path::parse(name)?;
        by.append(&at.to_string(), format!("${name}").as_str());
    }
    Ok(by)
}
