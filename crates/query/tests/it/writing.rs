//! Updates and findAndModify over the model engine.

use std::sync::Arc;

use arbor_bson::{DocBuf, ValueRef};
use arbor_query::{Change, FindAndModifyOutcome, FindAndModifySpec, Interrupt, UpdateStatement};
use arbor_txn::Durability;

use crate::support::{Rig, doc, rig, statement};

fn numbers(rig: &Rig, count: i32) {
    let docs: Vec<DocBuf> = (0..count).map(|n| DocBuf::new().with("_id", n).with("a", n % 10)).collect();
    rig.fill(&docs);
}

#[test]
fn one_document_or_all() {
    let rig = rig();
    numbers(&rig, 2500);
    rig.index("a");
    let (q, inc) = (doc("a", 3i32), doc("$inc", &doc("a", 100i32)));
    let outcome = rig.update(statement(&q, &inc));
    assert_eq!((outcome.matched, outcome.modified), (1, 1));
    let outcome = rig.update(UpdateStatement { multi: true, ..statement(&q, &inc) });
    assert_eq!((outcome.matched, outcome.modified), (249, 249));
    let same = doc("$set", &doc("a", 103i32));
    let outcome = rig.update(UpdateStatement { multi: true, ..statement(&doc("a", 103i32), &same) });
    assert_eq!((outcome.matched, outcome.modified), (250, 0));
    assert_eq!(rig.count(&doc("a", 103i32)), 250);
    rig.check_valid();
}

/// An update that moves documents forward in the very index that finds them changes each of them once.
#[test]
fn no_document_is_updated_twice() {
    let rig = rig();
    numbers(&rig, 3000);
    rig.index("a");
    let (q, inc) = (doc("a", &doc("$gte", 0i32)), doc("$inc", &doc("a", 1i32)));
    let outcome = rig.update(UpdateStatement { multi: true, ..statement(&q, &inc) });
    assert_eq!((outcome.matched, outcome.modified), (3000, 3000));
    assert_eq!(rig.count(&doc("a", 10i32)), 300);
    assert_eq!(rig.count(&doc("a", &doc("$gt", 10i32))), 0);
}

#[test]
fn upserts_take_the_equalities_of_the_query() {
    let rig = rig();
    let (q, u) = (DocBuf::new().with("_id", 5i32).with("k", "x"), doc("$inc", &doc("n", 1i32)));
    let upsert = || UpdateStatement { upsert: true, ..statement(&q, &u) };
    let outcome = rig.update(upsert());
    assert_eq!((outcome.matched, outcome.modified, outcome.upserted.len()), (0, 0, 1));
    assert_eq!(outcome.upserted[0].id.as_ref().to_string(), "5");
    let outcome = rig.update(UpdateStatement { multi: true, ..upsert() });
    assert_eq!((outcome.matched, outcome.upserted.len()), (1, 0));
    let made = rig.update(UpdateStatement { upsert: true, multi: true, ..statement(&doc("z", 1i32), &u) });
    assert!(matches!(made.upserted[0].id.as_ref(), ValueRef::ObjectId(_)));
    assert_eq!(rig.docs()[0], "{ _id: 5, k: \"x\", n: 2 }");
}

#[test]
fn statements_of_one_command_see_each_other_and_fail_alone() {
    let rig = rig();
    rig.index_with("u", doc("unique", true));
    numbers(&rig, 1);
    let queries: Vec<DocBuf> = (0..3i32).map(|id| doc("_id", id)).collect();
    let (one, two) = (doc("$set", &doc("u", 1i32)), doc("$set", &doc("u", 2i32)));
    let more: Vec<DocBuf> = (1..3i32).map(|id| DocBuf::new().with("_id", id).with("u", id + 10)).collect();
    rig.fill(&more);
    let statements = || vec![statement(&queries[0], &one), statement(&queries[1], &one), statement(&queries[2], &two)];
    let mut spec = rig.update_spec(statements());
    let outcome = arbor_query::update(&rig.scope(), &spec, &Interrupt::never()).unwrap();
    assert_eq!((outcome.modified, outcome.errors.len(), outcome.errors[0].index), (1, 1, 1));
    spec.ordered = false;
    let outcome = arbor_query::update(&rig.scope(), &spec, &Interrupt::never()).unwrap();
    assert_eq!((outcome.matched, outcome.modified, outcome.errors.len()), (2, 1, 1));
    rig.check_valid();
}

#[test]
fn replacements_and_multi_do_not_mix() {
    let rig = rig();
    numbers(&rig, 2);
    let (q, u) = (doc("_id", 1i32), doc("b", 1i32));
    rig.update(statement(&q, &u));
    assert_eq!(rig.docs()[1], "{ _id: 1, b: 1 }");
    let outcome = rig.update(UpdateStatement { multi: true, ..statement(&q, &u) });
    assert_eq!(outcome.errors[0].error.to_string(), "multi update is not supported for replacement-style update");
}

#[test]
fn the_id_cannot_change() {
    let rig = rig();
    numbers(&rig, 1);
    let outcome = rig.update(statement(&doc("_id", 0i32), &doc("$set", &doc("_id", 9i32))));
    assert_eq!(outcome.errors.len(), 1);
    assert_eq!(rig.docs(), ["{ _id: 0, a: 0 }"]);
}

fn modify(rig: &Rig, query: &DocBuf, sort: &DocBuf, fields: &DocBuf, change: Change<'_>) -> FindAndModifyOutcome {
    modify_as(false, rig, (query, sort, fields), change)
}

