//! The operators.

use arbor_bson::{DocBuf, ValueRef};

use super::{check, check_all, check_error, parse};
use crate::Context;
use crate::notation::{doc, show, value};
use crate::update::Update;

#[test]
fn set_and_unset() {
    check_all(&[
        ("{_id: 1, a: 1}", "{$set: {a: 2}}", "{_id: 1, a: 2}"),
        ("{a: 1}", "{$set: {a: 1}}", "same"),
        ("{a: 1}", "{$set: {a: 1.0}}", "{a: 1.0}"),
        ("{a: 1}", "{$set: {}}", "same"),
        ("{a: 1}", "{$set: {c: 3, b: 2}}", "{a: 1, b: 2, c: 3}"),
        ("{}", "{$set: {'a.10': 1, 'a.9': 2, 'a.b': 3}}", "{a: {'9': 2, '10': 1, b: 3}}"),
        ("{}", "{$set: {b: 1}, $inc: {a: 2}, $unset: {c: 1}}", "{a: 2, b: 1}"),
        ("{a: {b: 1, c: 2}}", "{$set: {'a.b': 5, 'a.d.e': 6}}", "{a: {b: 5, c: 2, d: {e: 6}}}"),
        ("{a: [1, 2]}", "{$set: {'a.1': 5}}", "{a: [1, 5]}"),
        ("{a: [1]}", "{$set: {'a.3': 5}}", "{a: [1, null, null, 5]}"),
        ("{a: [{b: 1}]}", "{$set: {'a.0.b': 2, 'a.1.b': 3}}", "{a: [{b: 2}, {b: 3}]}"),
        ("{a: []}", "{$set: {'a.0.1': 2}}", "{a: [{'1': 2}]}"),
        ("{a: 1}", "{$set: {a: {$b: 1}}}", "{a: {$b: 1}}"),
        ("{a: {$id: 1}}", "{$set: {'a.$id': 2, 'a.$x': 3}}", "{a: {$id: 2, $x: 3}}"),
        ("{a: 1, $b: 2}", "{$unset: {'$b': 1}}", "{a: 1}"),
        ("{a: 1, $b: 2}", "{$set: {'$b': 2}}", "same"),
        ("{a: 1, b: 2}", "{$unset: {a: ''}}", "{b: 2}"),
        ("{a: 1}", "{$unset: {b: '', 'a.x': '', 'c.d': ''}}", "same"),
        ("{a: [1, {b: 2}]}", "{$unset: {'a.0': '', 'a.1.b': '', 'a.5': '', 'a.x': ''}}", "{a: [null, {}]}"),
        ("{_id: 1, a: 1}", "{$set: {_id: 1, a: 2}}", "{_id: 1, a: 2}"),
        ("{_id: {a: 1}}", "{$set: {'_id.a': 1}}", "same"),
    ]);
    let twice = DocBuf::new().with("a", 1i32).with("a", 2i32);
    let result = parse("{$set: {a: 5}}").unwrap().apply(twice.as_doc(), None).unwrap().unwrap();
    let values: Vec<_> = result.as_doc().iter().map(|(_, v)| show(v)).collect();
    assert_eq!(values, ["5", "2"], "the first of repeated names is meant");
}

