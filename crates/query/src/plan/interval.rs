//! Sets of values as ordered, disjoint intervals: the bounds of one index component.

use std::cmp::Ordering;

use arbor_bson::{Value, ValueRef, compare, display};
use arbor_lang::{Collation, stop};

#[derive(Clone, Debug)]
pub struct Endpoint {
    pub value: Value,
    pub inclusive: bool,
}

impl Endpoint {
    pub fn included(value: Value) -> Endpoint {
        Endpoint { value, inclusive: true }
    }

    pub fn excluded(value: Value) -> Endpoint {
        Endpoint { value, inclusive: false }
    }

    fn order(&self, other: &Endpoint) -> Ordering {
        compare(self.value.as_ref(), other.value.as_ref())
    }

    /// As a lower end: an excluded value begins later than the same value included.
    fn order_as_low(&self, other: &Endpoint) -> Ordering {
        self.order(other).then(other.inclusive.cmp(&self.inclusive))
    }

    fn order_as_high(&self, other: &Endpoint) -> Ordering {
        self.order(other).then(self.inclusive.cmp(&other.inclusive))
    }

    /// Returns the same end as the bound of the complement.
    fn flipped(&self) -> Endpoint {
        Endpoint { value: self.value.clone(), inclusive: !self.inclusive }
    }
}

/// All values between two ends. Never empty inside [`Intervals`].
#[derive(Clone, Debug)]
pub struct Interval {
    pub low: Endpoint,
    pub high: Endpoint,
}

impl Interval {
    pub fn new(low: Endpoint, high: Endpoint) -> Interval {
        Interval { low, high }
    }

    pub fn point(value: Value) -> Interval {
        Interval { low: Endpoint::included(value.clone()), high: Endpoint::included(value) }
    }

    pub fn full() -> Interval {
        Interval { low: Endpoint::included(Value::MinKey), high: Endpoint::included(Value::MaxKey) }
    }

    pub fn is_point(&self) -> bool {
        self.low.inclusive && self.high.inclusive && self.low.order(&self.high).is_eq()
    }

    pub fn is_full(&self) -> bool {
        self.low.inclusive
            && self.high.inclusive
            && matches!(self.low.value, Value::MinKey)
            && matches!(self.high.value, Value::MaxKey)
    }

    fn is_empty(&self) -> bool {
        match self.low.order(&self.high) {
            Ordering::Less => false,
            Ordering::Equal => !(self.low.inclusive && self.high.inclusive),
            Ordering::Greater => true,
        }
    }

    /// Returns true if the two overlap or are adjacent. Requires that `self` begins no later than `next`.
    fn reaches(&self, next: &Interval) -> bool {
        match self.high.order(&next.low) {
            Ordering::Less => false,
            Ordering::Equal => self.high.inclusive || next.low.inclusive,
            Ordering::Greater => true,
        }
    }

    /// MongoDB's form in explain: `[1, 5)`.
    fn text(&self, backward: bool, collation: &Collation) -> String {
        let (first, last) = if backward { (&self.high, &self.low) } else { (&self.low, &self.high) };
        format!(
            "{}{}, {}{}",
            if first.inclusive { '[' } else { '(' },
            endpoint_text(&first.value, collation),
            endpoint_text(&last.value, collation),
            if last.inclusive { ']' } else { ')' }
        )
    }
}

fn endpoint_text(value: &Value, collation: &Collation) -> String {
    match value.as_ref() {
        ValueRef::String("") if !collation.is_simple() => "\"\"".to_owned(),
        ValueRef::String(_) if !collation.is_simple() => match collation.shown(value) {
            Value::String(key) => format!("CollationKey({key})"),
            other => display::shell(other.as_ref()).to_string(),
        },
        ValueRef::Double(v) if v.is_infinite() => if v > 0.0 { "inf.0" } else { "-inf.0" }.to_owned(),
        ValueRef::Double(v) if v.is_nan() => "nan.0".to_owned(),
        ValueRef::Double(v) if v == v.trunc() && v.abs() < 1e15 => format!("{v:.1}"),
        ValueRef::DateTime(v) => format!("new Date({v})"),
        _ => display::shell(collation.shown(value).as_ref()).to_string(),
    }
}

/// Ordered and disjoint; adjacent intervals are merged.
#[derive(Clone, Debug, Default)]
pub struct Intervals(Vec<Interval>);

impl Intervals {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn full() -> Intervals {
        Intervals(vec![Interval::full()])
    }

    pub fn point(value: Value) -> Intervals {
        Intervals(vec![Interval::point(value)])
    }

