//! Values of holes. Within one document or statement a binding has one value, however often it occurs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use arbor_bson::Value;

use crate::workload::Random;
use crate::workload::zipf::Zipf;

/// A named source of values.
#[derive(Clone, Debug)]
pub enum Binding {
    /// A whole number from the first to the last.
    Int {
        first: i64,
        last: i64,
        skew: Skew,
    },
    Double {
        from: f64,
        below: f64,
    },
    /// Letters, as many as a number from the first to the last.
    Text {
        first: u64,
        last: u64,
    },
    /// One of the values; the sums of the weights up to each.
    Choice {
        values: Vec<Value>,
        sums: Vec<f64>,
    },
    /// The number of a row that a collection has: by its place in the file.
    Row {
        collection: usize,
        skew: Skew,
    },
    /// The number of a row that it does not have yet.
    New {
        collection: usize,
    },
    /// The time, as a date.
    Now,
    /// The number of the document that is loaded.
    Loaded,
}

/// Preference among values.
#[derive(Clone, Copy, Debug)]
pub enum Skew {
    Uniform,
    /// By Zipf's law with this exponent; the frequent ones are scattered.
    Zipf(f64),
    /// By Zipf's law, the newest rows most often.
    Latest(f64),
}

/// Items of a Zipf distribution at most: its sum is computed once for a client.
const ZIPF_ITEMS_MAX: u64 = 1_000_000;

impl Skew {
    fn zipf(self, items: u64) -> Option<Zipf> {
        match self {
            Skew::Uniform => None,
            Skew::Zipf(exponent) | Skew::Latest(exponent) => {
                Some(Zipf::summed(items.clamp(2, ZIPF_ITEMS_MAX), exponent))
            }
        }
    }
}

/// Returns the number by which JSON would show it: an int32 where it fits.
pub(super) fn integer(number: i64) -> Value {
    i32::try_from(number).map_or(Value::Int64(number), Value::Int32)
}

/// Draws of one stream.
pub(super) struct Draws<'a> {
    bindings: &'a [Binding],
    rows: &'a [AtomicU64],
    /// The document that is loaded.
    loaded: u64,
}

/// State of one stream between its draws.
#[derive(Debug)]
pub(super) struct DrawState {
    random: Random,
    zipfs: Vec<Option<Zipf>>,
    /// Values of the document or statement under way.
    values: Vec<Option<Value>>,
}

impl DrawState {
    pub(super) fn new(bindings: &[Binding], rows: &[AtomicU64], random: Random) -> DrawState {
        let zipf = |binding: &Binding| match binding {
            Binding::Int { first, last, skew } => skew.zipf(last.abs_diff(*first).saturating_add(1)),
            Binding::Row { collection, skew } => skew.zipf(rows.get(*collection)?.load(Ordering::Relaxed)),
            _ => None,
        };
        DrawState { random, zipfs: bindings.iter().map(zipf).collect(), values: vec![None; bindings.len()] }
    }

    /// Begins another document or statement.
    pub(super) fn again(&mut self, random: Option<Random>) {
        self.values.iter_mut().for_each(|value| *value = None);
        if let Some(random) = random {
            self.random = random;
        }
    }

    pub(super) fn random(&mut self) -> &mut Random {
        &mut self.random
    }
}

