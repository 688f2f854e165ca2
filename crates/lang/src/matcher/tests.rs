//! Table-style checks of all operators: filter, document, expected result.

use super::*;
use crate::notation::{doc, read};

/// Lines of `<filter> on <document> => true|false|@position` or `<filter> => error <code>: <text>`.
fn check(table: &str) {
    for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
        check_line(line);
    }
}

fn check_line(line: &str) {
    let (filter, rest) = read(line);
    let arbor_bson::Value::Document(filter) = filter else { panic!("no filter: {line}") };
    let parsed = Filter::parse(filter.as_doc(), &Context::default());
    if let Some(expect) = rest.strip_prefix("=> error ") {
        let error = parsed.expect_err(line);
        let (code, text) = expect.split_once(':').unwrap();
        assert_eq!(error.code.0.to_string(), code, "{line}: {error}");
        assert_eq!(error.message, text.trim(), "{line}");
        return;
    }
    let parsed = parsed.unwrap_or_else(|error| panic!("{line}: {error}"));
    let (document, rest) = read(rest.strip_prefix("on ").unwrap_or_else(|| panic!("no document: {line}")));
    let arbor_bson::Value::Document(document) = document else { panic!("no document: {line}") };
    let matched = parsed.matches_with_position(document.as_doc()).unwrap();
    match rest.strip_prefix("=> ").unwrap() {
        "true" => assert!(matched.is_some(), "{line}"),
        "false" => assert!(matched.is_none(), "{line}"),
        position => assert_eq!(matched.unwrap().position, Some(position[1..].parse().unwrap()), "{line}"),
    }
}

#[test]
fn equality() {
    check(
        r#"
        {} on {a: 1} => true
        {a: 1} on {a: 1} => true
        {a: 1} on {a: 1.0} => true
        {a: 1} on {a: Long(1)} => true
        {a: 1} on {a: Decimal("1.0")} => true
        {a: 1} on {a: '1'} => false
        {a: 1} on {b: 1} => false
        {a: 1} on {a: [3, 1]} => @1
        {a: [1, 2]} on {a: [1, 2]} => true
        {a: [1, 2]} on {a: [[1, 2], 3]} => @0
        {a: [1, 2]} on {a: [2, 1]} => false
        {a: {b: 1, c: 2}} on {a: {b: 1, c: 2}} => true
        {a: {b: 1, c: 2}} on {a: {c: 2, b: 1}} => false
        {a: {}} on {a: {}} => true
        {'a.b': 1} on {a: {b: 1}} => true
        {'a.b': 1} on {a: [{b: 2}, {b: 1}]} => @1
        {'a.b': 1} on {a: [[{b: 1}]]} => false
        {'a.1': 5} on {a: [4, 5]} => true
        {'a.0.b': 5} on {a: [{b: 5}]} => true
        {'a.0': 5} on {a: {'0': 5}} => true
        {'a.b.c': 1} on {a: [{b: [{c: 0}]}, {b: [{c: 2}, {c: 1}]}]} => @1
        {a: true} on {a: 1} => false
        {a: ObjectId("0102030405060708090a0b0c")} on {a: ObjectId("0102030405060708090a0b0c")} => true
        {a: Date(5)} on {a: Date(5)} => true
        {a: 'x'} on {a: Symbol('x')} => true
        {a: NaN} on {a: NaN} => true
        {a: NaN} on {a: 1} => false
        {a: -0.0} on {a: 0} => true
        {a: {$eq: 2}} on {a: 2} => true
        {a: {$ne: 2}} on {a: 2} => false
        {a: {$ne: 2}} on {a: [1, 2]} => false
        {a: {$ne: 2}} on {b: 1} => true
        {a: {$ref: 'c', $id: 1}} on {a: {$ref: 'c', $id: 1}} => true
        {a: undefined} => error 2: cannot compare to undefined
        {a: {$ne: /x/}} => error 2: Can't have regex as arg to $ne.
        {a: {$gt: /x/}} => error 2: Can't have RegEx as arg to predicate over field 'a'.
        {a: {$foo: 1}} => error 2: unknown operator: $foo
        {a: {$gt: 1, b: 1}} => error 2: unknown operator: b
        "#,
    );
}

