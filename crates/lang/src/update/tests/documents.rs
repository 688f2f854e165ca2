//! Paths, arrays, whole documents, upserts and limits.

use arbor_bson::{ArrayBuf, DocBuf, ObjectId, Value, ValueRef};

use super::{NOW, canonical, check, check_all, check_error, outcome, parse, parse_with};
use crate::{
    Context, Filter, Result,
    notation::{doc, show},
    update::{Touched, Update},
};

#[test]
fn conflicts_and_paths() {
    for (update, expect) in [
        ("{$set: {a: 1}, $inc: {a: 1}}", "40: Updating the path 'a' would create a conflict at 'a'"),
        ("{$set: {a: 1, 'a.b': 1}}", "40: Updating the path 'a.b' would create a conflict at 'a'"),
        ("{$set: {'a.b.c': 1}, $unset: {'a.b': 1}}", "40: Updating the path 'a.b' would create a conflict at 'a.b'"),
        ("{$set: {'a.$[]': 1, 'a.b': 1}}", "40: Updating the path 'a.b' would create a conflict at 'a'"),
        ("{$set: {'': 1}}", "56: An empty update path is not valid."),
        ("{$set: {'a..b': 1}}", "56: The update path 'a..b' contains an empty field name, which is not allowed."),
        ("{$set: {'a.': 1}}", "56: The update path 'a.' contains an empty field name"),
        ("{$set: {'$a': 1}}", "52: The dollar ($) prefixed field '$a' in '$a' is not allowed"),
        ("{$set: {'$': 1}}", "2: Cannot have positional (i.e. '$') element in the first position in path '$'"),
        ("{$set: {'$[]': 1}}", "2: Cannot have array filter identifier (i.e. '$[<id>]') element in the first position"),
        ("{$set: {'a.$.b.$': 1}}", "2: Too many positional (i.e. '$') elements found in path 'a.$.b.$'"),
        ("{$set: {'a.$[x]': 1}}", "2: No array filter found for identifier 'x' in path 'a.$[x]'"),
        (
            "{$set: 5}",
            "9: Modifiers operate on fields but we found type int instead. For example: {$mod: {<field>: ...}} not {$set: 5}",
        ),
        (
            "{$foo: {a: 1}}",
            "9: Unknown modifier: $foo. Expected a valid update modifier or pipeline-style update specified as an array",
        ),
        ("{$set: {a: 1}, b: 1}", "9: Unknown modifier: b."),
        (
            "{b: 1, $set: {a: 1}}",
            "52: The dollar ($) prefixed field '$set' in '$set' is not allowed in the context of an update's replacement document.",
        ),
        ("5", "9: "),
    ] {
        check_error("{}", update, expect);
    }
    for (old, update, expect) in [
        ("{a: 5}", "{$set: {'a.b': 1}}", "28: Cannot create field 'b' in element {a: 5}"),
        ("{a: null}", "{$inc: {'a.b': 1}}", "28: Cannot create field 'b' in element {a: null}"),
        ("{a: [1]}", "{$set: {'a.b': 1}}", "28: Cannot create field 'b' in element {a: [ 1 ]}"),
        ("{a: {b: 'x'}}", "{$push: {'a.b.c': 1}}", "28: Cannot create field 'c' in element {b: \"x\"}"),
        ("{a: 5}", "{$pull: {'a.b.c': 1}}", "28: Cannot use the part (b) of (a.b.c) to traverse the element ({a: 5})"),
        (
            "{a: 'x'}",
            "{$inc: {a: 1}}",
            "14: Cannot apply $inc to a value of non-numeric type. {no id} has the field 'a' of non-numeric type string",
        ),
        ("{a: []}", "{$set: {'a.1500001': 1}}", "34: "),
        (
            "{_id: 1}",
            "{$set: {_id: 2}}",
            "66: Performing an update on the path '_id' would modify the immutable field '_id'",
        ),
        (
            "{_id: {a: 1}}",
            "{$set: {'_id.a': 2}}",
            "66: Performing an update on the path '_id.a' would modify the immutable field '_id'",
        ),
        ("{_id: 1}", "{$unset: {_id: ''}}", "66: "),
        ("{_id: 1}", "{$rename: {_id: 'x'}}", "66: "),
    ] {
        check_error(old, update, expect);
    }
    check("{a: 5}", "{$setOnInsert: {'a.b': 1, c: 1}}", "same");
}