    /// Cut short when the statement is to stop, as the others that make them are: planning ends with the error.
    pub fn of(mut intervals: Vec<Interval>) -> Intervals {
        intervals.retain(|interval| stop::tick().is_ok() && !interval.is_empty());
        let _sorted = stop::sort_by(&mut intervals, |a, b| a.low.order_as_low(&b.low));
        let mut merged: Vec<Interval> = Vec::with_capacity(intervals.len());
        for interval in intervals.into_iter().take_while(|_| stop::tick().is_ok()) {
            match merged.last_mut() {
                Some(last) if last.reaches(&interval) => {
                    if interval.high.order_as_high(&last.high).is_gt() {
                        last.high = interval.high;
                    }
                }
                _ => merged.push(interval),
            }
        }
        Intervals(merged)
    }

    pub fn as_slice(&self) -> &[Interval] {
        &self.0
    }

    pub fn is_full(&self) -> bool {
        matches!(self.0.as_slice(), [only] if only.is_full())
    }

    /// One value only.
    pub fn is_point(&self) -> bool {
        matches!(self.0.as_slice(), [only] if only.is_point())
    }

    pub fn union(&self, other: &Intervals) -> Intervals {
        Intervals::of(self.0.iter().chain(&other.0).cloned().collect())
    }

    pub fn intersect(&self, other: &Intervals) -> Intervals {
        let (mut a, mut b) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut common = Vec::new();
        while let (Some(left), Some(right), Ok(())) = (a.peek(), b.peek(), stop::tick()) {
            let low = if left.low.order_as_low(&right.low).is_gt() { &left.low } else { &right.low };
            let left_ends_first = left.high.order_as_high(&right.high).is_lt();
            let high = if left_ends_first { &left.high } else { &right.high };
            let overlap = Interval::new(low.clone(), high.clone());
            if !overlap.is_empty() {
                common.push(overlap);
            }
            if left_ends_first {
                a.next()
            } else {
                b.next()
            };
        }
        Intervals(common)
    }

    /// Every value that is in none of them.
    pub fn complement(&self) -> Intervals {
        let mut rest = Vec::with_capacity(self.0.len() + 1);
        let mut low = Endpoint::included(Value::MinKey);
        for interval in self.0.iter().take_while(|_| stop::tick().is_ok()) {
            rest.push(Interval::new(low, interval.low.flipped()));
            low = interval.high.flipped();
        }
        rest.push(Interval::new(low, Endpoint::included(Value::MaxKey)));
        Intervals::of(rest)
    }

    /// `collation` is the index's.
    pub fn texts(&self, backward: bool, collation: &Collation) -> Vec<String> {
        let mut texts: Vec<String> = self.0.iter().map(|interval| interval.text(backward, collation)).collect();
        if backward {
            texts.reverse();
        }
        texts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> Interval {
        let (low, high) = text[1..text.len() - 1].split_once(',').unwrap();
        let value = |text: &str| match text.trim() {
            "min" => Value::MinKey,
            "max" => Value::MaxKey,
            number => Value::Int32(number.parse().unwrap()),
        };
        Interval::new(
            Endpoint { value: value(low), inclusive: text.starts_with('[') },
            Endpoint { value: value(high), inclusive: text.ends_with(']') },
        )
    }

    fn set(texts: &[&str]) -> Intervals {
        Intervals::of(texts.iter().map(|text| range(text)).collect())
    }

    #[track_caller]
    fn check(found: Intervals, expected: &[&str]) {
        assert_eq!(found.texts(false, &Collation::simple()), expected);
    }

    #[test]
    fn unions_merge_adjacent_intervals() {
        check(set(&["[1,2)", "[2,3]", "(5,6)", "[6,6]", "[9,8]", "(7,7)"]), &["[1, 3]", "(5, 6]"]);
        check(set(&["[1,2)", "(2,3]"]), &["[1, 2)", "(2, 3]"]);
        check(set(&["[1,9]", "[2,3]"]).union(&set(&["(9,10]"])), &["[1, 10]"]);
    }

    #[test]
    fn intersections() {
        check(set(&["[1,5]", "[7,9]"]).intersect(&set(&["(2,8)"])), &["(2, 5]", "[7, 8)"]);
        check(set(&["[1,5)"]).intersect(&set(&["[5,9]"])), &[]);
        check(set(&["[1,5]"]).intersect(&set(&["[5,9]"])), &["[5, 5]"]);
    }

    #[test]
    fn complements() {
        check(set(&["[1,1]", "(3,5)"]).complement(), &["[MinKey, 1)", "(1, 3]", "[5, MaxKey]"]);
        check(Intervals::default().complement(), &["[MinKey, MaxKey]"]);
        check(Intervals::full().complement(), &[]);
    }

    #[test]
    fn backward_texts_are_mirrored() {
        assert_eq!(set(&["[1,2)", "(3,4]"]).texts(true, &Collation::simple()), ["[4, 3)", "(2, 1]"]);
    }
}
