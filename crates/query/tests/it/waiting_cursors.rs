//! Cursors that wait for their clients while much is written, on an engine whose snapshots take memory that the writer needs.

use std::sync::Arc;
use std::time::Duration;

use arbor_bson::{DocBuf, ValueRef};
use arbor_disk::FaultyDisk;
use arbor_engine::model::ModelEngine;
use arbor_lang::Code;
use arbor_notation::doc;
use arbor_query::registry::CursorOptions;
use arbor_query::{BatchLimit, Cursor, Database, Error, FindSpec, Interrupt, Scope};
use arbor_store::{Namespace, Store, StoreOptions};
use arbor_txn::testing::InMemory;
use arbor_txn::{Options, Retention};

use crate::support::Rig;

const HELD_BYTES_MAX: u64 = 4 << 20;

fn rig() -> Rig {
    let engine = ModelEngine::with_costly_snapshots(HELD_BYTES_MAX);
    let history = Some(Retention { bytes: 1 << 30, time: Duration::from_secs(3600) });
    let own = InMemory::open(FaultyDisk::new(), engine, Options { history, ..Options::default() }).unwrap();
    let store = Arc::new(Store::open(own.transactions.clone(), StoreOptions::default()).unwrap());
    let rig = Rig {
        database: Database::new(store, own.transactions.clone()),
        ns: Namespace::parse("db.c").unwrap(),
        collation: None,
    };
    rig.index("a");
    rig.fill(&(0..6).map(|n| DocBuf::new().with("_id", n).with("a", n)).collect::<Vec<_>>());
    rig
}

/// More than a snapshot may hold.
fn write_much(rig: &Rig) {
    let text = "x".repeat(1 << 20);
    let first = rig.database.transactions.time() as i64;
    (first..first + 8).for_each(|n| rig.fill_into("db.other", &[DocBuf::new().with("_id", n).with("t", &text)]));
}

fn ids(cursor: &mut Cursor, count: usize) -> Result<Vec<i32>, Error> {
    let batch = cursor.next_batch(BatchLimit::docs(count), &Interrupt::never())?;
    let id = |value| match value {
        ValueRef::Document(doc) => match doc.get("_id") {
            Some(ValueRef::Int32(id)) => id,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    Ok(batch.docs.as_array().iter().map(id).collect())
}

fn code(error: &Error) -> Option<Code> {
    match error {
        Error::Lang(error) => Some(error.code),
        _ => None,
    }
}

/// Two documents of a find, then `meanwhile` while the cursor waits; all that it answers behind that.
fn over_a_wait(rig: &Rig, scope: &Scope<'_>, filter: &str, meanwhile: impl FnOnce()) -> Result<Vec<i32>, Error> {
    let filter = doc(filter);
    let spec = FindSpec { filter: filter.as_doc(), ..FindSpec::new(rig.ns.clone()) };
    let mut cursor = arbor_query::find(scope, &spec, &Interrupt::never()).unwrap();
    assert_eq!(ids(&mut cursor, 2).unwrap(), [0, 1]);
    let id = rig.database.cursors.insert(cursor, CursorOptions::default());
    meanwhile();
    let mut waiting = rig.database.cursors.check_out(id, &rig.ns).unwrap();
    ids(waiting.cursor(), 100)
}

fn remove_and_add(rig: &Rig) {
    rig.delete(&doc("{_id: 3}"), false);
    rig.fill(&[DocBuf::new().with("_id", 10).with("a", 10)]);
}

#[test]
fn a_cursor_keeps_its_state_until_the_writer_needs_the_memory() {
    let rig = rig();
    for filter in ["{}", "{a: {$gte: 0}}"] {
        let found = over_a_wait(&rig, &rig.scope(), filter, || remove_and_add(&rig)).unwrap();
        assert_eq!(found, [2, 3, 4, 5], "{filter}");
        rig.delete(&doc("{_id: 10}"), false);
        rig.fill(&[DocBuf::new().with("_id", 3).with("a", 3)]);
    }
}

#[test]
fn then_it_continues_with_the_newest_state() {
    let rig = rig();
    for filter in ["{}", "{a: {$gte: 0}}", "{$or: [{a: {$gte: 0}}, {_id: 7}]}"] {
        let meanwhile = || {
            remove_and_add(&rig);
            write_much(&rig);
        };
        let found = over_a_wait(&rig, &rig.scope(), filter, meanwhile).unwrap();
        assert_eq!(found, [2, 4, 5, 10], "{filter}");
        rig.delete(&doc("{_id: 10}"), false);
        rig.fill(&[DocBuf::new().with("_id", 3).with("a", 3)]);
    }
}

#[test]
fn a_snapshot_read_ends() {
    let rig = rig();
    let view = rig.database.transactions.read().unwrap();
    let error = over_a_wait(&rig, &rig.scope().at(&view), "{}", || write_much(&rig)).unwrap_err();
    assert_eq!(code(&error), Some(Code::SNAPSHOT_TOO_OLD), "{error}");
}

#[test]
fn a_cursor_whose_index_became_multikey_or_was_dropped_ends() {
    let rig = rig();
    let array = DocBuf::new().with("_id", 20).with("a", &[1, 2].into_iter().collect::<arbor_bson::ArrayBuf>());
    let adds_an_array = || {
        rig.fill(std::slice::from_ref(&array));
        write_much(&rig);
    };
    let error = over_a_wait(&rig, &rig.scope(), "{a: {$gte: 0}}", adds_an_array).unwrap_err();
    assert_eq!(code(&error), Some(Code::QUERY_PLAN_KILLED), "{error}");
    let drops = || {
        rig.database.store.drop_collection(&rig.ns).unwrap();
        write_much(&rig);
    };
    let error = over_a_wait(&rig, &rig.scope(), "{}", drops).unwrap_err();
    assert_eq!(code(&error), Some(Code::QUERY_PLAN_KILLED), "{error}");
}