fn check_position(old: &str, query: &str, update: &str, expect: &str) {
    let filter = Filter::parse(doc(query).as_doc(), &Context::new(NOW)).unwrap();
    let old = doc(old);
    let position = filter.matches_with_position(old.as_doc()).unwrap().expect("it matches").position;
    let update = parse(update).unwrap();
    assert!(update.needs_position());
    assert_eq!(outcome(update.apply(old.as_doc(), position)), canonical(expect), "{old:?}");
}

#[test]
fn positional() {
    check_position("{a: [1, 5, 9]}", "{a: {$gt: 3}}", "{$set: {'a.$': 0}}", "{a: [1, 0, 9]}");
    check_position(
        "{a: [{b: 1}, {b: 2}]}",
        "{'a.b': 2}",
        "{$inc: {'a.$.b': 5, 'a.$.c': 1}}",
        "{a: [{b: 1}, {b: 7, c: 1}]}",
    );
    check_position("{a: [{b: 1}, {b: 2}]}", "{a: {$elemMatch: {b: 2}}}", "{$unset: {'a.$': 1}}", "{a: [{b: 1}, null]}");
    check_position("{a: [1, 2]}", "{a: 2}", "{$set: {'a.$': 3, 'a.0': 4}}", "{a: [4, 3]}");
    check_position("{a: [1, 2]}", "{a: 2}", "{$set: {'a.$': 3, 'a.1': 4}}", "40: Update created a conflict at 'a.1'");
    let missed = "2: The positional operator did not find the match needed from the query.";
    check_position("{a: [1], b: 1}", "{b: 1}", "{$set: {'a.$': 3}}", missed);
}

fn check_filters(old: &str, filters: &[&str], update: &str, expect: &str) {
    let result = parse_with(update, filters).and_then(|update| update.apply(doc(old).as_doc(), None));
    let outcome = outcome(result);
    let expect = canonical(expect);
    let same =
        if expect.starts_with(|c: char| c.is_ascii_digit()) { outcome.starts_with(&expect) } else { outcome == expect };
    assert!(same, "{old} {filters:?} {update}\n got {outcome}\nwant {expect}");
}

