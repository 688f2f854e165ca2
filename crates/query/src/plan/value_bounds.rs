//! The values that one predicate admits, as intervals.
//!
//! B1: every document that matches a predicate has, for the predicate's path, at least one index key inside its
//! intervals. B2: when the bounds are exact, the reverse holds as well (see [`Exact`]).

use arbor_bson::{DocBuf, ObjectId, Timestamp, Value, ValueRef};
use arbor_lang::matcher::{Compare, In, Regex};
use arbor_lang::stop;

use super::interval::{Endpoint, Interval, Intervals};
use super::texts::Texts;

/// Condition under which a key inside means that its document matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Exact {
    Never,
    /// As long as each document has one key (no array on the path).
    SingleKey,
    Always,
}

#[derive(Clone, Debug)]
pub(super) struct Bounds {
    pub intervals: Intervals,
    pub exact: Exact,
    /// A document without the path cannot match (so that a sparse index has all that match).
    pub needs_field: bool,
    /// The intervals hold every match only when each document has one key.
    pub single_key_only: bool,
}

impl Bounds {
    fn exact(intervals: Intervals) -> Bounds {
        Bounds { intervals, exact: Exact::Always, needs_field: true, single_key_only: false }
    }

    fn inexact(intervals: Intervals) -> Bounds {
        Bounds { exact: Exact::Never, ..Bounds::exact(intervals) }
    }

    /// Missing, null and undefined; also what `$exists: false` may be.
    pub(super) fn absent() -> Bounds {
        Bounds { needs_field: false, ..Bounds::inexact(null_or_undefined()) }
    }

    pub(super) fn present() -> Bounds {
        Bounds::inexact(Intervals::full())
    }
}

fn null_or_undefined() -> Intervals {
    Intervals::of(vec![Interval::point(Value::Undefined), Interval::point(Value::Null)])
}

pub(super) fn of_compare(op: Compare, value: &Value, texts: Texts<'_>) -> Option<Bounds> {
    if op == Compare::Eq {
        return of_equality(value, texts);
    }
    let value = texts.value(value)?;
    match &*value {
        Value::MinKey | Value::MaxKey => Some(Bounds { needs_field: false, ..Bounds::inexact(Intervals::full()) }),
        Value::Null => Some(Bounds::absent()),
        Value::Array(_) | Value::Undefined | Value::Regex { .. } => None,
        value if is_nan(value) => {
            let numbers = Interval::new(Endpoint::included(value.clone()), number(f64::INFINITY));
            Some(Bounds::inexact(Intervals::of(vec![numbers])))
        }
        value => {
            let (low, high) = bracket(value)?;
            let interval = match op {
                Compare::Lt => Interval::new(low, Endpoint::excluded(value.clone())),
                Compare::Lte => Interval::new(low, Endpoint::included(value.clone())),
                Compare::Gt => Interval::new(Endpoint::excluded(value.clone()), high),
                Compare::Gte | Compare::Eq => Interval::new(Endpoint::included(value.clone()), high),
            };
            let intervals = Intervals::of(vec![interval]);
            Some(if is_scalar(value) { Bounds::exact(intervals) } else { Bounds::inexact(intervals) })
        }
    }
}

fn of_equality(value: &Value, texts: Texts<'_>) -> Option<Bounds> {
    let value = &*texts.value(value)?;
    match value {
        Value::Null => Some(Bounds::absent()),
        Value::Undefined => None,
        Value::Array(array) => {
            // an array in the place of the field gives a key per element, an array inside that array itself
            let first = array.as_array().get(0).map_or(Value::Undefined, ValueRef::to_value);
            let whole = Interval::point(value.clone());
            Some(Bounds::inexact(Intervals::of(vec![Interval::point(first), whole])))
        }
        Value::Regex { .. } => Some(Bounds::inexact(Intervals::point(value.clone()))),
        _ => Some(Bounds::exact(Intervals::point(value.clone()))),
    }
}

