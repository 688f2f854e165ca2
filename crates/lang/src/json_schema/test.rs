//! Evaluation of the rules for a value.

use std::collections::HashSet;

use arbor_bson::{ArrayBuf, DEPTH_MAX, Doc, Number, Value, ValueRef, keystring};

use super::{Allowed, Dependency, Measure, Rule, Schema, Test};
use crate::fields::Fields;
use crate::matcher::{Compare, Regex, holds};
use crate::stop::{ended, sort_by, tick, tick_for};
use crate::{Collation, Result, number};

impl Rule {
    pub(super) fn holds(&self, value: ValueRef<'_>) -> Result<bool> {
        match (&self.test, value) {
            (Test::Types(types), value) => Ok(types.contains(value.ty())),
            (Test::Bound { least, exclusive, bound }, value) if number::is_number(value) => {
                Ok(holds(comparison(*least, *exclusive), Some(value), bound, &Collation::simple()))
            }
            (Test::MultipleOf(divisor), value) => Ok(is_multiple(value, divisor)),
            (Test::Size { of, least, count }, value) => Ok(match of.of(value) {
                Some(found) if *least => found >= *count,
                Some(found) => found <= *count,
                None => true,
            }),
            (Test::Pattern(regex), ValueRef::String(text)) => regex.is_match(text),
            (Test::Enum(keys), value) => Ok(keys.contains(&unordered_key(value)?)),
            (Test::UniqueItems, ValueRef::Array(_)) => Ok(repeated_item(value)?.is_none()),
            (Test::EachItem(schema), ValueRef::Array(items)) => all(items.iter(), |item| schema.matches(item)),
            (Test::Items(schemas), ValueRef::Array(items)) => {
                all(items.iter().zip(schemas), |(item, schema)| schema.matches(item))
            }
            (Test::AdditionalItems { from, allowed }, ValueRef::Array(items)) => {
                all(items.iter().skip(*from), |item| allowed.allows(item))
            }
            (Test::Required(names), ValueRef::Document(doc)) => has_all(names, doc),
            (Test::Properties(properties), ValueRef::Document(doc)) => {
                let fields = Fields::of(doc, properties.len())?;
                all(properties.iter(), |(name, schema)| {
                    fields.get(name).map_or(Ok(true), |value| schema.matches(value))
                })
            }
            (Test::PatternProperties(patterns), ValueRef::Document(doc)) => all(patterns.iter(), |(regex, schema)| {
                all(doc.iter(), |(name, value)| Ok(!regex.is_match(name)? || schema.matches(value)?))
            }),
            (Test::AdditionalProperties { names, patterns, allowed }, ValueRef::Document(doc)) => {
                all(doc.iter(), |(name, value)| Ok(!is_additional(name, names, patterns)? || allowed.allows(value)?))
            }
            (Test::Dependencies(dependencies), ValueRef::Document(doc)) => {
                let fields = Fields::of(doc, dependencies.len())?;
                all(dependencies.iter(), |(name, dependency)| Ok(fields.get(name).is_none() || dependency.holds(doc)?))
            }
            (Test::AllOf(schemas), value) => all(schemas.iter(), |schema| schema.matches(value)),
            (Test::AnyOf(schemas), value) => Ok(!matching(schemas, value)?.is_empty()),
            (Test::OneOf(schemas), value) => Ok(matching(schemas, value)?.len() == 1),
            (Test::Not(schema), value) => Ok(!schema.matches(value)?),
            _ => Ok(true),
        }
    }
}

impl Measure {
    /// None: the value is of another type.
    pub(super) fn of(self, value: ValueRef<'_>) -> Option<u64> {
        match (self, value) {
            (Measure::Characters, ValueRef::String(text)) => Some(text.chars().count() as u64),
            (Measure::Items, ValueRef::Array(items)) => Some(items.len() as u64),
            (Measure::Properties, ValueRef::Document(doc)) => Some(doc.iter().count() as u64),
            _ => None,
        }
    }
}

impl Allowed {
    pub(super) fn allows(&self, value: ValueRef<'_>) -> Result<bool> {
        match self {
            Allowed::Nothing => Ok(false),
            Allowed::Fitting(schema) => schema.matches(value),
        }
    }
}

impl Dependency {
    /// Requires that the property is there.
    pub(super) fn holds(&self, doc: Doc<'_>) -> Result<bool> {
        match self {
            Dependency::Properties(names) => has_all(names, doc),
            Dependency::Schema(schema) => schema.matches(ValueRef::Document(doc)),
        }
    }
}