fn modify_as(
    tentative: bool,
    rig: &Rig,
    (query, sort, fields): (&DocBuf, &DocBuf, &DocBuf),
    change: Change<'_>,
) -> FindAndModifyOutcome {
    let spec = FindAndModifySpec {
        namespace: rig.ns.clone(),
        query: query.as_doc(),
        sort: Some(sort.as_doc()),
        change,
        fields: Some(fields.as_doc()),
        hint: None,
        collation: None,
        let_variables: None,
        durability: Durability::Journaled,
        bypass_validation: false,
        tentative,
    };
    arbor_query::find_and_modify(&rig.scope(), &spec, &Interrupt::never()).unwrap()
}

fn change<'c>(update: &'c DocBuf, upsert: bool, return_new: bool) -> Change<'c> {
    Change::Update { update: ValueRef::Document(update.as_doc()), upsert, return_new, array_filters: Vec::new() }
}

#[test]
fn find_and_modify_answers_before_or_after() {
    let rig = rig();
    numbers(&rig, 20);
    let (q, last, all) = (doc("a", 3i32), doc("_id", -1i32), DocBuf::new());
    let text = |outcome: &FindAndModifyOutcome| outcome.value.as_ref().map(|doc| doc.as_doc().to_string());
    let set = doc("$set", &doc("b", 1i32));
    let before = modify(&rig, &q, &last, &all, change(&set, false, false));
    assert_eq!(text(&before).as_deref(), Some("{ _id: 13, a: 3 }"));
    assert!(before.updated_existing && before.n == 1);
    let after = modify(&rig, &q, &last, &doc("a", 0i32), change(&set, false, true));
    assert_eq!(text(&after).as_deref(), Some("{ _id: 13, b: 1 }"));
    let none = modify(&rig, &doc("a", 99i32), &last, &all, change(&set, false, true));
    assert_eq!((text(&none), none.n), (None, 0));
    let made = modify(&rig, &DocBuf::new().with("_id", 50i32).with("a", 99i32), &last, &all, change(&set, true, true));
    assert_eq!(text(&made).as_deref(), Some("{ _id: 50, a: 99, b: 1 }"));
    assert!(made.upserted.is_some() && !made.updated_existing);
    let removed = modify(&rig, &q, &last, &all, Change::Remove);
    assert_eq!(text(&removed).as_deref(), Some("{ _id: 13, a: 3, b: 1 }"));
    assert_eq!(rig.count(&q), 1);
}

#[test]
fn a_tentative_change_is_returned_and_not_written() {
    let rig = rig();
    numbers(&rig, 3);
    let before = rig.docs();
    let set = doc("$set", &doc("b", 1i32));
    let text = |outcome: &FindAndModifyOutcome| outcome.value.as_ref().map(|doc| doc.as_doc().to_string());
    let (one, none) = (doc("_id", 1i32), doc("_id", 9i32));
    let (order, all) = (doc("_id", 1i32), DocBuf::new());
    let changed = modify_as(true, &rig, (&one, &order, &all), change(&set, true, true));
    assert_eq!((text(&changed).as_deref(), changed.updated_existing), (Some("{ _id: 1, a: 1, b: 1 }"), true));
    let made = modify_as(true, &rig, (&none, &order, &all), change(&set, true, true));
    assert_eq!((text(&made).as_deref(), made.upserted.is_some()), (Some("{ _id: 9, b: 1 }"), true));
    assert_eq!(modify_as(true, &rig, (&one, &order, &all), Change::Remove).n, 1);
    assert_eq!(rig.docs(), before);
}

/// Clients that count one document up lose no step.
#[test]
fn concurrent_updates_of_one_document_all_count() {
    let rig = Arc::new(rig());
    numbers(&rig, 1);
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let rig = rig.clone();
            std::thread::spawn(move || {
                let (q, inc) = (doc("_id", 0i32), doc("$inc", &doc("n", 1i32)));
                for _ in 0..50 {
                    assert_eq!(rig.update(statement(&q, &inc)).modified, 1);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(rig.docs(), ["{ _id: 0, a: 0, n: 200 }"]);
}

/// If several clients upsert one document at once, exactly one inserts it.
#[test]
fn concurrent_upserts_make_one_document() {
    let rig = Arc::new(rig());
    rig.index_with("k", doc("unique", true));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let rig = rig.clone();
            std::thread::spawn(move || {
                for key in 0..25i32 {
                    let (q, inc) = (doc("k", key), doc("$inc", &doc("n", 1i32)));
                    let outcome = rig.update(UpdateStatement { upsert: true, ..statement(&q, &inc) });
                    assert!(outcome.errors.is_empty(), "{:?}", outcome.errors);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(rig.count(&DocBuf::new()), 25);
    assert_eq!(rig.count(&doc("n", 4i32)), 25);
    rig.check_valid();
}

/// Documents whose index entries are far larger than they are themselves: no transaction may take all of them.
#[test]
fn many_documents_with_large_index_entries_are_updated() {
    let rig = rig();
    rig.index("a, s");
    let numbers: arbor_bson::ArrayBuf = (0..50i32).collect();
    let row = |id: i32, text: &str| DocBuf::new().with("_id", id).with("a", &numbers).with("s", text);
    let (old, new) = ("x".repeat(10_000), "y".repeat(10_000));
    (0..5).for_each(|part| rig.fill(&(0..20).map(|id| row(part * 20 + id, &old)).collect::<Vec<_>>()));
    let (all, change) = (DocBuf::new(), DocBuf::new().with("$set", &DocBuf::new().with("s", &new)));
    let outcome = rig.update(UpdateStatement { multi: true, ..statement(&all, &change) });
    assert_eq!((outcome.matched, outcome.modified), (100, 100), "{:?}", outcome.errors);
}
