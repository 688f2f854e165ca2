//! A window has the value that its rows alone would have.

use arbor_bson::{DocBuf, Value};

use crate::accumulator::Accumulator;
use crate::notation::{doc, show, value};
use crate::{Collation, Context};

/// Rows with few and with many equal values, of several types, and without any.
fn rows() -> Vec<DocBuf> {
    let row = |n: u64| {
        let mixed = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        match mixed % 9 {
            0 => format!("{{k: {mixed}}}"),
            1 => format!("{{v: null, k: {mixed}, d: null}}"),
            2 => format!("{{v: '{}', k: 1, d: {{a: {n}, b: 1}}}}", if mixed.is_multiple_of(2) { "a" } else { "A" }),
            3 => format!("{{v: {}.0, k: 2, d: {{b: {n}, a: 2}}}}", mixed % 7),
            _ => format!("{{v: {}, k: {}, d: {{c{}: {n}}}}}", mixed % 7, mixed % 5, mixed % 3),
        }
    };
    (0..120).map(|n| doc(&row(n))).collect()
}

fn alone(accumulator: &Accumulator, rows: &[DocBuf]) -> Value {
    let mut state = accumulator.start();
    rows.iter().for_each(|row| accumulator.add(&mut *state, row.as_doc()).unwrap());
    state.finish()
}

fn check(spec: &str, context: &Context) {
    let spec = value(spec);
    let accumulator = Accumulator::parse("f", spec.as_ref(), context).unwrap();
    let rows = rows();
    for (width, step) in [(1, 1), (7, 1), (40, 3), (25, 30), (200, 1)] {
        let (mut start, mut end) = (0, 0);
        let mut window = accumulator.start_moving().unwrap();
        while start < rows.len() {
            let next_end = (start + width).min(rows.len());
            rows[end.min(next_end)..next_end]
                .iter()
                .for_each(|row| accumulator.enter(&mut *window, row.as_doc()).unwrap());
            end = next_end;
            assert!(
                show(window.value().as_ref()) == show(alone(&accumulator, &rows[start..end]).as_ref()),
                "{spec:?} {start}..{end}"
            );
            for _ in start..(start + step).min(end) {
                window.leave();
            }
            start += step;
            end = end.max(start);
        }
    }
}

#[test]
fn values_of_moving_windows() {
    let collation = Collation::parse(doc("{locale: 'en', strength: 2}").as_doc()).unwrap();
    for context in [Context::new(0), Context { collation, ..Context::new(0) }] {
        for spec in [
            "{$push: '$v'}",
            "{$addToSet: '$v'}",
            "{$mergeObjects: '$d'}",
            "{$firstN: {input: '$v', n: 5}}",
            "{$lastN: {input: '$v', n: 5}}",
            "{$minN: {input: '$v', n: 5}}",
            "{$maxN: {input: '$v', n: 5}}",
            "{$maxN: {input: '$v', n: 1000}}",
            "{$top: {sortBy: {k: 1}, output: '$v'}}",
            "{$bottom: {sortBy: {k: 1, v: -1}, output: '$k'}}",
            "{$topN: {n: 3, sortBy: {k: -1}, output: ['$k', '$v']}}",
            "{$bottomN: {n: 3, sortBy: {k: 1}, output: ['$k', '$v']}}",
            "{$bottomN: {n: 300, sortBy: {k: 1}, output: '$v'}}",
            "{$median: {input: '$v', method: 'approximate'}}",
            "{$percentile: {input: '$k', p: [0, 0.1, 0.5, 0.99, 1], method: 'approximate'}}",
        ] {
            check(spec, &context);
        }
    }
}

#[test]
fn a_window_takes_no_more_than_its_rows() {
    let context = Context::new(0);
    for spec in ["{$push: '$v'}", "{$addToSet: '$v'}", "{$mergeObjects: {k: '$v'}}", "{$minN: {input: '$v', n: 500}}"] {
        let accumulator = Accumulator::parse("f", value(spec).as_ref(), &context).unwrap();
        let mut window = accumulator.start_moving().unwrap();
        for n in 0..5000i32 {
            accumulator.enter(&mut *window, DocBuf::new().with("v", n).as_doc()).unwrap();
            if n >= 1000 {
                window.leave();
            }
            assert!(window.size_bytes() < 1001 * 400, "{spec}: {}", window.size_bytes());
        }
        (0..1000).for_each(|_| window.leave());
        assert_eq!(window.size_bytes(), 0, "{spec}");
    }
}
