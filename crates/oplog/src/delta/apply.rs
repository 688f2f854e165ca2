//! Applying a delta.

use std::collections::HashMap;

use arbor_bson::{Array, ArrayBuf, DEPTH_MAX, Doc, DocBuf, ValueRef};

use super::read::{ArrayDelta, Delta, DocumentDelta, Step};

/// Most nulls between two elements, as an update may add.
const PADDING_MAX: usize = 1_500_000;

/// The bytes are no delta, or the delta of another document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the delta does not apply to the document")]
pub struct Mismatch;

pub fn apply(before: Doc<'_>, delta: Doc<'_>) -> Result<DocBuf, Mismatch> {
    match Delta::read(delta) {
        Some(Delta::Document(delta)) => to_document(before, &delta, DEPTH_MAX),
        _ => Err(Mismatch),
    }
}

/// `levels`: how much deeper it may lead; see [`super::diff`].
fn to_document(before: Doc<'_>, delta: &DocumentDelta<'_>, levels: usize) -> Result<DocBuf, Mismatch> {
    let updated: HashMap<&str, ValueRef<'_>> = delta.updated.iter().collect();
    let inner: HashMap<&str, Doc<'_>> = delta.inner.iter().copied().collect();
    let gone: HashMap<&str, ValueRef<'_>> = delta.removed.iter().chain(delta.inserted.iter()).collect();
    let mut after = DocBuf::new();
    for (name, value) in before {
        if gone.contains_key(name) {
            continue;
        }
        match (updated.get(name), inner.get(name)) {
            (Some(value), _) => append(&mut after, name, *value),
            (None, Some(delta)) => inside(value, *delta, levels, |value| append(&mut after, name, value))?,
            (None, None) => append(&mut after, name, value),
        }
    }
    delta.inserted.iter().for_each(|(name, value)| append(&mut after, name, value));
    Ok(after)
}

fn append(out: &mut DocBuf, name: &str, value: ValueRef<'_>) {
    out.append(name, value);
}

fn push(out: &mut ArrayBuf, value: ValueRef<'_>) {
    out.push(value);
}

