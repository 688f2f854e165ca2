//! Random updates of random documents: what holds for all of them.

use arbor_bson::{ArrayBuf, Doc, DocBuf, Limits, Value, ValueRef, identical, validate};
use proptest::prelude::*;

use super::Update;
use crate::Context;

fn scalar() -> BoxedStrategy<Value> {
    prop_oneof![
        (-3i32..4).prop_map(Value::Int32),
        Just(Value::Int64(i64::MAX)),
        Just(Value::Double(1.5)),
        Just(Value::Null),
        "[a-c]{0,2}".prop_map(Value::String),
    ]
    .boxed()
}

fn value() -> BoxedStrategy<Value> {
    scalar()
        .prop_recursive(3, 12, 3, |inner| {
            // names differ: of fields with one name an update sees the first only, so a second $unset finds another
            let name = proptest::sample::select(vec!["a", "b", "0"]);
            prop_oneof![
                proptest::collection::btree_map(name, inner.clone(), 0..3)
                    .prop_map(|fields| Value::Document(fields.iter().collect())),
                proptest::collection::vec(inner, 0..4)
                    .prop_map(|values| Value::Array(values.iter().collect::<ArrayBuf>())),
            ]
        })
        .boxed()
}

fn document() -> BoxedStrategy<DocBuf> {
    let fields = (proptest::option::of(value()), proptest::option::of(value()), proptest::option::of(value()));
    fields
        .prop_map(|(a, b, c)| {
            let fields = [("a", a), ("b", b), ("c", c)];
            let given = fields.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
            given.fold(DocBuf::new().with("_id", 1i32), |doc, (name, value)| doc.with(name, value))
        })
        .boxed()
}

/// Operators whose second application must find nothing to do, and the others.
const STABLE: [&str; 7] = ["$set", "$unset", "$min", "$max", "$addToSet", "$pull", "$pullAll"];
const OTHERS: [&str; 6] = ["$inc", "$mul", "$push", "$pop", "$bit", "$setOnInsert"];

fn update(operators: &'static [&'static str]) -> BoxedStrategy<DocBuf> {
    let step = proptest::sample::select(vec!["a", "b", "0", "2", "$[]", "$"]);
    let path = (proptest::sample::select(vec!["a", "b", "c"]), proptest::collection::vec(step, 0..3))
        .prop_map(|(head, steps)| [vec![head], steps].concat().join("."));
    let operand = prop_oneof![
        4 => value(),
        1 => proptest::collection::vec(value(), 0..3).prop_map(|values| Value::Array(values.iter().collect())),
        1 => proptest::collection::vec(value(), 0..3).prop_map(|values| {
            let values: ArrayBuf = values.iter().collect();
            Value::Document(DocBuf::new().with("$each", &values))
        }),
        1 => Just(Value::Document(DocBuf::new().with("xor", 5i32))),
        1 => Just(Value::Int32(1)),
    ];
    let part = (proptest::sample::select(operators.to_vec()), path, operand);
    proptest::collection::vec(part, 1..4)
        .prop_map(|parts| {
            let part = |(operator, path, operand): &(&str, String, Value)| {
                (operator.to_string(), Value::Document(DocBuf::new().with(path, operand)))
            };
            let parts: Vec<_> = parts.iter().map(part).collect();
            parts.iter().map(|(operator, fields)| (operator, fields)).collect()
        })
        .boxed()
}

fn untouched<'d>(doc: Doc<'d>, update: &Update) -> Vec<(&'d str, ValueRef<'d>)> {
    let touched = update.touched_paths();
    doc.iter().filter(|(name, _)| !touched.may_change(name)).collect()
}

fn check(old: &DocBuf, update: &DocBuf, position: Option<usize>, stable: bool) {
    let Ok(update) = Update::parse(update.into(), &[], &Context::new(0)) else { return };
    let Ok(Some(new)) = update.apply(old.as_doc(), position) else { return };
    assert!(validate(new.as_bytes(), Limits::STORED).is_ok(), "{new:?}");
    let (before, after) = (untouched(old.as_doc(), &update), untouched(new.as_doc(), &update));
    assert_eq!(before.len(), after.len());
    for ((name, a), (same_name, b)) in before.iter().zip(&after) {
        assert!(name == same_name && identical(*a, *b), "{name} changed");
    }
    if stable {
        let again = update.apply(new.as_doc(), position);
        assert!(matches!(again, Ok(None) | Err(_)), "{update:?} of {new:?} gives {again:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn stable_operators(old in document(), update in update(&STABLE), position in proptest::option::of(0usize..3)) {
        check(&old, &update, position, true);
    }

    #[test]
    fn other_operators(old in document(), update in update(&OTHERS), position in proptest::option::of(0usize..3)) {
        check(&old, &update, position, false);
    }
}
