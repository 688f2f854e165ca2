//! Bounds of an index scan in key bytes.
//!
//! K1: components of a key are prefix-free, so that the keys whose first components equal `p` are exactly those in
//! `p <= key < successor(p)`. Every interval of values is therefore a half-open span of bytes, whichever of its ends are
//! included.
//!
//! A key whose components are each in one of their spans is inside. For any other key [`KeyBounds::check`] names the
//! next place in scan direction where a key may be inside, so that a scan skips the keys in between.

use arbor_bson::Value;
use arbor_bson::keystring::{KeyBuilder, component_len, successor};
use arbor_lang::stop;

use super::interval::{Interval, Intervals};

/// `low <= bytes < high`; `high == None`: no upper end.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    pub low: Vec<u8>,
    pub high: Option<Vec<u8>>,
    /// One value: `low` is its whole encoding.
    pub point: bool,
}

#[derive(Clone, Debug)]
struct Component {
    descending: bool,
    /// In byte order.
    spans: Vec<Span>,
}

impl Component {
    fn is_full(&self) -> bool {
        matches!(self.spans.as_slice(), [only] if only.low.is_empty() && only.high.is_none())
    }
}

#[derive(Clone, Debug)]
pub struct KeyBounds {
    components: Vec<Component>,
}

/// Action of a scan at a key.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    Inside,
    /// Forward: go to the first key at or after this one. Backward: to the last key before it.
    Seek(Vec<u8>),
    Done,
}

impl KeyBounds {
    /// `components`: intervals of each component with its direction in the index.
    pub fn new<'a>(components: impl IntoIterator<Item = (&'a Intervals, bool)>) -> KeyBounds {
        let component = |(intervals, descending): (&Intervals, bool)| {
            let intervals = intervals.as_slice().iter().take_while(|_| stop::tick().is_ok());
            let mut spans: Vec<Span> = intervals.map(|interval| span(interval, descending)).collect();
            if descending {
                spans.reverse();
            }
            Component { descending, spans }
        };
        KeyBounds { components: components.into_iter().map(component).collect() }
    }

    /// Some component admits nothing.
    pub fn is_empty(&self) -> bool {
        self.components.iter().any(|component| component.spans.is_empty())
    }

    /// Returns the key at which a forward scan begins.
    pub fn first(&self) -> Vec<u8> {
        let mut key = Vec::new();
        self.push_lows(&mut key, 0);
        key
    }

    /// A backward scan begins at the last key before this; None: at the last key of the tree.
    pub fn end(&self) -> Option<Vec<u8>> {
        let mut prefix = Vec::new();
        for component in &self.components {
            match component.spans.last() {
                Some(span) if span.point => prefix.extend_from_slice(&span.low),
                Some(Span { high: Some(high), .. }) => return Some([prefix.as_slice(), high].concat()),
                _ => break,
            }
        }
        successor(&prefix)
    }

    /// Returns the ends if the keys inside are one range of keys. Then no key needs [`KeyBounds::check`].
    pub fn contiguous(&self) -> Option<Span> {
        let ranged = self.components.iter().position(|c| !matches!(c.spans.as_slice(), [only] if only.point));
        let ranged = ranged.unwrap_or(self.components.len());
        if self.components.iter().skip(ranged + 1).any(|component| !component.is_full()) {
            return None;
        }
        match self.components.get(ranged) {
            Some(component) if component.spans.len() != 1 => None,
            _ => Some(Span { low: self.first(), high: self.end(), point: ranged == self.components.len() }),
        }
    }

    /// Ranges of keys that together hold every key inside, at most `max` of them, for estimates.
    pub fn hulls(&self, max: usize) -> Vec<Span> {
        let mut prefix = Vec::new();
        for component in &self.components {
            match component.spans.as_slice() {
                [only] if only.point => prefix.extend_from_slice(&only.low),
                spans => return hulls_of(&prefix, spans, max),
            }
        }
        let high = successor(&prefix);
        vec![Span { low: prefix, high, point: true }]
    }

    /// Requires a key of this index, whole or as its first components.
    pub fn check(&self, key: &[u8], backward: bool) -> Verdict {
        let mut offset = 0;
        for (index, component) in self.components.iter().enumerate() {
            let rest = key.get(offset..).unwrap_or_default();
            // the first span that ends after this key
            let at = component.spans.partition_point(|span| span.high.as_deref().is_some_and(|high| high <= rest));
            match component.spans.get(at) {
                Some(span) if span.low.as_slice() <= rest => {}
                _ => return self.skip(key, offset, index, at, backward),
            }
            // a key that does not divide ends here; the entry is inside as far as it can be read
            offset += component_len(rest, component.descending).unwrap_or(rest.len());
        }
        Verdict::Inside
    }

    /// Skips a `key` between the spans `at - 1` and `at` of a component that begins at `offset`.
    fn skip(&self, key: &[u8], offset: usize, index: usize, at: usize, backward: bool) -> Verdict {
        let component = &self.components[index];
        let prefix = key.get(..offset).unwrap_or_default();
        if !backward {
            return match component.spans.get(at) {
                Some(span) => {
                    let mut target = [prefix, &span.low].concat();
                    if span.point {
                        self.push_lows(&mut target, index + 1);
                    }
                    Verdict::Seek(target)
                }
                None if prefix.is_empty() => Verdict::Done,
                None => successor(prefix).map_or(Verdict::Done, Verdict::Seek),
            };
        }
        match at.checked_sub(1).and_then(|before| component.spans.get(before)) {
            Some(Span { high: Some(high), .. }) => Verdict::Seek([prefix, high].concat()),
            _ if prefix.is_empty() => Verdict::Done,
            _ => Verdict::Seek(prefix.to_vec()),
        }
    }

    /// Appends the lowest place of the components from `from` on.
    fn push_lows(&self, key: &mut Vec<u8>, from: usize) {
        for component in self.components.iter().skip(from) {
            let Some(span) = component.spans.first() else { return };
            key.extend_from_slice(&span.low);
            if !span.point {
                return;
            }
        }
    }
}