#[test]
fn array_updates() {
    let none: &[&str] = &[];
    for (old, filters, update, expect) in [
        ("{a: [1, 2]}", none, "{$inc: {'a.$[]': 10}}", "{a: [11, 12]}"),
        ("{a: []}", none, "{$inc: {'a.$[]': 10}}", "same"),
        ("{a: [[1], [2, 3]]}", none, "{$inc: {'a.$[].$[]': 1}}", "{a: [[2], [3, 4]]}"),
        (
            "{a: [{b: 1}, {b: 2}]}",
            none,
            "{$set: {'a.$[].c': 0}, $inc: {'a.$[].b': 1}}",
            "{a: [{b: 2, c: 0}, {b: 3, c: 0}]}",
        ),
        ("{a: [1, 5, 9]}", &["{x: {$gte: 5}}"], "{$set: {'a.$[x]': 0}}", "{a: [1, 0, 0]}"),
        (
            "{a: [{b: 1, c: 1}, {b: 2, c: 1}]}",
            &["{e.b: 2}"],
            "{$mul: {'a.$[e].c': 7}}",
            "{a: [{b: 1, c: 1}, {b: 2, c: 7}]}",
        ),
        (
            "{a: [1, 2, 3, 4]}",
            &["{x: {$lt: 2}}", "{y: {$gt: 3}}"],
            "{$set: {'a.$[x]': 'x', 'a.$[y]': 'y'}}",
            "{a: ['x', 2, 3, 'y']}",
        ),
        ("{a: [1]}", &["{$or: [{x: 1}, {x: 2}]}"], "{$unset: {'a.$[x]': 1}}", "{a: [null]}"),
        (
            "{a: [1, 2]}",
            &["{x: {$lt: 5}}", "{y: {$gt: 1}}"],
            "{$set: {'a.$[x]': 0, 'a.$[y]': 1}}",
            "40: Update created a conflict at 'a.1'",
        ),
        ("{a: [{b: 1}]}", &["{x.b: 1}"], "{$set: {'a.$[x].c': 1, 'a.$[].d': 2}}", "{a: [{b: 1, c: 1, d: 2}]}"),
        (
            "{b: 1}",
            none,
            "{$set: {'a.$[]': 1}}",
            "2: The path 'a' must exist in the document in order to apply array updates.",
        ),
        ("{a: 5}", none, "{$set: {'a.$[]': 1}}", "2: Cannot apply array updates to non-array element a: 5"),
        (
            "{a: [1]}",
            &["{x: 1}"],
            "{$set: {'a.$[]': 1}}",
            "9: The array filter for identifier 'x' was not used in the update { $set: { a.$[]: 1 } }",
        ),
        (
            "{a: [1]}",
            &["{x: 1}", "{x: 2}"],
            "{$set: {'a.$[x]': 1}}",
            "9: Found multiple array filters with the same top-level field name x",
        ),
        (
            "{a: [1]}",
            &["{x: 1, y: 2}"],
            "{$set: {'a.$[x]': 1}}",
            "9: Error parsing array filter :: caused by :: Expected a single top-level field name, found 'x' and 'y'",
        ),
        (
            "{a: [1]}",
            &["{X: 1}"],
            "{$set: {'a.$[X]': 1}}",
            "2: Error parsing array filter :: caused by :: The top-level field name must be an alphanumeric string beginning with a lowercase letter, found 'X'",
        ),
        (
            "{a: [1]}",
            &["{}"],
            "{$set: {'a.$[x]': 1}}",
            "9: Cannot use an expression without a top-level field name in arrayFilters",
        ),
        ("{a: [1]}", &["{x: 1}"], "{b: 1}", "9: arrayFilters may not be specified for replacement-syle updates"),
        ("{a: [1]}", &["{x: 1}"], "[{$set: {b: 1}}]", "9: arrayFilters may not be specified for pipeline-syle updates"),
    ] {
        check_filters(old, filters, update, expect);
    }
}

#[test]
fn replacements() {
    check_all(&[
        ("{_id: 1, a: 1}", "{b: 2}", "{_id: 1, b: 2}"),
        ("{_id: 1, a: 1}", "{}", "{_id: 1}"),
        ("{_id: 1, a: 1}", "{a: 1}", "{_id: 1, a: 1}"),
        ("{_id: 1, a: 1}", "{_id: 1, a: 1}", "same"),
        ("{_id: 1, a: 1}", "{b: 2, _id: 1}", "{_id: 1, b: 2}"),
        ("{_id: 1, a: 1}", "{a: {$x: 1}}", "{_id: 1, a: {$x: 1}}"),
        (
            "{_id: 1}",
            "{_id: 2}",
            "66: After applying the update, the (immutable) field '_id' was found to have been altered to _id: 2",
        ),
    ]);
    let stamped = parse("{t: Timestamp(0, 0), in: {t: Timestamp(0, 0)}}").unwrap();
    let new = stamped.apply(doc("{_id: 1}").as_doc(), None).unwrap().unwrap();
    assert!(matches!(new.get("t"), Some(ValueRef::Timestamp(t)) if t.seconds == 1_700_000_000));
    assert!(
        matches!(new.get("in"), Some(ValueRef::Document(d)) if matches!(d.get("t"), Some(ValueRef::Timestamp(t)) if t.seconds == 0))
    );
    assert!(parse("{a: 1}").unwrap().is_replacement());
    assert!(!parse("{$set: {a: 1}}").unwrap().is_replacement());
}