pub(super) fn of_in(membership: &In, texts: Texts<'_>) -> Option<Bounds> {
    let mut intervals = Vec::new();
    let (mut exact, mut needs_field) = (Exact::Always, true);
    for value in &membership.values {
        stop::tick().ok()?;
        let bounds = of_equality(value, texts)?;
        exact = exact.min(bounds.exact);
        needs_field &= bounds.needs_field;
        intervals.extend_from_slice(bounds.intervals.as_slice());
    }
    for regex in &membership.regexes {
        exact = Exact::Never;
        intervals.extend_from_slice(of_regex(regex, texts).intervals.as_slice());
    }
    Some(Bounds { intervals: Intervals::of(intervals), exact, needs_field, single_key_only: false })
}

pub(super) fn of_regex(regex: &Regex, texts: Texts<'_>) -> Bounds {
    let own = Value::Regex { pattern: regex.pattern.clone(), options: regex.options.clone() };
    let strings = match regex.literal_prefix().filter(|_| texts.has_prefixes()) {
        Some(prefix) => {
            let high = text_after(&prefix).map_or_else(after_strings, |text| Endpoint::excluded(Value::String(text)));
            Interval::new(Endpoint::included(Value::String(prefix)), high)
        }
        None => Interval::new(Endpoint::included(Value::String(String::new())), after_strings()),
    };
    Bounds::inexact(Intervals::of(vec![strings, Interval::point(own)]))
}

pub(super) fn of_numbers() -> Bounds {
    let numbers = Interval::new(number(f64::NAN), number(f64::INFINITY));
    Bounds::inexact(Intervals::of(vec![numbers]))
}

/// The negation of exact bounds.
pub(super) fn complement(bounds: &Bounds) -> Option<Bounds> {
    if bounds.exact == Exact::Never || bounds.single_key_only {
        return None;
    }
    Some(Bounds {
        intervals: bounds.intervals.complement(),
        exact: Exact::SingleKey,
        needs_field: false,
        single_key_only: bounds.exact == Exact::SingleKey,
    })
}

/// `{ $ne: null }` and `$nin` with a null: `others` are the bounds of the other values.
///
/// Undefined stays inside, since it is the key of an empty array, which is not null. Below an array a null key may come
/// from an element that has no such field and is not null either, hence `single_key_only`.
pub(super) fn complement_of_null(others: Option<&Bounds>) -> Option<Bounds> {
    let mut excluded = Intervals::point(Value::Null);
    if let Some(others) = others {
        if others.exact != Exact::Always {
            return None;
        }
        excluded = excluded.union(&others.intervals);
    }
    let intervals = excluded.complement();
    Some(Bounds { intervals, exact: Exact::Never, needs_field: true, single_key_only: true })
}

/// Lowest and highest value that compare with `value` by type.
fn bracket(value: &Value) -> Option<(Endpoint, Endpoint)> {
    use Endpoint as E;
    let no_object_id = ObjectId([0; 12]);
    Some(match value {
        Value::Double(_) | Value::Int32(_) | Value::Int64(_) | Value::Decimal128(_) => {
            (number(f64::NEG_INFINITY), number(f64::INFINITY))
        }
        Value::String(_) | Value::Symbol(_) => (E::included(Value::String(String::new())), after_strings()),
        Value::Document(_) => {
            let arrays = E::excluded(Value::Array(arbor_bson::ArrayBuf::new()));
            (E::included(Value::Document(DocBuf::new())), arrays)
        }
        Value::Binary { .. } => {
            let empty = Value::Binary { subtype: 0, bytes: Vec::new() };
            (E::included(empty), E::excluded(Value::ObjectId(no_object_id)))
        }
        Value::ObjectId(_) => {
            (E::included(Value::ObjectId(no_object_id)), E::included(Value::ObjectId(ObjectId([0xFF; 12]))))
        }
        Value::Bool(_) => (E::included(Value::Bool(false)), E::included(Value::Bool(true))),
        Value::DateTime(_) => (E::included(Value::DateTime(i64::MIN)), E::included(Value::DateTime(i64::MAX))),
        Value::Timestamp(_) => {
            let last = Timestamp { seconds: u32::MAX, increment: u32::MAX };
            (E::included(Value::Timestamp(Timestamp { seconds: 0, increment: 0 })), E::included(Value::Timestamp(last)))
        }
        _ => return None,
    })
}