#[test]
fn null_and_missing() {
    check(
        r#"
        {a: null} on {a: null} => true
        {a: null} on {} => true
        {a: null} on {a: 1} => false
        {a: null} on {a: []} => false
        {a: null} on {a: [null]} => true
        {a: null} on {a: undefined} => false
        {'a.b': null} on {a: 5} => true
        {'a.b': null} on {a: {}} => true
        {'a.b': null} on {a: [1, 2]} => false
        {'a.b': null} on {a: []} => false
        {'a.b': null} on {a: [{b: 1}, {}]} => true
        {a: {$ne: null}} on {} => false
        {a: {$ne: null}} on {a: 1} => true
        {a: {$gte: null}} on {} => true
        {a: {$lte: null}} on {a: null} => true
        {a: {$gt: null}} on {a: null} => false
        {a: {$in: [null, 1]}} on {} => true
        {a: {$nin: [null, 1]}} on {} => false
        {a: {$exists: true}} on {a: null} => true
        {a: {$exists: true}} on {} => false
        {a: {$exists: 0}} on {} => true
        {a: {$exists: false}} on {a: 1} => false
        {'a.b': {$exists: true}} on {a: [{}, {b: 1}]} => true
        {'a.b': {$exists: false}} on {a: [{}, {b: 1}]} => false
        {'a.0': {$exists: true}} on {a: [1]} => true
        {'a.1': {$exists: true}} on {a: [1]} => false
        "#,
    );
}

#[test]
fn ranges() {
    check(
        r#"
        {a: {$gt: 1}} on {a: 2} => true
        {a: {$gt: 1}} on {a: 'x'} => false
        {a: {$gt: 1}} on {a: [0, 5]} => @1
        {a: {$gt: 1, $lt: 3}} on {a: [0, 5]} => true
        {a: {$gte: 1.5}} on {a: Decimal("1.5")} => true
        {a: {$lt: 'b'}} on {a: 'a'} => true
        {a: {$lt: 'b'}} on {a: 1} => false
        {a: {$lt: Date(10)}} on {a: Date(9)} => true
        {a: {$lt: Date(10)}} on {a: Timestamp(0, 1)} => false
        {a: {$lt: NaN}} on {a: 1} => false
        {a: {$lte: NaN}} on {a: NaN} => true
        {a: {$lt: 5}} on {a: NaN} => false
        {a: {$lt: 5}} on {a: -Infinity} => true
        {a: {$gt: MinKey}} on {a: 1} => true
        {a: {$gt: MinKey}} on {a: MinKey} => false
        {a: {$lt: MaxKey}} on {a: 'x'} => true
        {a: {$gt: {b: 1}}} on {a: {b: 2}} => true
        {a: {$gt: [1, 2]}} on {a: [1, 3]} => true
        {a: {$gt: true}} on {a: true} => false
        {a: {$gte: false}} on {a: true} => true
        {a: {$gt: 9007199254740992.0}} on {a: Long(9007199254740993)} => true
        "#,
    );
}