#[test]
fn pipelines() {
    check_all(&[
        ("{_id: 1, a: 1, b: 2}", "[{$set: {c: {$add: ['$a', '$b']}}}]", "{_id: 1, a: 1, b: 2, c: 3}"),
        ("{_id: 1, a: 1}", "[{$set: {a: 1}}]", "same"),
        ("{_id: 1, a: 1}", "[]", "same"),
        ("{_id: 1, a: 1, b: 2}", "[{$unset: 'a'}, {$addFields: {'x.y': '$b'}}]", "{_id: 1, b: 2, x: {y: 2}}"),
        ("{_id: 1, a: 1, b: 2}", "[{$project: {b: 1, _id: 0}}]", "{_id: 1, b: 2}"),
        ("{_id: 1, a: {x: 5}}", "[{$replaceWith: '$a'}]", "{_id: 1, x: 5}"),
        ("{_id: 1, a: {x: 5}}", "[{$replaceRoot: {newRoot: '$a'}}, {$set: {y: 6}}]", "{_id: 1, x: 5, y: 6}"),
        ("{_id: 1, n: 3}", "[{$set: {n: {$cond: [{$gt: ['$n', 2]}, 'many', 'few']}}}]", "{_id: 1, n: 'many'}"),
        ("{_id: 1, t: 0}", "[{$set: {t: '$$NOW'}}]", "{_id: 1, t: Date(1700000000123)}"),
    ]);
    check_error("{}", "[{$match: {a: 1}}]", "72: $match is not allowed to be used within an update");
    check_error("{}", "[{$set: {a: 1}}, {$lookup: {}}]", "72: $lookup is not allowed to be used within an update");
    check_error("{}", "[{$foo: {a: 1}}]", "40324: Unrecognized pipeline stage name: '$foo'");
    let altered = "66: After applying the update, the (immutable) field '_id' was found to have been altered to _id: 2";
    check_error("{_id: 1}", "[{$set: {_id: 2}}]", altered);
    let update = parse("[{$set: {a: 1}}]").unwrap();
    assert_eq!(update.touched_paths(), Touched::Everything);
}

fn upsert(filter: &str, update: &str) -> Result<DocBuf> {
    let filter = Filter::parse(doc(filter).as_doc(), &Context::new(NOW))?;
    parse(update)?.new_document(&filter, || ObjectId([0xAB; 12]))
}

#[test]
fn upserts() {
    let generated = "ObjectId('abababababababababababab')";
    for (filter, update, expect) in [
        ("{_id: 1}", "{$set: {a: 2}}", "{_id: 1, a: 2}"),
        ("{b: 1, a: 2}", "{$set: {c: 3}}", "{_id: GEN, a: 2, b: 1, c: 3}"),
        ("{a: 1}", "{$set: {_id: 5}}", "{_id: 5, a: 1}"),
        ("{a: 1}", "{$setOnInsert: {b: 2}, $inc: {a: 1, c: 1}}", "{_id: GEN, a: 2, b: 2, c: 1}"),
        (
            "{a: {$gt: 5}, b: {$eq: 2}, c: {$in: [3]}, d: {$in: [4, 5]}}",
            "{$set: {x: 1}}",
            "{_id: GEN, b: 2, c: 3, x: 1}",
        ),
        ("{$and: [{a: 1}, {$and: [{b: 2}]}]}", "{$set: {x: 1}}", "{_id: GEN, a: 1, b: 2, x: 1}"),
        ("{$or: [{a: 1}, {b: 2}]}", "{$set: {x: 1}}", "{_id: GEN, x: 1}"),
        ("{$or: [{a: 1}]}", "{$set: {x: 1}}", "{_id: GEN, a: 1, x: 1}"),
        ("{'a.b': 1, 'a.c': 2}", "{$set: {'a.d': 3}}", "{_id: GEN, a: {b: 1, c: 2, d: 3}}"),
        ("{a: /x/}", "{$set: {b: 1}}", "{_id: GEN, b: 1}"),
        ("{a: [1, 2]}", "{$push: {a: 3}}", "{_id: GEN, a: [1, 2, 3]}"),
        ("{a: {$ne: 1}}", "{$unset: {a: 1}}", "{_id: GEN}"),
        ("{a: 1}", "{$set: {'$b': 1}}", "{_id: GEN, a: 1, $b: 1}"),
        ("{a: 1}", "{$setOnInsert: {}}", "{_id: GEN, a: 1}"),
        ("{a: 1, _id: 3}", "{b: 2}", "{_id: 3, b: 2}"),
        ("{a: 1}", "{b: 2, _id: 4}", "{_id: 4, b: 2}"),
        ("{a: 1}", "{b: 2}", "{_id: GEN, b: 2}"),
        ("{_id: {$in: [7]}}", "{b: 2}", "{_id: 7, b: 2}"),
        ("{_id: {$gt: 7}}", "{b: 2}", "{_id: GEN, b: 2}"),
        ("{a: 1, _id: 7}", "[{$set: {b: {$add: ['$a', 1]}}}]", "{_id: 7, a: 1, b: 2}"),
        ("{a: 1, _id: 7}", "[{$replaceWith: {c: '$a'}}]", "{_id: 7, c: 1}"),
        ("{a: 1}", "[{$set: {_id: '$a'}}]", "{_id: 1, a: 1}"),
    ] {
        let new = upsert(filter, update).unwrap_or_else(|error| panic!("{filter} {update}: {error}"));
        assert_eq!(show((&new).into()), canonical(&expect.replace("GEN", generated)), "{filter} {update}");
    }
    for (filter, update, expect) in [
        ("{a: 1, $and: [{a: 2}]}", "{$set: {x: 1}}", "54: cannot infer query fields to set, path 'a' is matched twice"),
        (
            "{a: {b: 1}, 'a.b': 1}",
            "{$set: {x: 1}}",
            "54: cannot infer query fields to set, both paths 'a' and 'a.b' are matched",
        ),
        (
            "{'a.b': 1, a: {b: 1}}",
            "{$set: {x: 1}}",
            "54: cannot infer query fields to set, both paths 'a' and 'a.b' are matched",
        ),
        ("{_id: 1}", "{$set: {_id: 2}}", "66: "),
        ("{_id: 1}", "{_id: 2}", "66: "),
        ("{'_id.x': 1}", "{a: 2}", "111: field at '_id' must be exactly specified"),
        ("{a: 1}", "{$set: {'a.b': 2}}", "28: Cannot create field 'b' in element {a: 1}"),
        ("{a: 1}", "{$set: {_id: [1]}}", "53: The '_id' value cannot be of type array"),
        ("{a: 1}", "{$set: {'b.$': 1}}", "2: The positional operator did not find the match needed from the query."),
    ] {
        let outcome = outcome(upsert(filter, update).map(Some));
        assert!(outcome.starts_with(expect), "{filter} {update}\n got {outcome}\nwant {expect}");
    }
}

