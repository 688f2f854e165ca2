//! Find, count, insert and delete over the model engine.

use arbor_bson::{DocBuf, ValueRef};
use arbor_query::{BatchLimit, FindSpec, Hint, Interrupt};

use crate::support::{array, at, doc, ids, rig};

fn numbers(count: i32) -> Vec<DocBuf> {
    (0..count).map(|n| DocBuf::new().with("_id", n).with("a", n % 10).with("b", n)).collect()
}

#[test]
fn a_missing_collection_is_empty() {
    let rig = rig();
    assert!(rig.find(&DocBuf::new()).is_empty());
    assert!(rig.find(&doc("_id", 1i32)).is_empty());
    assert_eq!(rig.count(&doc("a", 1i32)), 0);
    assert_eq!(rig.delete(&doc("a", 1i32), true), 0);
}

#[test]
fn by_id_by_range_and_by_scan() {
    let rig = rig();
    rig.fill(&numbers(100));
    assert_eq!(rig.ids(&doc("_id", 7i64)), ["7"]);
    assert_eq!(rig.ids(&doc("_id", &doc("$gte", 98i32))), ["98", "99"]);
    assert_eq!(rig.ids(&doc("_id", &doc("$in", &array([3i32, 1, 500])))), ["1", "3"]);
    assert_eq!(rig.ids(&doc("b", 42i32)), ["42"]);
    assert_eq!(rig.count(&DocBuf::new()), 100);
    assert_eq!(rig.count(&doc("a", 3i32)), 10);
    assert_eq!(rig.count(&doc("_id", &doc("$lt", 5i32))), 5);
}

#[test]
fn batches_go_on_where_the_last_one_ended() {
    let rig = rig();
    rig.fill(&numbers(50));
    rig.index("a, -b");
    let by_index = doc("a", &doc("$gte", 0i32));
    for filter in [DocBuf::new(), by_index, doc("_id", &doc("$gte", 0i32))] {
        for direction in [1i32, -1] {
            let sort = doc("_id", direction);
            let mut spec = rig.find_spec(&filter);
            spec.sort = Some(sort.as_doc());
            let whole = ids(&rig.run(&spec));
            let mut cursor = arbor_query::find(&rig.scope(), &spec, &Interrupt::never()).unwrap();
            let mut parts = Vec::new();
            loop {
                let batch = cursor.next_batch(BatchLimit::docs(7), &Interrupt::never()).unwrap();
                parts.extend(batch.docs.as_array().iter().map(|value| match value {
                    ValueRef::Document(doc) => doc.get("_id").unwrap().to_string(),
                    other => other.to_string(),
                }));
                if batch.exhausted {
                    break;
                }
            }
            assert_eq!(parts.len(), 50);
            assert_eq!(parts, whole);
        }
    }
}

#[test]
fn sort_skip_limit() {
    let rig = rig();
    rig.fill(&numbers(30));
    let (everything, sort) = (DocBuf::new(), DocBuf::new().with("a", -1i32).with("b", 1i32));
    let mut spec = rig.find_spec(&everything);
    spec.sort = Some(sort.as_doc());
    spec.skip = 2;
    spec.limit = Some(3);
    let expected = ["29", "8", "18"];
    assert_eq!(ids(&rig.run(&spec)), expected);
    rig.index("a, -b");
    assert_eq!(ids(&rig.run(&spec)), expected);
    let plan = rig.explain(spec);
    assert_eq!(
        at(&plan, "queryPlanner.winningPlan.inputStage.inputStage.inputStage.direction").to_string(),
        "\"backward\""
    );
}

#[test]
fn hints_name_indexes() {
    let rig = rig();
    rig.fill(&numbers(30));
    rig.index("a");
    let (filter, pattern, natural) = (doc("b", 3i32), doc("a", 1.0), doc("$natural", -1i32));
    for hint in [Hint::Name("a"), Hint::Pattern(pattern.as_doc()), Hint::Name("_id_"), Hint::Pattern(natural.as_doc())]
    {
        let spec = FindSpec { hint: Some(hint), ..rig.find_spec(&filter) };
        assert_eq!(ids(&rig.run(&spec)), ["3"]);
    }
    let spec = FindSpec { hint: Some(Hint::Name("nope")), ..rig.find_spec(&filter) };
    let error = arbor_query::find(&rig.scope(), &spec, &Interrupt::never()).err().unwrap();
    assert_eq!(error.to_string(), "hint provided does not correspond to an existing index");
}

#[test]
fn duplicates_stop_an_ordered_insert_only() {
    let rig = rig();
    let docs: Vec<DocBuf> = [1i32, 2, 1, 3].into_iter().map(|id| doc("_id", id)).collect();
    let outcome = rig.insert(&docs);
    assert_eq!((outcome.inserted, outcome.errors.len(), outcome.errors[0].index), (2, 1, 2));
    let docs: Vec<DocBuf> = [1i32, 4, 2, 5].into_iter().map(|id| doc("_id", id)).collect();
    let outcome = rig.insert_with(&docs, false);
    let failed: Vec<usize> = outcome.errors.iter().map(|error| error.index).collect();
    assert_eq!((outcome.inserted, failed), (2, vec![0, 2]));
    assert_eq!(rig.count(&DocBuf::new()), 4);
    rig.check_valid();
}

#[test]
fn deletes_take_one_or_all() {
    let rig = rig();
    rig.fill(&numbers(2500));
    rig.index("a");
    assert_eq!(rig.delete(&doc("a", 3i32), false), 1);
    assert_eq!(rig.delete(&doc("a", 3i32), true), 249);
    assert_eq!(rig.delete(&doc("_id", 0i32), false), 1);
    assert_eq!(rig.delete(&doc("b", &doc("$gte", 100i32)), true), 2400 - 240);
    assert_eq!(rig.count(&DocBuf::new()), 89);
    rig.check_valid();
}
