//! The live change of a collection's engine, here between trees of one engine: under writers, aborted, crashed.

use crate::support;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

use crate::support::{Rig, array, doc, rig, spec};
use arbor_bson::{Doc, DocBuf, Value, ValueRef};
use arbor_store::{Collection, Error, IndexSelection, Namespace, Phase, Result, Switched, Watch};
use arbor_txn::{Transaction, View};

/// Calls a closure at every sign of progress; its result aborts the switch.
struct Watcher<F> {
    at_progress: F,
    stopped: Cell<bool>,
}

impl<F: Fn(Phase, u64) -> bool> Watch for Watcher<F> {
    fn is_stopped(&self) -> bool {
        self.stopped.get()
    }

    fn progress(&self, phase: Phase, done: u64, total: u64) {
        assert!(done <= total, "{phase:?} {done} of {total}");
        if (self.at_progress)(phase, done) {
            self.stopped.set(true);
        }
    }
}

fn switch(rig: &Rig, at_progress: impl Fn(Phase, u64) -> bool) -> Result<Switched> {
    let to = DocBuf::new().with("model", &DocBuf::new());
    rig.store.switch_engine(&rig.ns, &to, &Watcher { at_progress, stopped: Cell::new(false) })
}

fn row(id: i32, n: i32) -> DocBuf {
    let list = array(&[Value::Int32(n), Value::Int32(n + 1)]);
    let fields = [("_id", Value::Int32(id)), ("n", Value::Int32(n)), ("u", Value::Int32(id)), ("list", list)];
    doc(&fields).with("pad", "x".repeat(300).as_str())
}

const ROWS: i32 = 600;

/// A collection with all kinds of indexes.
fn filled() -> Rig {
    let rig = rig();
    rig.create_index(spec(&[("n", 1)], &[])).unwrap();
    rig.create_index(spec(&[("u", 1)], &[("unique", Value::Bool(true))])).unwrap();
    let fill = |txn: &mut Transaction, own: &Collection| {
        (0..ROWS).try_for_each(|id| arbor_store::insert(txn, own, row(id, 0).as_doc()))
    };
    rig.write(fill).unwrap();
    rig.create_index(spec(&[("list", -1)], &[])).unwrap();
    rig
}

/// Ledger, catalogue, and the collection's own.
fn check_trees(rig: &Rig) {
    let own = rig.collection();
    let mut expect: Vec<u64> = own.indexes.iter().map(|index| index.tree.0).chain([1, 2, own.tree.0]).collect();
    expect.sort_unstable();
    let found: Vec<u64> = rig.store.transactions().engine().trees().unwrap().iter().map(|tree| tree.0).collect();
    assert_eq!(found, expect);
}

fn increment(txn: &mut Transaction, own: &Collection, id: i32) -> Result<()> {
    let old = arbor_store::record(txn, own, &arbor_store::id_key(ValueRef::Int32(id)))?.map(|old| old.into_owned());
    match old {
        None => arbor_store::insert(txn, own, row(id, 1).as_doc()),
        Some(old) => {
            let old = Doc::trusted(&old);
            let Some(ValueRef::Int32(n)) = old.get("n") else { panic!("{old:?}") };
            arbor_store::update(txn, own, old, row(id, n + 1).as_doc(), arbor_store::UpdateKind::Update)
        }
    }
}

fn sum(rig: &Rig) -> i32 {
    support::sum_of_n(&rig.store, &rig.ns)
}

#[test]
fn writers_go_on_while_the_collection_moves() {
    let rig = filled();
    let (stop, written) = (AtomicBool::new(false), AtomicI32::new(0));
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (rig, stop, written) = (&rig, &stop, &written);
            scope.spawn(move || {
                for step in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    // Some of them are new.
                    let id = (step * 7 + thread) % (ROWS + 50);
                    rig.write(|txn, own| increment(txn, own, id)).unwrap();
                    written.fetch_add(1, Ordering::Relaxed);
                    if step % 10 == 0 {
                        let gone = 10_000 + thread;
                        rig.insert(&row(gone, 0)).unwrap();
                        rig.delete(&row(gone, 0)).unwrap();
                    }
                }
            });
        }
        for _ in 0..3 {
            let before = rig.collection();
            let done = switch(&rig, |_, _| false).unwrap();
            assert!(done.rows >= ROWS as u64 * 5 && done.records > 0, "{done:?}");
            let after = rig.collection();
            assert_eq!(before.uuid, after.uuid);
            assert!(before.tree != after.tree && before.indexes[2].tree != after.indexes[2].tree);
            assert!(after.index("list_-1").unwrap().is_multikey());
            std::thread::sleep(Duration::from_millis(20));
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(sum(&rig), written.load(Ordering::Relaxed), "every acknowledged increment is there once");
    rig.check_valid();
    check_trees(&rig);
    let again = rig.crash(7);
    assert_eq!(sum(&again), sum(&rig));
    again.check_valid();
    check_trees(&again);
    assert!(again.collection().index("list_-1").unwrap().is_multikey());
}