#[test]
fn touched() {
    let update = parse("{$set: {'a.b': 1, c: 1}, $inc: {'a.d': 1}, $rename: {x: 'y.z'}}").unwrap();
    assert_eq!(update.touched_paths(), Touched::Fields(["a", "c", "x", "y"].map(Into::into).to_vec()));
    for (path, expect) in [("a", true), ("a.q", true), ("y", true), ("b", false), ("ab", false)] {
        assert_eq!(update.touched_paths().may_change(path), expect, "{path}");
    }
    assert!(parse("{a: 1}").unwrap().touched_paths().may_change("q"));
}

#[test]
fn limits() {
    let large = Value::String("x".repeat(9 * 1024 * 1024));
    let old = DocBuf::new().with("_id", 1i32).with("a", &large);
    let set = DocBuf::new().with("$set", DocBuf::new().with("b", &large).as_doc());
    let update = Update::parse((&set).into(), &[], &Context::new(NOW)).unwrap();
    assert_eq!(update.apply(old.as_doc(), None).unwrap_err().code.0, 17419);
    let filter = Filter::parse(old.as_doc(), &Context::new(NOW)).unwrap();
    assert_eq!(update.new_document(&filter, || ObjectId([1; 12])).unwrap_err().code.0, 17420);

    let nested =
        |levels| (0..levels).fold(Value::Int32(1), |inner, _| Value::Array([&inner].into_iter().collect::<ArrayBuf>()));
    for (levels, path, fits) in [(177, "a.b.c", true), (178, "a.b.c", false), (150, "a", true)] {
        let set = DocBuf::new().with("$set", DocBuf::new().with(path, &nested(levels)).as_doc());
        let update = Update::parse((&set).into(), &[], &Context::new(NOW)).unwrap();
        let result = update.apply(doc("{_id: 1}").as_doc(), None);
        assert_eq!(result.is_ok(), fits, "{levels}");
        assert!(fits || result.unwrap_err().code.0 == 15);
    }
    let path = vec!["a"; 180].join(".");
    check_error("{}", &format!("{{$set: {{'{path}.b': 1}}}}"), "15: ");
}