#[test]
fn logical() {
    check(
        r#"
        {$and: [{a: 1}, {b: 2}]} on {a: 1, b: 2} => true
        {$and: [{a: 1}, {b: 2}]} on {a: 1} => false
        {$or: [{a: 1}, {b: 2}]} on {b: 2} => true
        {$or: [{a: 1}, {a: 2}]} on {a: 2} => true
        {$nor: [{a: 1}, {b: 2}]} on {a: 3} => true
        {$nor: [{a: 1}]} on {a: 1} => false
        {a: {$not: {$gt: 1}}} on {a: 1} => true
        {a: {$not: {$gt: 1}}} on {} => true
        {a: {$not: {$gt: 1, $lt: 5}}} on {a: 3} => false
        {a: {$not: /x/}} on {a: 'y'} => true
        {a: {$not: {$regex: 'x'}}} on {a: 'x'} => false
        {a: {$not: {$not: {$eq: 1}}}} on {a: 1} => true
        {$comment: 'hi', a: {$comment: 'x', $eq: 1}} on {a: 1} => true
        {$alwaysTrue: 1} on {} => true
        {$alwaysFalse: 1} on {} => false
        {$sampleRate: 0.0} on {} => false
        {$sampleRate: 1} on {} => true
        {$or: 1} => error 2: $or must be an array
        {$and: []} => error 2: $and/$or/$nor must be a nonempty array
        {$nor: [1]} => error 2: $or/$and/$nor entries need to be full objects
        {$foo: 1} => error 2: unknown top level operator: $foo. If you have a field name that starts with a '$' symbol, consider using $getField or $setField.
        {a: {$not: {}}} => error 2: $not cannot be empty
        {a: {$not: 1}} => error 2: $not needs a regex or a document
        {$where: 'x'} => error 2: no globalScriptEngine in $where parsing
        "#,
    );
}

#[test]
fn membership() {
    check(
        r#"
        {a: {$in: [1, 2]}} on {a: 2} => true
        {a: {$in: [1, 2]}} on {a: [5, 2]} => @1
        {a: {$in: []}} on {a: 1} => false
        {a: {$in: [/^x/, 3]}} on {a: 'xyz'} => true
        {a: {$in: [/^x/, 3]}} on {a: 'ayz'} => false
        {a: {$in: [[1]]}} on {a: [1]} => true
        {a: {$in: [NaN]}} on {a: NaN} => true
        {a: {$nin: [1, 2]}} on {a: 3} => true
        {a: {$nin: [1, 2]}} on {a: [3, 2]} => false
        {a: {$nin: []}} on {} => true
        {a: {$in: 1}} => error 2: $in needs an array
        {a: {$nin: {}}} => error 2: $nin needs an array
        {a: {$in: [{$gt: 1}]}} => error 2: cannot nest $ under $in
        "#,
    );
}

#[test]
fn regex_type_mod() {
    check(
        r#"
        {a: /^ab/} on {a: 'abc'} => true
        {a: /^ab/} on {a: ['x', 'abc']} => @1
        {a: /^ab/} on {a: /^ab/} => true
        {a: {$eq: /^ab/}} on {a: 'abc'} => false
        {a: {$eq: /^ab/}} on {a: /^ab/} => true
        {a: {$regex: 'AB', $options: 'i'}} on {a: 'abc'} => true
        {a: {$options: 'i', $regex: 'AB'}} on {a: 'abc'} => true
        {a: {$regex: /AB/i}} on {a: 'abc'} => true
        {a: /1/} on {a: 1} => false
        {a: {$type: 'string'}} on {a: 'x'} => true
        {a: {$type: 2}} on {a: ['x']} => true
        {a: {$type: 'array'}} on {a: []} => true
        {a: {$type: ['int', 'long']}} on {a: Long(1)} => true
        {a: {$type: 'number'}} on {a: 1.5} => true
        {a: {$type: 'null'}} on {} => false
        {a: {$mod: [4, 1]}} on {a: 5} => true
        {a: {$mod: [4, 1]}} on {a: 5.9} => true
        {a: {$mod: [4, -1]}} on {a: -5} => true
        {a: {$mod: [4, 1]}} on {a: '5'} => false
        {a: {$mod: [4, 0]}} on {a: NaN} => false
        {a: {$regex: 1}} => error 2: $regex has to be a string
        {a: {$regex: 'x', $options: 1}} => error 2: $options has to be a string
        {a: {$options: 'i'}} => error 2: $options needs a $regex
        {a: {$regex: /x/i, $options: 'm'}} => error 51075: options set in both $regex and $options
        {a: {$regex: 'x', $options: 'z'}} => error 51108: invalid flag in regex options: z
        {a: {$type: 'foo'}} => error 2: Unknown type name alias: foo
        {a: {$type: []}} => error 9: a must match at least one type
        {a: {$mod: 4}} => error 2: malformed mod, needs to be an array
        {a: {$mod: [4]}} => error 2: malformed mod, not enough elements
        {a: {$mod: [4, 1, 2]}} => error 2: malformed mod, too many elements
        {a: {$mod: [0, 1]}} => error 2: divisor cannot be 0
        {a: {$mod: ['a', 1]}} => error 2: malformed mod, divisor not a number
        {a: {$mod: [NaN, 1]}} => error 2: malformed mod, divisor value is invalid :: caused by :: Unable to coerce NaN/Inf to integral type
        "#,
    );
}

