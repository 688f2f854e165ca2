//! Table-style checks: projection, document, what is shown.

use super::*;
use crate::notation::{doc, read, show, value};

/// Lines of `<projection> on <document> => <document>` or `<projection> => error <code>: <text>`. `(2)` after `on` is
/// the position that `$` refers to.
fn check(kind: ProjectionKind, table: &str) {
    for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (spec, rest) = read(line);
        let arbor_bson::Value::Document(spec) = spec else { panic!("{line}") };
        let query = Filter::parse(arbor_bson::Doc::empty(), &Context::default()).unwrap();
        let parsed = Projection::parse(spec.as_doc(), kind, Some(&query), &Context::default());
        if let Some(expect) = rest.strip_prefix("=> error ") {
            let error = parsed.expect_err(line);
            assert_eq!(format!("{}: {}", error.code.0, error.message), expect, "{line}");
            continue;
        }
        let projection = parsed.unwrap_or_else(|error| panic!("{line}: {error}"));
        let rest = rest.strip_prefix("on ").unwrap();
        let (position, rest) = match rest.strip_prefix('(') {
            Some(rest) => (rest[..1].parse().ok(), &rest[2..]),
            None => (None, rest),
        };
        let (document, rest) = read(rest);
        let arbor_bson::Value::Document(document) = document else { panic!("{line}") };
        let shown = match projection.apply(document.as_doc(), position) {
            Ok(shown) => show((&shown).into()),
            Err(error) => format!("error {}", error.code.0),
        };
        let expect = rest.strip_prefix("=> ").unwrap();
        let expect = if expect.starts_with("error") { expect.to_owned() } else { show(value(expect).as_ref()) };
        assert_eq!(shown, expect, "{line}");
    }
}

