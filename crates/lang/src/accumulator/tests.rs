//! Table-style checks: accumulator, documents, result.

use super::*;
use crate::notation::{read, show, value};

/// Lines of `<accumulator> on <array of documents> => <value>` or `<accumulator> => error <code>: <text>`.
fn check(table: &str) {
    for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (spec, rest) = read(line);
        let parsed = Accumulator::parse("f", spec.as_ref(), &Context::default());
        if let Some(expect) = rest.strip_prefix("=> error ") {
            let error = parsed.expect_err(line);
            assert_eq!(format!("{}: {}", error.code.0, error.message), expect, "{line}");
            continue;
        }
        let accumulator = parsed.unwrap_or_else(|error| panic!("{line}: {error}"));
        let (documents, rest) = read(rest.strip_prefix("on ").unwrap());
        let Value::Array(documents) = documents else { panic!("{line}") };
        let mut state = accumulator.start();
        for document in documents.as_array().iter() {
            let ValueRef::Document(document) = document else { panic!("{line}") };
            accumulator.add(&mut *state, document).unwrap();
        }
        let halves = in_parts(&accumulator, documents.as_array());
        let expect = show(value(rest.strip_prefix("=> ").unwrap()).as_ref());
        assert_eq!(show(state.finish().as_ref()), expect, "{line}");
        halves.iter().for_each(|half| assert_eq!(show(half.as_ref()), expect, "in parts: {line}"));
    }
}

/// The results when the documents are gathered in two parts, for every place to part them.
fn in_parts(accumulator: &Accumulator, documents: arbor_bson::Array) -> Vec<Value> {
    let gather = |documents: Vec<ValueRef>| {
        let mut state = accumulator.start();
        for document in documents {
            let ValueRef::Document(document) = document else { panic!("{document}") };
            accumulator.add(&mut *state, document).unwrap();
        }
        state.partial()
    };
    let parted = |at: usize| {
        let mut whole = accumulator.start();
        let first = gather(documents.iter().take(at).collect());
        let second = gather(documents.iter().skip(at).collect());
        whole.absorb(first.as_ref()).unwrap();
        whole.absorb(second.as_ref()).unwrap();
        whole.finish()
    };
    (0..=documents.len()).map(parted).collect()
}

#[test]
fn accumulators() {
    check(
        r#"
        {$sum: 1} on [{}, {}] => 2
        {$sum: '$a'} on [{a: 1}, {a: 2.5}, {a: 'x'}, {}] => 3.5
        {$sum: '$a'} on [{a: 2147483647}, {a: 1}] => Long(2147483648)
        {$sum: '$a'} on [{a: Long(1)}] => Long(1)
        {$sum: '$a'} on [{a: Decimal("1.5")}, {a: 1}] => Decimal("2.5")
        {$sum: '$a'} on [{a: 0.1}, {a: 0.2}, {a: 0.3}] => 0.6
        {$sum: '$a'} on [{a: 1e100}, {a: 1}, {a: -1e100}] => 1.0
        {$sum: '$a'} on [] => 0
        {$sum: '$a'} on [{a: 3}] => 3
        {$avg: '$a'} on [{a: 1}, {a: 2}, {a: null}] => 1.5
        {$avg: '$a'} on [{a: Decimal("1")}, {a: 2}] => Decimal("1.5")
        {$avg: '$a'} on [{}] => null
        {$min: '$a'} on [{a: 3}, {a: 1}, {a: null}, {}] => 1
        {$min: '$a'} on [{}] => null
        {$max: '$a'} on [{a: 3}, {a: 'x'}] => 'x'
        {$max: '$a'} on [{a: [1]}, {a: 2}] => [1]
        {$first: '$a'} on [{a: 1}, {a: 2}] => 1
        {$first: '$a'} on [{}, {a: 2}] => null
        {$last: '$a'} on [{a: 1}, {a: 2}] => 2
        {$last: '$a'} on [{a: 1}, {}] => null
        {$push: '$a'} on [{a: 1}, {}, {a: null}, {a: [2]}] => [1, null, [2]]
        {$push: {x: '$a'}} on [{a: 1}, {}] => [{x: 1}, {}]
        {$addToSet: '$a'} on [{a: 1}, {a: 1.0}, {}, {a: 2}] => [1, 2]
        {$concatArrays: '$a'} on [{a: [1, [2]]}, {}, {a: []}, {a: [1]}] => [1, [2], 1]
        {$setUnion: '$a'} on [{a: [1, 2]}, {}, {a: [2.0, 3]}] => [1, 2, 3]
        {$count: {}} on [{}, {}, {}] => 3
        {$mergeObjects: '$a'} on [{a: {x: 1}}, {a: null}, {a: {x: 2, y: 1}}] => {x: 2, y: 1}
        {$stdDevPop: '$a'} on [{a: 1}, {a: 3}] => 1.0
        {$stdDevSamp: '$a'} on [{a: 1}] => null
        {$stdDevSamp: '$a'} on [{a: 1}, {a: 3}, {a: 'x'}] => 1.4142135623730951
        {$firstN: {input: '$a', n: 2}} on [{a: 1}, {}, {a: 3}] => [1, null]
        {$lastN: {input: '$a', n: 2}} on [{a: 1}, {a: 2}, {a: 3}] => [2, 3]
        {$minN: {input: '$a', n: 2}} on [{a: 3}, {a: 1}, {}, {a: 2}] => [1, 2]
        {$maxN: {input: '$a', n: 2}} on [{a: 3}, {a: 1}, {a: 2}] => [3, 2]
        {$top: {sortBy: {a: 1}, output: '$b'}} on [{a: 2, b: 'x'}, {a: 1, b: 'y'}] => 'y'
        {$bottom: {sortBy: {a: 1}, output: '$b'}} on [{a: 2, b: 'x'}, {a: 1, b: 'y'}] => 'x'
        {$topN: {sortBy: {a: -1}, output: '$b', n: 2}} on [{a: 1, b: 1}, {a: 3, b: 3}, {a: 2, b: 2}] => [3, 2]
        {$bottomN: {sortBy: {a: 1}, output: '$b', n: 2}} on [{a: 1, b: 1}, {a: 3, b: 3}, {a: 2, b: 2}] => [2, 3]
        {$foo: 1} => error 15952: unknown group operator '$foo'
        1 => error 40234: The field 'f' must be an accumulator object
        {$sum: 1, $avg: 1} => error 40238: The field 'f' must specify one accumulator
        {$sum: [1, 2]} => error 40237: The $sum accumulator is a unary operator
        {$count: 1} => error 14: $count takes no arguments, i.e. $count:{}
        {$median: {input: '$a', method: 'approximate'}} on [{a: 5}, {a: 1}, {a: 'x'}, {a: 9}, {}] => 5.0
        {$median: {input: '$a', method: 'approximate'}} on [] => null
        {$percentile: {input: '$a', p: [0.5, 0.75, 0.9], method: 'approximate'}} on [{a: 62}, {a: 60}, {a: 67}, {a: 64}, {a: 60}] => [62.0, 64.0, 67.0]
        {$percentile: {input: '$a', p: [0.5], method: 'approximate'}} on [{}] => [null]
        {$firstN: {input: 1, n: 0}} => error 5787908: 'n' must be greater than 0, found 0
        "#,
    );
}