fn comparison(least: bool, exclusive: bool) -> Compare {
    match (least, exclusive) {
        (true, true) => Compare::Gt,
        (true, false) => Compare::Gte,
        (false, true) => Compare::Lt,
        (false, false) => Compare::Lte,
    }
}

fn all<T>(items: impl Iterator<Item = T>, mut holds: impl FnMut(T) -> Result<bool>) -> Result<bool> {
    for item in items {
        tick()?;
        if !holds(item)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Positions of the schemas that fit.
pub(super) fn matching(schemas: &[Schema], value: ValueRef<'_>) -> Result<Vec<usize>> {
    let mut found = Vec::new();
    for (at, schema) in schemas.iter().enumerate() {
        tick()?;
        if schema.matches(value)? {
            found.push(at);
        }
    }
    Ok(found)
}

fn has_all(names: &[String], doc: Doc<'_>) -> Result<bool> {
    let fields = Fields::of(doc, names.len())?;
    all(names.iter(), |name| Ok(fields.get(name).is_some()))
}

/// Those of the names that the document does not have.
pub(super) fn missing(names: &[String], doc: Doc<'_>) -> Result<ArrayBuf> {
    let fields = Fields::of(doc, names.len())?;
    let mut missing = ArrayBuf::new();
    for name in names {
        tick()?;
        if fields.get(name).is_none() {
            missing.push(name.as_str());
        }
    }
    Ok(missing)
}

pub(super) fn is_additional(name: &str, names: &HashSet<String>, patterns: &[Regex]) -> Result<bool> {
    if names.contains(name) {
        return Ok(false);
    }
    all(patterns.iter(), |regex| Ok(!regex.is_match(name)?))
}

/// Returns true if `value` is a multiple of `divisor`, or is no number.
fn is_multiple(value: ValueRef<'_>, divisor: &Value) -> bool {
    let (Some(value), Some(divisor)) = (Number::of(value), Number::of(divisor.as_ref())) else { return true };
    match (value, divisor) {
        (Number::Int32(_) | Number::Int64(_), Number::Int32(_) | Number::Int64(_)) => {
            let whole = |number: Number| number.to_i64_exact().unwrap_or(1);
            whole(value).checked_rem(whole(divisor)).unwrap_or(0) == 0
        }
        _ => Number::Decimal(value.to_decimal() % divisor.to_decimal()).is_zero(),
    }
}

/// Returns the first item that occurs earlier in the array, whatever the order of fields in documents.
pub(super) fn repeated_item(value: ValueRef<'_>) -> Result<Option<ValueRef<'_>>> {
    let ValueRef::Array(items) = value else { return Ok(None) };
    let mut seen = HashSet::new();
    for item in items.iter() {
        tick()?;
        if !seen.insert(unordered_key(item)?) {
            return Ok(Some(item));
        }
    }
    Ok(None)
}

/// Equal for values that compare equal when the order of fields does not count.
pub(super) fn unordered_key(value: ValueRef<'_>) -> Result<Vec<u8>> {
    let key = match value {
        ValueRef::Document(_) | ValueRef::Array(_) => {
            Collation::simple().key_of(sorted(value, DEPTH_MAX)?.as_ref()).bytes
        }
        scalar => return Ok(keystring::key_of(scalar).bytes),
    };
    ended().map(|()| key)
}

/// Returns the value with the fields of all documents in it in order of their names, up to `levels` deep: deeper ones are of
/// versions that did not limit them, and stay as they are.
fn sorted(value: ValueRef<'_>, levels: usize) -> Result<Value> {
    tick_for(value.content_bytes())?;
    let Some(levels) = levels.checked_sub(1) else { return Ok(value.to_value()) };
    match value {
        ValueRef::Document(doc) => {
            let each = doc.iter().map(|(name, value)| Ok((name, sorted(value, levels)?)));
            let mut fields = each.collect::<Result<Vec<(&str, Value)>>>()?;
            sort_by(&mut fields, |(a, _), (b, _)| a.cmp(b))?;
            Ok(Value::Document(fields.iter().map(|(name, value)| (name, value)).collect()))
        }
        ValueRef::Array(items) => {
            let items = items.iter().map(|item| sorted(item, levels)).collect::<Result<Vec<Value>>>()?;
            Ok(Value::Array(items.iter().collect::<ArrayBuf>()))
        }
        other => Ok(other.to_value()),
    }
}