#[test]
fn arrays() {
    check(
        r#"
        {a: {$size: 2}} on {a: [1, 2]} => true
        {a: {$size: 2}} on {a: [1]} => false
        {a: {$size: 0}} on {} => false
        {a: {$size: 2.0}} on {a: [1, 2]} => true
        {'a.b': {$size: 1}} on {a: [{b: [1]}]} => true
        {a: {$size: 1}} on {a: [[1, 2]]} => true
        {a: {$all: [1, 2]}} on {a: [2, 3, 1]} => true
        {a: {$all: [1, 2]}} on {a: [1]} => false
        {a: {$all: [1]}} on {a: 1} => true
        {a: {$all: []}} on {a: []} => false
        {a: {$all: [[1, 2]]}} on {a: [1, 2]} => true
        {a: {$all: [/^x/, 'y']}} on {a: ['xx', 'y']} => true
        {a: {$all: [{$elemMatch: {b: 1}}, {$elemMatch: {b: 2}}]}} on {a: [{b: 1}, {b: 2}]} => true
        {a: {$all: [{$elemMatch: {b: 1, c: 1}}]}} on {a: [{b: 1}, {c: 1}]} => false
        {a: {$elemMatch: {b: 1, c: 2}}} on {a: [{b: 1}, {b: 1, c: 2}]} => @1
        {a: {$elemMatch: {b: 1, c: 2}}} on {a: [{b: 1}, {c: 2}]} => false
        {a: {$elemMatch: {b: 1}}} on {a: {b: 1}} => false
        {a: {$elemMatch: {$gt: 1, $lt: 3}}} on {a: [0, 2]} => @1
        {a: {$elemMatch: {$gt: 1, $lt: 3}}} on {a: [0, 5]} => false
        {a: {$elemMatch: {$elemMatch: {$eq: 2}}}} on {a: [[1], [2]]} => @1
        {a: {$elemMatch: {$not: {$gt: 1}}}} on {a: [5, 0]} => @1
        {a: {$elemMatch: {$or: [{b: 1}, {b: 2}]}}} on {a: [{b: 2}]} => true
        {a: {$elemMatch: {'0': 7}}} on {a: [[7]]} => true
        {a: {$elemMatch: {$ne: 1}}} on {a: [1]} => false
        {a: {$elemMatch: {$in: [2]}}} on {a: [1, 2]} => @1
        {a: {$elemMatch: {}}} on {a: [1]} => false
        {a: {$elemMatch: {}}} on {a: [{}]} => true
        {a: {$size: 'a'}} => error 2: Failed to parse $size. Expected a number in: $size: "a"
        {a: {$size: -1}} => error 2: Failed to parse $size. Expected a non-negative number in: $size: -1
        {a: {$size: 1.5}} => error 2: Failed to parse $size. Expected an integer: $size: 1.5
        {a: {$all: 1}} => error 2: $all needs an array
        {a: {$all: [{$gt: 1}]}} => error 2: no $ expressions in $all
        {a: {$elemMatch: 1}} => error 2: $elemMatch needs an Object
        {a: {$elemMatch: {b: {$foo: 1}}}} => error 2: unknown operator: $foo
        "#,
    );
}