#[test]
fn what_may_be_applied_later_needs_the_document_alone() {
    for (update, whole) in [
        ("{$set: {b: 1, a: {c: 2}}, $unset: {'10': 1, '9': 1}}", Some("9=gone 10=gone a={ c: 2 } b=1")),
        ("{$set: {'a.b': 1}}", None),
        ("{$inc: {a: 1}, $set: {b: 1}}", None),
        ("{$push: {a: {$each: [1], $sort: 1}}, $bit: {b: {or: 1}}, $pop: {c: 1}, $pullAll: {d: [1]}}", None),
        ("{$mul: {a: 1}, $min: {b: 1}, $max: {c: 1}, $addToSet: {'d.$[]': 1}}", None),
    ] {
        let update = parse(update).unwrap();
        assert!(update.is_self_contained(), "{update:?}");
        let shown = update.whole_fields().map(|fields| {
            let one =
                |(name, value): &(&str, Option<ValueRef<'_>>)| format!("{name}={}", value.map_or("gone".into(), show));
            fields.iter().map(one).collect::<Vec<_>>().join(" ")
        });
        assert_eq!(shown.as_deref(), whole);
    }
    for update in [
        "{$set: {_id: 1}}",
        "{$set: {'_id.a': 1}}",
        "{$set: {'a.$': 1}}",
        "{$currentDate: {a: true}}",
        "{$setOnInsert: {a: 1}}",
        "{$rename: {a: 'b'}}",
        "{$pull: {a: {$gt: 1}}}",
        "{a: 1}",
        "[{$set: {a: 1}}]",
    ] {
        assert!(!parse(update).unwrap().is_self_contained(), "{update}");
    }
    let french =
        Context { collation: crate::Collation::parse(doc("{locale: 'fr'}").as_doc()).unwrap(), ..Context::new(0) };
    let update = Update::parse(value("{$set: {a: 1}}").as_ref(), &[], &french).unwrap();
    assert!(!update.is_self_contained(), "a collation");
}

#[test]
fn numbers() {
    check_all(&[
        ("{a: 1}", "{$inc: {a: 2, b: 5}}", "{a: 3, b: 5}"),
        ("{a: 1}", "{$inc: {a: 0}}", "same"),
        ("{a: 2147483647}", "{$inc: {a: 1}}", "{a: Long(2147483648)}"),
        ("{a: 1}", "{$inc: {a: Long(1)}}", "{a: Long(2)}"),
        ("{a: 1}", "{$inc: {a: 1.5}}", "{a: 2.5}"),
        ("{a: Long(1)}", "{$inc: {a: -1}}", "{a: Long(0)}"),
        ("{a: Decimal('0.1')}", "{$inc: {a: Decimal('0.2')}}", "{a: Decimal('0.3')}"),
        ("{a: 3}", "{$mul: {a: 2.5, b: 7, c: Long(7), d: 1.5}}", "{a: 7.5, b: 0, c: Long(0), d: 0.0}"),
        ("{a: 3}", "{$mul: {a: 1}}", "same"),
        ("{a: 2147483647}", "{$mul: {a: 2}}", "{a: Long(4294967294)}"),
        ("{a: 5}", "{$min: {a: 3, b: 1}}", "{a: 3, b: 1}"),
        ("{a: 5}", "{$min: {a: 5.0}}", "same"),
        ("{a: 5}", "{$min: {a: 'x'}}", "same"),
        ("{a: 5}", "{$max: {a: 'x'}}", "{a: 'x'}"),
        ("{a: 5}", "{$max: {a: 7.5}}", "{a: 7.5}"),
        ("{a: 5}", "{$max: {a: null}}", "same"),
        ("{a: 13}", "{$bit: {a: {and: 10}, b: {or: 5}, c: {and: 5}}}", "{a: 8, b: 5, c: 0}"),
        ("{a: 1}", "{$bit: {a: {xor: Long(3)}}}", "{a: Long(2)}"),
        ("{a: 1}", "{$bit: {a: {or: 6, and: 3}}}", "{a: 3}"),
    ]);
    check_error("{a: 1}", "{$inc: {a: 'x'}}", "14: Cannot increment with non-numeric argument: {a: \"x\"}");
    check_error("{a: 1}", "{$mul: {a: null}}", "14: Cannot multiply with non-numeric argument: {a: null}");
    check_error(
        "{_id: 7, a: 'x'}",
        "{$inc: {a: 1}}",
        "14: Cannot apply $inc to a value of non-numeric type. {_id: 7} has the field 'a' of non-numeric type string",
    );
    check_error(
        "{_id: 7, a: 9223372036854775807}",
        "{$inc: {a: 1}}",
        "2: Failed to apply $inc operations to current value ((NumberLong)9223372036854775807) for document {_id: 7}",
    );
    check_error("{a: 1}", "{$bit: {a: 1}}", "2: The $bit modifier is not compatible with a int.");
    check_error("{a: 1}", "{$bit: {a: {}}}", "2: You must pass in at least one bitwise operation.");
    check_error("{a: 1}", "{$bit: {a: {not: 1}}}", "2: The $bit modifier only supports 'and', 'or', and 'xor'");
    check_error("{a: 1}", "{$bit: {a: {and: 1.5}}}", "2: The $bit modifier field must be an Integer(32/64 bit)");
    check_error("{_id: 1, a: 1.5}", "{$bit: {a: {and: 1}}}", "2: Cannot apply $bit to a value of non-integral type.");
}

#[test]
fn dates() {
    check(
        "{a: 1}",
        "{$currentDate: {a: true, b: {$type: 'date'}}}",
        "{a: Date(1700000000123), b: Date(1700000000123)}",
    );
    let update = parse("{$currentDate: {t: {$type: 'timestamp'}}}").unwrap();
    let new = update.apply(doc("{}").as_doc(), None).unwrap().unwrap();
    assert!(matches!(new.get("t"), Some(ValueRef::Timestamp(t)) if t.seconds == 1_700_000_000 && t.increment == 1));
    check_error("{}", "{$currentDate: {a: 1}}", "2: int is not valid type for $currentDate.");
    check_error("{}", "{$currentDate: {a: {$type: 'x'}}}", "2: The '$type' string field is required");
    check_error("{}", "{$currentDate: {a: {foo: 1}}}", "2: Unrecognized $currentDate option: foo");
}

#[test]
fn push() {
    check_all(&[
        ("{a: [1]}", "{$push: {a: 2}}", "{a: [1, 2]}"),
        ("{a: [1]}", "{$push: {a: [2, 3]}}", "{a: [1, [2, 3]]}"),
        ("{}", "{$push: {a: 1}}", "{a: [1]}"),
        ("{}", "{$push: {'a.b': {c: 1}}}", "{a: {b: [{c: 1}]}}"),
        ("{a: [1]}", "{$push: {a: {$each: [2, 3]}}}", "{a: [1, 2, 3]}"),
        ("{a: [1]}", "{$push: {a: {$each: []}}}", "same"),
        ("{a: [1, 2]}", "{$push: {a: {$each: [9], $position: 0}}}", "{a: [9, 1, 2]}"),
        ("{a: [1, 2]}", "{$push: {a: {$each: [9], $position: -1}}}", "{a: [1, 9, 2]}"),
        ("{a: [1, 2]}", "{$push: {a: {$each: [9], $position: -9}}}", "{a: [9, 1, 2]}"),
        ("{a: [1, 2]}", "{$push: {a: {$each: [9], $position: 77}}}", "{a: [1, 2, 9]}"),
        ("{a: [5]}", "{$push: {a: {$each: [9, 1], $sort: 1}}}", "{a: [1, 5, 9]}"),
        ("{a: [5]}", "{$push: {a: {$each: [9, 1], $sort: -1, $slice: 2}}}", "{a: [9, 5]}"),
        ("{a: [1, 2, 3]}", "{$push: {a: {$each: [4], $slice: -2}}}", "{a: [3, 4]}"),
        ("{a: [1, 2, 3]}", "{$push: {a: {$each: [], $slice: 0}}}", "{a: []}"),
        ("{}", "{$push: {a: {$each: [3, 1, 2], $sort: 1, $slice: -2}}}", "{a: [2, 3]}"),
        (
            "{a: [{s: 2, n: 1}, {s: 1}, 7]}",
            "{$push: {a: {$each: [{s: 3}], $sort: {s: -1, n: 1}}}}",
            "{a: [{s: 3}, {s: 2, n: 1}, {s: 1}, 7]}",
        ),
        (
            "{a: [{b: {c: 2}}, {b: {c: 1}}]}",
            "{$push: {a: {$each: [], $sort: {'b.c': 1}}}}",
            "{a: [{b: {c: 1}}, {b: {c: 2}}]}",
        ),
    ]);
    check_error(
        "{_id: 1, a: 5}",
        "{$push: {a: 1}}",
        "2: The field 'a' must be an array but is of type int in document {_id: 1}",
    );
    check_error(
        "{}",
        "{$push: {a: {$each: 5}}}",
        "2: The argument to $each in $push must be an array but it was of type: int",
    );
    check_error("{}", "{$push: {a: {$each: [], $foo: 1}}}", "2: Unrecognized clause in $push: $foo");
    check_error(
        "{}",
        "{$push: {a: {$each: [], $slice: 'x'}}}",
        "2: The value for $slice must be an integer value but was given type: string",
    );
    check_error(
        "{}",
        "{$push: {a: {$each: [], $position: 1.5}}}",
        "2: The value for $position must be an integer value",
    );
    check_error("{}", "{$push: {a: {$each: [], $sort: 2}}}", "2: The $sort is invalid");
    check_error("{}", "{$push: {a: {$each: [], $sort: {b: 2}}}}", "2: The $sort element value must be either 1 or -1");
    check_error("{}", "{$push: {a: {$each: [], $sort: {}}}}", "2: The $sort pattern is empty");
}

#[test]
fn sets_and_pulls() {
    check_all(&[
        ("{a: [1, 2]}", "{$addToSet: {a: 2}}", "same"),
        ("{a: [1, 2]}", "{$addToSet: {a: 2.0}}", "same"),
        ("{a: [1, 2]}", "{$addToSet: {a: {$each: [2, 3, 3]}}}", "{a: [1, 2, 3]}"),
        ("{a: [{x: 1, y: 2}]}", "{$addToSet: {a: {y: 2, x: 1}}}", "{a: [{x: 1, y: 2}, {y: 2, x: 1}]}"),
        ("{}", "{$addToSet: {a: {$each: [1, 1, 2]}}}", "{a: [1, 2]}"),
        ("{a: [1, 2, 3]}", "{$pop: {a: 1}}", "{a: [1, 2]}"),
        ("{a: [1, 2, 3]}", "{$pop: {a: -1.0}}", "{a: [2, 3]}"),
        ("{a: []}", "{$pop: {a: 1, b: 1}}", "same"),
        ("{a: [1, 2, 1.0, '1']}", "{$pull: {a: 1}}", "{a: [2, '1']}"),
        ("{a: [1, 5, 9]}", "{$pull: {a: {$gte: 5}}}", "{a: [1]}"),
        ("{a: [1, 5, 9]}", "{$pull: {a: {$in: [1, 9]}}}", "{a: [5]}"),
        ("{a: ['ab', 'ba', 3]}", "{$pull: {a: /^a/}}", "{a: ['ba', 3]}"),
        ("{a: [{b: 1, c: 2}, {b: 1}, {b: 2}, 1]}", "{$pull: {a: {b: 1}}}", "{a: [{b: 2}, 1]}"),
        ("{a: [{b: 1}, {b: 5}]}", "{$pull: {a: {b: {$gt: 3}}}}", "{a: [{b: 1}]}"),
        ("{a: [{b: [1, 2]}, {b: [3]}]}", "{$pull: {a: {b: {$elemMatch: {$lt: 3}}}}}", "{a: [{b: [3]}]}"),
        ("{a: [[1, 2], [2, 1]]}", "{$pull: {a: [1, 2]}}", "{a: [[2, 1]]}"),
        ("{a: [null, 1]}", "{$pull: {a: null}}", "{a: [1]}"),
        ("{b: 1}", "{$pull: {a: 1}, $pullAll: {c: [1]}}", "same"),
        ("{a: [1, 2, 3, 2]}", "{$pullAll: {a: [2, 3.0]}}", "{a: [1]}"),
    ]);
    check_error(
        "{a: 1}",
        "{$addToSet: {a: 1}}",
        "2: Cannot apply $addToSet to a non-array field. Field named 'a' has a non-array type int",
    );
    check_error(
        "{}",
        "{$addToSet: {a: {$each: 1}}}",
        "14: The argument to $each in $addToSet must be an array but it was of type int",
    );
    check_error("{}", "{$addToSet: {a: {$each: [], x: []}}}", "2: Found unexpected fields after $each in $addToSet");
    check_error("{a: 1}", "{$pop: {a: 1}}", "14: Path 'a' contains an element of non-array type 'int'");
    check_error("{}", "{$pop: {a: 2}}", "9: $pop expects 1 or -1, found: 2");
    check_error("{}", "{$pop: {a: 'x'}}", "9: Expected a number in: a: \"x\"");
    check_error("{a: 1}", "{$pull: {a: 1}}", "2: Cannot apply $pull to a non-array value");
    check_error("{}", "{$pullAll: {a: 1}}", "2: $pullAll requires an array argument but was given a int");
}

#[test]
fn rename() {
    check_all(&[
        ("{a: 1, b: 2}", "{$rename: {a: 'c.d'}}", "{b: 2, c: {d: 1}}"),
        ("{a: 1, b: 2}", "{$rename: {a: 'b'}}", "{b: 1}"),
        ("{a: 1}", "{$rename: {x: 'y', 'c.b': 'z'}}", "same"),
        ("{a: {b: 1, c: 2}}", "{$rename: {'a.b': 'a.d'}}", "{a: {c: 2, d: 1}}"),
        ("{a: {b: 1}}", "{$rename: {'a.b': 'x'}, $set: {c: 1}}", "{a: {}, c: 1, x: 1}"),
    ]);
    check_error("{}", "{$rename: {a: 5}}", "2: The 'to' field for $rename must be a string: a: 5");
    check_error("{}", "{$rename: {a: 'a'}}", "2: The source and target field for $rename must differ: a: \"a\"");
    check_error(
        "{}",
        "{$rename: {a: 'a.b'}}",
        "2: The source and target field for $rename must not be on the same path",
    );
    check_error("{}", "{$rename: {'a.$': 'b'}}", "2: The source field for $rename may not be dynamic: a.$");
    check_error("{}", "{$rename: {a: 'b.$[]'}}", "2: The destination field for $rename may not be dynamic: b.$[]");
    check_error(
        "{_id: 1, a: [{b: 1}]}",
        "{$rename: {'a.0.b': 'c'}}",
        "2: The source field cannot be an array element, 'a.0.b' in doc with _id: 1 has an array field called 'a'",
    );
    check_error(
        "{_id: 1, a: 1, b: [1]}",
        "{$rename: {a: 'b.0'}}",
        "2: The destination field cannot be an array element, 'b.0' in doc with _id: 1 has an array field called 'b'",
    );
    check_error("{}", "{$rename: {a: 'b'}, $set: {b: 1}}", "40: ");
}