/// Hands on what the delta makes of an inner document or array.
fn inside(
    before: ValueRef<'_>,
    delta: Doc<'_>,
    levels: usize,
    take: impl FnOnce(ValueRef<'_>),
) -> Result<(), Mismatch> {
    let levels = levels.checked_sub(1).ok_or(Mismatch)?;
    match (before, Delta::read(delta).ok_or(Mismatch)?) {
        (ValueRef::Document(before), Delta::Document(delta)) => take((&to_document(before, &delta, levels)?).into()),
        (ValueRef::Array(before), Delta::Array(delta)) => take((&to_array(before, &delta, levels)?).into()),
        _ => return Err(Mismatch),
    }
    Ok(())
}

fn to_array(before: Array<'_>, delta: &ArrayDelta<'_>, levels: usize) -> Result<ArrayBuf, Mismatch> {
    let mut steps = delta.steps.iter().peekable();
    let mut after = ArrayBuf::new();
    for (at, value) in before.iter().enumerate().take(delta.length.unwrap_or(usize::MAX)) {
        match steps.next_if(|(of, _)| *of == at).map(|(_, step)| step) {
            None => push(&mut after, value),
            Some(Step::Value(value)) => push(&mut after, *value),
            Some(Step::Inner(delta)) => inside(value, *delta, levels, |value| push(&mut after, value))?,
        }
    }
    for (at, step) in steps {
        match step {
            Step::Value(value) if (after.len()..=after.len() + PADDING_MAX).contains(at) => {
                (after.len()..*at).for_each(|_| push(&mut after, ValueRef::Null));
                push(&mut after, *value);
            }
            _ => return Err(Mismatch),
        }
    }
    Ok(after)
}

#[cfg(test)]
mod tests {
    use arbor_bson::Value;
    use arbor_notation::doc;
    use proptest::prelude::*;

    use super::super::diff;
    use super::*;

    #[test]
    fn deltas_are_as_short_as_the_table_says() {
        let check = |before: &str, after: &str, expected: Option<&str>| {
            // something long that stays, so that the delta pays
            let long = DocBuf::new().with("_id", "x".repeat(200).as_str());
            let padded = |text: &str| -> DocBuf {
                let doc = doc(text);
                long.as_doc().iter().chain(doc.as_doc()).collect()
            };
            let (before, after) = (padded(before), padded(after));
            let found = diff(before.as_doc(), after.as_doc());
            assert_eq!(
                found.as_ref().map(|found| format!("{found:?}")),
                expected.map(|e| format!("{:?}", doc(e))),
                "{before:?} {after:?}"
            );
            if let Some(found) = found {
                assert_eq!(apply(before.as_doc(), found.as_doc()).unwrap().as_bytes(), after.as_bytes());
            }
        };
        check("{a: 1, b: 2}", "{a: 3, c: 4}", Some("{d: {b: false}, u: {a: 3}, i: {c: 4}}"));
        check("{a: {b: 1, c: [1, 1, 1]}}", "{a: {b: 2, c: [1, 1, 1]}}", Some("{sa: {u: {b: 2}}}"));
        check("{a: [1, 2, 3, 3, 3]}", "{a: [1, 5, 3, 3]}", Some("{sa: {a: true, l: 4, u1: 5}}"));
        check("{a: [1, 2, 3, 4, 5]}", "{a: [1, 2, 3, 4, 5, 6]}", Some("{sa: {a: true, u5: 6}}"));
        check("{a: 1, b: 2}", "{b: 2, a: 1}", Some("{i: {a: 1}}"));
        check("{a: 1}", "{a: 1}", Some("{}"));
        check("{a: 1}", "{a: [1]}", Some("{u: {a: [1]}}"));
        check(
            "{a: [{b: 1, c: [1, 2, 3, 4]}]}",
            "{a: [{b: 2, c: [1, 2, 3, 4]}]}",
            Some("{sa: {a: true, s0: {u: {b: 2}}}}"),
        );
        let (before, after) = (doc("{a: 1}"), doc("{b: 1}"));
        assert!(diff(before.as_doc(), after.as_doc()).is_none(), "longer than the document itself");
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for (before, delta) in [
            ("{a: 1}", "{sa: {u: {b: 1}}}"),
            ("{a: {}}", "{sa: {a: true, u0: 1}}"),
            ("{a: []}", "{sa: {a: true, u2000000: 1}}"),
            ("{a: [1, 2]}", "{sa: {a: true, u3: 1, u2: 1}}"),
            ("{a: [1]}", "{sa: {a: true, x1: 1}}"),
            ("{a: 1}", "{u: 5}"),
            ("{a: 1}", "{x: {}}"),
            ("{a: 1}", "{a: true}"),
        ] {
            assert_eq!(apply(doc(before).as_doc(), doc(delta).as_doc()).unwrap_err(), Mismatch, "{before} {delta}");
        }
    }

    #[test]
    fn deltas_of_deeply_nested_documents_apply_or_are_recorded_whole() {
        let deep = |levels: usize, value: i32| {
            let long = DocBuf::new().with("x", "x".repeat(200).as_str()).with("v", value);
            (0..levels).fold(long, |inner, _| DocBuf::new().with("a", &inner).with("y", "y"))
        };
        for levels in [3, DEPTH_MAX - 1, DEPTH_MAX, DEPTH_MAX + 5, 600] {
            let (before, after) = (deep(levels, 1), deep(levels, 2));
            let Some(delta) = diff(before.as_doc(), after.as_doc()) else { continue };
            let applied = apply(before.as_doc(), delta.as_doc()).unwrap();
            assert_eq!(applied.as_bytes(), after.as_bytes(), "{levels}");
        }
        let delta = (0..2 * DEPTH_MAX).fold(DocBuf::new(), |inner, _| DocBuf::new().with("sa", &inner));
        assert_eq!(apply(deep(600, 1).as_doc(), delta.as_doc()).unwrap_err(), Mismatch);
        super::super::describe(delta.as_doc());
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            (0..3i32).prop_map(Value::Int32),
            "[a-c]{0,30}".prop_map(Value::String),
            Just(Value::Double(f64::NAN))
        ];
        leaf.prop_recursive(4, 24, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(|all| Value::Array(all.iter().collect())),
                fields(inner).prop_map(Value::Document),
            ]
        })
    }

    fn fields(value: impl Strategy<Value = Value>) -> impl Strategy<Value = DocBuf> {
        prop::collection::vec(("[a-e0]", value), 0..5).prop_map(|fields| {
            let mut seen = std::collections::HashSet::new();
            fields
                .iter()
                .filter(|(name, _)| seen.insert(name.clone()))
                .map(|(name, value)| (name.as_str(), value))
                .collect()
        })
    }

    proptest! {
        #[test]
        fn a_delta_turns_one_document_into_the_other(before in fields(value()), after in fields(value())) {
            let wide = |doc: &DocBuf| doc.clone().with("z", "x".repeat(3000).as_str());
            let (wide_before, wide_after) = (wide(&before), wide(&after));
            for (before, after) in [(before, after), (wide_before, wide_after)] {
                if let Some(delta) = diff(before.as_doc(), after.as_doc()) {
                    let applied = apply(before.as_doc(), delta.as_doc()).unwrap();
                    prop_assert_eq!(applied.as_bytes(), after.as_bytes(), "{:?} {:?}: {:?}", before, after, delta);
                }
            }
        }
    }
}