#[test]
fn bits() {
    check(
        r#"
        {a: {$bitsAllSet: 6}} on {a: 7} => true
        {a: {$bitsAllSet: [1, 2]}} on {a: 5} => false
        {a: {$bitsAllClear: [1, 5]}} on {a: 5} => true
        {a: {$bitsAnySet: 6}} on {a: 4} => true
        {a: {$bitsAnyClear: 6}} on {a: 6} => false
        {a: {$bitsAllSet: [200]}} on {a: -1} => true
        {a: {$bitsAllSet: [200]}} on {a: 1} => false
        {a: {$bitsAllSet: [0, 9]}} on {a: Binary(0, '0102')} => true
        {a: {$bitsAllSet: Binary(0, '03')}} on {a: 3} => true
        {a: {$bitsAllSet: 1}} on {a: 1.5} => false
        {a: {$bitsAllSet: 1}} on {a: 'x'} => false
        {a: {$bitsAllSet: 'x'}} => error 2: $bitsAllSet takes an Array, a number, or a BinData but received: $bitsAllSet: "x"
        {a: {$bitsAllSet: -1}} => error 9: Expected a non-negative number in: $bitsAllSet: -1
        {a: {$bitsAllSet: 1.5}} => error 9: Expected an integer: $bitsAllSet: 1.5
        "#,
    );
}

#[test]
fn simplified() {
    for (filter, expect) in [
        ("{}", "And([])"),
        ("{$and: [{$and: [{}]}]}", "And([])"),
        ("{$or: [{}, {a: 1}]}", "And([])"),
        (
            "{$and: [{a: 1}, {$or: [{b: 2}]}]}",
            "And([Compare { path: a, op: Eq, value: Int32(1) }, Compare { path: b, op: Eq, value: Int32(2) }])",
        ),
        ("{a: {$in: [1]}}", "Compare { path: a, op: Eq, value: Int32(1) }"),
        ("{$or: [{a: 2}, {a: 1}]}", "In(In { path: a, values: [Int32(1), Int32(2)], regexes: [] })"),
        ("{a: {$in: []}}", "AlwaysFalse"),
        ("{a: {$nin: []}}", "And([])"),
    ] {
        let parsed = Filter::parse(doc(filter).as_doc(), &Context::default()).unwrap();
        assert_eq!(format!("{:?}", parsed.root()), expect, "{filter}");
    }
}

#[test]
fn expressions() {
    check(
        r#"
        {$expr: {$gt: ['$a', '$b']}} on {a: 2, b: 1} => true
        {$expr: {$gt: ['$a', '$b']}, c: 1} on {a: 0, b: 1, c: 1} => false
        {$expr: '$a'} on {a: null} => false
        {a: {$elemMatch: {$expr: true}}} => error 2: unknown operator: $expr
        {a: {$elemMatch: {b: 1, $expr: true}}} => error 2: $expr can only be applied to the top-level document
        {$expr: {$foo: 1}} => error 168: Unrecognized expression '$foo'
        "#,
    );
    let filter = doc("{$or: [{$expr: {$divide: [1, '$a']}}, {b: 1}]}");
    let filter = Filter::parse(filter.as_doc(), &Context::default()).unwrap();
    assert!(filter.matches(doc("{a: 2}").as_doc()).unwrap());
    assert_eq!(filter.matches(doc("{a: 0, b: 1}").as_doc()).unwrap_err().code.0, 2);
}

#[test]
fn deep_filters_are_refused() {
    let mut filter = doc("{a: 1}");
    for _ in 0..200 {
        let list: arbor_bson::ArrayBuf = [&filter].into_iter().collect();
        filter = arbor_bson::DocBuf::new().with("$and", &list);
    }
    assert!(Filter::parse(filter.as_doc(), &Context::default()).is_err());
}