#[test]
fn a_reader_keeps_the_trees_of_its_snapshot() {
    let rig = filled();
    let (collection, view) = rig.store.snapshot(&rig.ns).unwrap().unwrap();
    switch(&rig, |_, _| false).unwrap();
    rig.delete(&row(5, 0)).unwrap();
    assert_eq!(arbor_store::count(&view, &collection).unwrap(), ROWS as u64);
    let mut cursor = view.cursor(collection.tree).unwrap();
    assert!(cursor.first().unwrap());
    let (now, view) = rig.store.snapshot(&rig.ns).unwrap().unwrap();
    assert_eq!(arbor_store::count(&view, &now).unwrap(), ROWS as u64 - 1);
}

#[test]
fn an_aborted_switch_leaves_no_trace() {
    let rig = filled();
    let before = rig.collection();
    for at in [0, 400, 1500] {
        let outcome = switch(&rig, |_, done| done >= at);
        assert!(matches!(outcome, Err(Error::Interrupted)), "{outcome:?}");
        assert_eq!(rig.collection().tree, before.tree);
        check_trees(&rig);
    }
    rig.check_valid();
    rig.create_index(spec(&[("m", 1)], &[])).unwrap();
}

#[test]
fn a_crash_leaves_the_old_trees_or_the_new_ones() {
    let rig = filled();
    let images = RefCell::new(Vec::new());
    switch(&rig, |_, done| {
        if images.borrow().len() < 6 {
            // Written during the copy, so that there is something to catch up with.
            rig.write(|txn, own| increment(txn, own, done as i32 % ROWS)).unwrap();
            rig.store.transactions().checkpoint_now().unwrap();
            let seed = images.borrow().len() as u64;
            images.borrow_mut().push((sum(&rig), rig.crash(seed)));
        }
        false
    })
    .unwrap();
    let before = images.into_inner();
    assert!(before.len() >= 3, "{}", before.len());
    for (expect, image) in before.iter().chain([&(sum(&rig), rig.crash(99))]) {
        assert_eq!(sum(image), *expect);
        image.check_valid();
        check_trees(image);
        image.insert(&row(100_000, 1)).unwrap();
    }
}

#[test]
fn other_changes_of_the_collection_wait_for_another_time() {
    let rig = filled();
    let asked = Cell::new(false);
    let conflicts = |outcome: Result<()>| match outcome {
        Err(Error::ConflictingOperation(text)) => assert!(text.contains("test.c"), "{text}"),
        other => panic!("{other:?}"),
    };
    switch(&rig, |_, _| {
        if !asked.replace(true) {
            conflicts(rig.create_index(spec(&[("m", 1)], &[])));
            conflicts(rig.store.drop_indexes(&rig.ns, &IndexSelection::All).map(drop));
            conflicts(rig.store.set_options(&rig.ns, &DocBuf::new()));
            conflicts(rig.store.rename(&rig.ns, &Namespace::new("test", "d").unwrap(), false));
            conflicts(switch(&rig, |_, _| false).map(drop));
            // What is there already is no change.
            rig.create_index(spec(&[("n", 1)], &[])).unwrap();
        }
        false
    })
    .unwrap();
    assert!(asked.get());
    rig.store.rename(&rig.ns, &Namespace::new("test", "d").unwrap(), false).unwrap();
}

#[test]
fn a_drop_ends_the_switch() {
    let other = Namespace::new("test", "other").unwrap();
    let drops: [&dyn Fn(&Rig); 3] = [
        &|rig| drop(rig.store.drop_collection(&rig.ns).unwrap()),
        &|rig| assert!(rig.store.drop_database("test").unwrap()),
        &|rig| {
            rig.store.create_collection(&other, &DocBuf::new()).unwrap();
            rig.store.rename(&other, &rig.ns, true).unwrap();
        },
    ];
    for drop_it in drops {
        let rig = filled();
        let dropped = Cell::new(false);
        let outcome = switch(&rig, |_, _| {
            if !dropped.replace(true) {
                drop_it(&rig);
            }
            false
        });
        assert!(matches!(outcome, Err(Error::NamespaceNotFound(_))), "{outcome:?}");
        let left = rig.store.collection(&rig.ns).map_or(2, |_| 3);
        assert_eq!(rig.store.transactions().engine().trees().unwrap().len(), left);
    }
}