/// Compared by the matcher exactly as keys compare.
fn is_scalar(value: &Value) -> bool {
    !matches!(value, Value::Document(_) | Value::Array(_))
}

fn number(value: f64) -> Endpoint {
    Endpoint::included(Value::Double(value))
}

fn is_nan(value: &Value) -> bool {
    match value {
        Value::Double(v) => v.is_nan(),
        Value::Decimal128(v) => v.is_nan(),
        _ => false,
    }
}

fn after_strings() -> Endpoint {
    Endpoint::excluded(Value::Document(DocBuf::new()))
}

/// The first text after all texts with this prefix.
fn text_after(prefix: &str) -> Option<String> {
    let mut text = prefix.to_owned();
    while let Some(last) = text.pop() {
        let next = (last as u32 + 1..=char::MAX as u32).find_map(char::from_u32);
        if let Some(next) = next {
            text.push(next);
            return Some(text);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use arbor_lang::Collation;

    fn plain(op: Compare, value: &Value) -> Option<Bounds> {
        of_compare(op, value, Texts::of(&Collation::simple(), &Collation::simple()))
    }

    #[track_caller]
    fn check(bounds: Option<Bounds>, texts: &[&str], exact: Exact) {
        let bounds = bounds.unwrap();
        assert_eq!(bounds.intervals.texts(false, &Collation::simple()), texts);
        assert_eq!(bounds.exact, exact);
    }

    #[test]
    fn comparisons_stay_in_their_type() {
        use Compare::*;
        let text = || Value::String("m".to_owned());
        check(plain(Lt, &Value::Int32(5)), &["[-inf.0, 5)"], Exact::Always);
        check(plain(Gte, &Value::Int32(5)), &["[5, inf.0]"], Exact::Always);
        check(plain(Lte, &text()), &["[\"\", \"m\"]"], Exact::Always);
        check(plain(Gt, &text()), &["(\"m\", {})"], Exact::Always);
        check(plain(Gt, &Value::Bool(false)), &["(false, true]"], Exact::Always);
        check(plain(Lt, &Value::Bool(false)), &[], Exact::Always);
        check(plain(Gte, &Value::Null), &["[undefined, undefined]", "[null, null]"], Exact::Never);
        check(plain(Gt, &Value::MinKey), &["[MinKey, MaxKey]"], Exact::Never);
        check(plain(Gt, &Value::Document(DocBuf::new())), &["({}, [])"], Exact::Never);
        assert!(plain(Gt, &Value::Array(arbor_bson::ArrayBuf::new())).is_none());
    }

    #[test]
    fn equality() {
        check(plain(Compare::Eq, &Value::Int32(5)), &["[5, 5]"], Exact::Always);
        check(plain(Compare::Eq, &Value::Null), &["[undefined, undefined]", "[null, null]"], Exact::Never);
        let pair = Value::Array([1i32, 2].into_iter().collect());
        check(plain(Compare::Eq, &pair), &["[1, 1]", "[[ 1, 2 ], [ 1, 2 ]]"], Exact::Never);
    }

    #[test]
    fn negations() {
        let five = plain(Compare::Eq, &Value::Int32(5)).unwrap();
        check(complement(&five), &["[MinKey, 5)", "(5, MaxKey]"], Exact::SingleKey);
        check(complement_of_null(None), &["[MinKey, null)", "(null, MaxKey]"], Exact::Never);
        assert!(complement(&Bounds::absent()).is_none());
    }

    #[test]
    fn the_text_after_a_prefix() {
        assert_eq!(text_after("ab").as_deref(), Some("ac"));
        assert_eq!(text_after("a\u{10FFFF}").as_deref(), Some("b"));
        assert_eq!(text_after("\u{D7FF}").as_deref(), Some("\u{E000}"));
        assert_eq!(text_after("\u{10FFFF}"), None);
    }
}