fn hulls_of(prefix: &[u8], spans: &[Span], max: usize) -> Vec<Span> {
    let whole = |span: &Span| Span {
        low: [prefix, &span.low].concat(),
        high: match &span.high {
            Some(high) => Some([prefix, high].concat()),
            None if prefix.is_empty() => None,
            None => successor(prefix),
        },
        point: false,
    };
    match (spans.first(), spans.last()) {
        (Some(first), Some(last)) if spans.len() > max => {
            vec![Span { low: whole(first).low, high: whole(last).high, point: false }]
        }
        _ => spans.iter().map(whole).collect(),
    }
}

/// Nothing when the statement is to stop.
fn encode(value: &Value, descending: bool) -> Vec<u8> {
    if stop::tick_for(value.as_ref().content_bytes()).is_err() {
        return Vec::new();
    }
    let mut builder = KeyBuilder::new();
    builder.push(value.as_ref(), descending);
    builder.finish().bytes
}

fn span(interval: &Interval, descending: bool) -> Span {
    if interval.is_full() {
        return Span { low: Vec::new(), high: None, point: false };
    }
    let (first, last) = if descending { (&interval.high, &interval.low) } else { (&interval.low, &interval.high) };
    let low = encode(&first.value, descending);
    // a point may be a document of 16 MB
    let high = if interval.is_point() { low.clone() } else { encode(&last.value, descending) };
    let low = if first.inclusive { Some(low) } else { successor(&low) };
    Span {
        low: low.unwrap_or_default(),
        high: if last.inclusive { successor(&high) } else { Some(high) },
        point: interval.is_point(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::interval::Endpoint;

    /// `"1 3-5"`: the value 1 and the range from 3 to 5, ends included.
    fn intervals(text: &str) -> Intervals {
        let value = |text: &str| Value::Int32(text.parse().unwrap());
        let interval = |text: &str| match text.split_once('-') {
            Some((low, high)) => Interval::new(Endpoint::included(value(low)), Endpoint::included(value(high))),
            None => Interval::point(value(text)),
        };
        if text == "all" { Intervals::full() } else { Intervals::of(text.split(' ').map(interval).collect()) }
    }

    fn bounds(components: &[(&str, bool)]) -> KeyBounds {
        let components: Vec<_> = components.iter().map(|(text, desc)| (intervals(text), *desc)).collect();
        KeyBounds::new(components.iter().map(|(intervals, descending)| (intervals, *descending)))
    }

    fn key(values: &[i32], descending: &[bool]) -> Vec<u8> {
        let mut builder = KeyBuilder::new();
        for (value, descending) in values.iter().zip(descending) {
            builder.push(Value::Int32(*value).as_ref(), *descending);
        }
        builder.finish().bytes
    }

    /// A scan over all keys `(0..9, 0..9)` with [`KeyBounds::check`] and seeks: its result and the number of keys it reads.
    fn scan(components: &[(&str, bool)], backward: bool) -> (Vec<(i32, i32)>, usize) {
        let bounds = bounds(components);
        let descending: Vec<bool> = components.iter().map(|(_, descending)| *descending).collect();
        let mut keys: Vec<_> = (0..10)
            .flat_map(|a| (0..10).map(move |b| (a, b)))
            .map(|(a, b)| (key(&[a, b], &descending), (a, b)))
            .collect();
        keys.sort();
        let before = |target: &[u8]| keys.partition_point(|(key, _)| key.as_slice() < target);
        let mut at = match backward {
            false => Some(before(&bounds.first())),
            true => bounds.end().map_or(keys.len(), |end| before(&end)).checked_sub(1),
        };
        let (mut found, mut looks) = (Vec::new(), 0);
        while let Some((key, values)) = at.and_then(|at| keys.get(at)) {
            looks += 1;
            at = match (bounds.check(key, backward), backward) {
                (Verdict::Done, _) => break,
                (Verdict::Inside, _) => {
                    found.push(*values);
                    if backward { at.and_then(|at| at.checked_sub(1)) } else { at.map(|at| at + 1) }
                }
                (Verdict::Seek(target), false) => Some(before(&target)),
                (Verdict::Seek(target), true) => before(&target).checked_sub(1),
            };
        }
        (found, looks)
    }

    #[test]
    fn scans_find_what_is_inside_and_skip_the_rest() {
        let inside = |text: &str, value: i32| match text {
            "all" => true,
            text => text.split(' ').any(|part| match part.split_once('-') {
                Some((low, high)) => (low.parse().unwrap()..=high.parse().unwrap()).contains(&value),
                None => part.parse::<i32>().unwrap() == value,
            }),
        };
        for first in ["5", "2 4 8", "3-5", "1 4-6", "all"] {
            for second in ["7", "0 9", "2-3 6", "all"] {
                for directions in [[false, false], [true, false], [false, true], [true, true]] {
                    for backward in [false, true] {
                        let components = [(first, directions[0]), (second, directions[1])];
                        let (mut found, looks) = scan(&components, backward);
                        found.sort_unstable();
                        let expected: Vec<_> = (0..10)
                            .flat_map(|a| (0..10).map(move |b| (a, b)))
                            .filter(|(a, b)| inside(first, *a) && inside(second, *b))
                            .collect();
                        assert_eq!(found, expected, "{components:?} backward {backward}");
                        assert!(looks <= 2 * expected.len() + 22, "{looks} looks for {components:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn one_range_of_keys_needs_no_checks() {
        for (components, contiguous) in [
            (&[("5", false), ("all", false)], true),
            (&[("5", false), ("3-4", true)], true),
            (&[("3-5", false), ("all", false)], true),
            (&[("3-5", false), ("1", false)], false),
            (&[("3 5", false), ("all", false)], false),
        ] {
            assert_eq!(bounds(components).contiguous().is_some(), contiguous, "{components:?}");
        }
        let span = bounds(&[("5", false), ("3-4", true)]).contiguous().unwrap();
        let directions = [false, true];
        assert!(span.low <= key(&[5, 4], &directions) && key(&[5, 3], &directions) < span.high.clone().unwrap());
        assert!(key(&[5, 5], &directions) < span.low && key(&[5, 2], &directions) >= span.high.unwrap());
    }
}