#[test]
fn find() {
    check(
        ProjectionKind::Find,
        r#"
        {} on {_id: 1, a: 2} => {_id: 1, a: 2}
        {a: 1} on {_id: 1, b: 3, a: 2} => {_id: 1, a: 2}
        {a: true, _id: 0} on {_id: 1, a: 2} => {a: 2}
        {_id: 0} on {_id: 1, a: 2} => {a: 2}
        {_id: 1} on {_id: 1, a: 2} => {_id: 1}
        {a: 0} on {_id: 1, a: 2, b: 3} => {_id: 1, b: 3}
        {a: 0, _id: 1} on {_id: 1, a: 2, b: 3} => {_id: 1, b: 3}
        {'a.b': 1} on {_id: 1, a: {b: 2, c: 3}} => {_id: 1, a: {b: 2}}
        {a: {b: 1}} on {_id: 1, a: {b: 2, c: 3}} => {_id: 1, a: {b: 2}}
        {'a.b': 1} on {a: [{b: 1, c: 2}, 5, {c: 3}, [{b: 4}]]} => {a: [{b: 1}, {}, [{b: 4}]]}
        {'a.b': 1} on {a: 5} => {}
        {'a.b': 0} on {a: [{b: 1, c: 2}, 5]} => {a: [{c: 2}, 5]}
        {'a.b': 0, 'a.c': 0} on {a: {b: 1, c: 2, d: 3}} => {a: {d: 3}}
        {a: {$slice: 2}} on {_id: 1, a: [1, 2, 3], b: 1} => {_id: 1, a: [1, 2], b: 1}
        {a: {$slice: -1}} on {a: [1, 2, 3]} => {a: [3]}
        {a: {$slice: [1, 1]}} on {a: [1, 2, 3]} => {a: [2]}
        {a: {$slice: [-2, 1]}} on {a: [1, 2, 3]} => {a: [2]}
        {a: {$slice: 1}, b: 1} on {_id: 1, a: [1, 2], b: 2, c: 3} => {_id: 1, a: [1], b: 2}
        {'a.b': {$slice: 1}} on {a: [{b: [1, 2], c: 1}]} => {a: [{b: [1], c: 1}]}
        {a: {$elemMatch: {x: 2}}} on {_id: 1, a: [{x: 1}, {x: 2, y: 1}, {x: 2}], b: 1} => {_id: 1, a: [{x: 2, y: 1}]}
        {a: {$elemMatch: {$gt: 1}}} on {_id: 1, a: [1, 2, 3]} => {_id: 1, a: [2]}
        {a: {$elemMatch: {$gt: 9}}} on {_id: 1, a: [1]} => {_id: 1}
        {a: {$elemMatch: {$gt: 1}}, b: 0} on {_id: 1, a: [1, 2, 3], b: 1, c: 2} => {_id: 1, a: [2], c: 2}
        {b: 0, a: {$elemMatch: {$gt: 9}}} on {_id: 1, a: [1], b: 1, c: 2} => {_id: 1, c: 2}
        {'a.$': 1} on (1){_id: 1, a: [5, 6, 7], b: 1} => {_id: 1, a: [6]}
        {'a.b.$': 1} on (0){_id: 1, a: {b: [5, 6], c: 1}} => {_id: 1, a: {b: [5]}}
        {'a.$': 1} on {_id: 1, a: [5]} => error 51246
        {'a.$': 1} on {_id: 1, a: 5} => {_id: 1, a: 5}
        {b: '$a', c: {$add: ['$a', 1]}} on {_id: 1, a: 2} => {_id: 1, b: 2, c: 3}
        {'x.y': '$a'} on {_id: 1, a: 2} => {_id: 1, x: {y: 2}}
        {b: 'text', n: null} on {_id: 1} => {_id: 1, b: 'text', n: null}
        {a: 1, b: 0} => error 31254: Cannot do exclusion on field b in inclusion projection
        {a: 0, b: 1} => error 31253: Cannot do inclusion on field b in exclusion projection
        {a: 0, b: '$x'} => error 31252: Cannot use an expression b in an exclusion projection
        {a: 1, 'a.b': 1} => error 31249: Path collision at a.b remaining portion b
        {'a.b': 1, a: 1} => error 31250: Path collision at a
        {'a.$.b': 1} => error 31394: Positional projection may only be used at the end, for example: a.b.$. If the query previously used a form like a.b.$.d, remove the parts following the '$' and the results will be equivalent.
        {'a.$': 0} => error 31395: positional projection cannot be used with exclusion
        {'a.$': 1, 'b.$': 1} => error 31276: Cannot specify more than one positional projection per query.
        {'a.$': 1, b: {$elemMatch: {}}} => error 31255: Cannot specify positional operator and $elemMatch.
        {'a.b': {$elemMatch: {}}} => error 31275: Cannot use $elemMatch projection on a nested field.
        {a: {$elemMatch: 1}} => error 31274: elemMatch: Invalid argument, object required, but got int
        {a: {}} => error 51270: An empty sub-projection is not a valid value. Found empty object at path
        {'': 1} => error 40352: FieldPath cannot be constructed with empty string
        {$a: 1} => error 16410: FieldPath field names may not start with '$'. Consider using $getField or $setField.
        {a: {$foo: 1}} => error 31325: Unknown expression $foo
        {a: {$add: [{$foo: 1}]}} => error 168: Unrecognized expression '$foo'
        "#,
    );
}

#[test]
fn aggregate() {
    check(
        ProjectionKind::Aggregate,
        r#"
        {a: 1, b: {$multiply: ['$a', 2]}} on {_id: 1, a: 2, c: 1} => {_id: 1, a: 2, b: 4}
        {a: '$b'} on {_id: 1, a: 2, b: 3} => {_id: 1, a: 3}
        {_id: '$b', a: 1} on {_id: 1, a: 2, b: 3} => {a: 2, _id: 3}
        {a: ['$b', 1]} on {_id: 1, b: 3} => {_id: 1, a: [3, 1]}
        {a: {$slice: ['$a', 1]}} on {_id: 1, a: [1, 2]} => {_id: 1, a: [1]}
        {'a.x': '$b'} on {_id: 1, a: [{x: 1, y: 1}, 5], b: 3} => {_id: 1, a: [{x: 3}]}
        {'a.$': 1} => error 31324: Cannot use positional projection in aggregation projection
        "#,
    );
}

#[test]
fn what_covers() {
    let paths = |spec: &str| {
        Projection::parse(doc(spec).as_doc(), ProjectionKind::Find, None, &Context::default())
            .unwrap()
            .covered_by()
            .map(|paths| paths.iter().map(|path| path.as_str().to_owned()).collect::<Vec<_>>())
    };
    assert_eq!(paths("{a: 1, 'b.c': 1, _id: 0}"), Some(vec!["a".to_owned(), "b.c".to_owned()]));
    assert_eq!(paths("{a: 1}"), Some(vec!["_id".to_owned(), "a".to_owned()]));
    assert_eq!(paths("{a: 0}"), None);
    assert_eq!(paths("{a: '$b'}"), None);
}