impl<'a> Draws<'a> {
    pub(super) fn new(bindings: &'a [Binding], rows: &'a [AtomicU64], loaded: u64) -> Draws<'a> {
        Draws { bindings, rows, loaded }
    }

    /// Returns the value of a binding in the document or statement under way.
    pub(super) fn value<'s>(&self, at: usize, state: &'s mut DrawState) -> &'s Value {
        const NONE: &Value = &Value::Null;
        let known = state.values.get(at).is_some_and(Option::is_some);
        if !known && let Some(binding) = self.bindings.get(at) {
            let value = self.draw(binding, at, state);
            if let Some(slot) = state.values.get_mut(at) {
                *slot = Some(value);
            }
        }
        state.values.get(at).and_then(Option::as_ref).unwrap_or(NONE)
    }

    fn draw(&self, binding: &Binding, at: usize, state: &mut DrawState) -> Value {
        let zipf = state.zipfs.get(at).copied().flatten();
        let random = &mut state.random;
        match binding {
            Binding::Int { first, last, skew } => {
                let items = last.abs_diff(*first).saturating_add(1);
                integer(first.wrapping_add_unsigned(place(*skew, zipf, items, random)))
            }
            Binding::Double { from, below } => Value::Double(from + (below - from) * random.unit()),
            Binding::Text { first, last } => {
                let length = first + random.below(last - first + 1);
                Value::String((0..length).map(|_| char::from(b'a' + random.below(26) as u8)).collect())
            }
            Binding::Choice { values, sums } => {
                let drawn = random.unit() * sums.last().copied().unwrap_or(0.0);
                let at = sums.iter().position(|sum| drawn < *sum).unwrap_or(0);
                values.get(at).cloned().unwrap_or(Value::Null)
            }
            Binding::Row { collection, skew } => {
                let rows = self.rows.get(*collection).map_or(0, |rows| rows.load(Ordering::Relaxed));
                integer(place(*skew, zipf, rows.max(1), random) as i64)
            }
            Binding::New { collection } => {
                let rows = self.rows.get(*collection);
                integer(rows.map_or(0, |rows| rows.fetch_add(1, Ordering::Relaxed)) as i64)
            }
            Binding::Now => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Value::DateTime(since.as_millis() as i64)
            }
            Binding::Loaded => integer(self.loaded as i64),
        }
    }
}

/// Returns one of `0..items`.
fn place(skew: Skew, zipf: Option<Zipf>, items: u64, random: &mut Random) -> u64 {
    let Some(zipf) = zipf else { return random.below(items) };
    let rank = zipf.rank(random.unit());
    match skew {
        Skew::Latest(_) => items - 1 - rank.min(items - 1),
        // as YCSB scatters its ranks
        _ => crate::workload::ycsb::fnv(rank) % items,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw_all(binding: Binding, rows: u64, count: usize) -> Vec<Value> {
        let (bindings, rows) = ([binding], [AtomicU64::new(rows)]);
        let mut state = DrawState::new(&bindings, &rows, Random::new(7));
        let draws = Draws::new(&bindings, &rows, 5);
        let one = |_| {
            state.again(None);
            draws.value(0, &mut state).clone()
        };
        (0..count).map(one).collect()
    }

    fn share(values: &[Value], is_counted: impl Fn(i32) -> bool) -> f64 {
        let fits = |value: &&Value| matches!(value, Value::Int32(number) if is_counted(*number));
        values.iter().filter(fits).count() as f64 / values.len() as f64
    }

    #[test]
    fn values_have_their_distribution() {
        let uniform = draw_all(Binding::Int { first: -5, last: 4, skew: Skew::Uniform }, 1, 10_000);
        assert!((share(&uniform, |n| n < 0) - 0.5).abs() < 0.03 && share(&uniform, |n| (-5..=4).contains(&n)) == 1.0);
        let skewed = draw_all(Binding::Int { first: 1, last: 1000, skew: Skew::Zipf(0.99) }, 1, 10_000);
        let most = (1..=1000).map(|n| share(&skewed, |drawn| drawn == n)).fold(0.0, f64::max);
        assert!((0.1..0.2).contains(&most), "{most}");
        let latest = draw_all(Binding::Row { collection: 0, skew: Skew::Latest(0.99) }, 1000, 10_000);
        assert!(share(&latest, |n| n >= 990) > 0.3 && share(&latest, |n| (0..1000).contains(&n)) == 1.0);
        let chosen = Binding::Choice { values: vec![Value::Int32(1), Value::Int32(2)], sums: vec![3.0, 4.0] };
        assert!((share(&draw_all(chosen, 1, 10_000), |n| n == 1) - 0.75).abs() < 0.03);
    }

    #[test]
    fn new_rows_are_counted_and_texts_have_their_length() {
        let new = draw_all(Binding::New { collection: 0 }, 10, 3);
        assert!(matches!(new.as_slice(), [Value::Int32(10), Value::Int32(11), Value::Int32(12)]), "{new:?}");
        assert!(matches!(draw_all(Binding::Loaded, 1, 1).as_slice(), [Value::Int32(5)]));
        for value in draw_all(Binding::Text { first: 3, last: 5 }, 1, 50) {
            assert!(matches!(&value, Value::String(text) if (3..=5).contains(&text.len())), "{value:?}");
        }
    }
}
