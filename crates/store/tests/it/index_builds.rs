//! Builds over large collections: sorted outside of the log, durable before the catalogue says so.

use crate::support;
use crate::support::{Rig, doc, spec};
use arbor_bson::{ArrayBuf, DocBuf, Value};
use arbor_engine::Engine;
use arbor_store::{BuildSettings, Error, StoreOptions};
use arbor_txn::testing::InMemory;
use arbor_txn::{Options, Transaction, View};

const ROWS: i32 = 400;

/// Small limits, so that a few hundred documents are a large collection and spill.
fn small(directory: &tempfile::TempDir) -> StoreOptions {
    StoreOptions {
        scratch: directory.path().to_owned(),
        build_memory_bytes: 4000,
        build_in_transaction_bytes: 100,
        ..StoreOptions::default()
    }
}

fn rig(directory: &tempfile::TempDir) -> Rig {
    let rig = Rig::over(InMemory::new(Options::default()).unwrap(), small(directory));
    let fill = |txn: &mut Transaction, own: &arbor_store::Collection| {
        (0..ROWS).try_for_each(|id| arbor_store::insert(txn, own, row(id).as_doc()))
    };
    rig.write(fill).unwrap();
    rig
}

fn row(id: i32) -> DocBuf {
    let list: ArrayBuf = (0..id % 4).map(|n| n * 100 + id).collect();
    doc(&[("_id", Value::Int32(id)), ("n", Value::Int32(id * 7919 % ROWS)), ("list", Value::Array(list))])
}

fn specs() -> Vec<DocBuf> {
    vec![spec(&[("n", 1)], &[("unique", Value::Bool(true))]), spec(&[("list", 1), ("n", -1)], &[])]
}

#[test]
fn a_build_that_spills_holds_every_key() {
    let directory = tempfile::tempdir().unwrap();
    let rig = rig(&directory);
    rig.store.create_indexes(&rig.ns, &specs()).unwrap();
    rig.check_valid();
    assert_eq!(rig.entries("n_1").len(), ROWS as usize);
    assert!(rig.collection().index("list_1_n_-1").unwrap().is_multikey());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    rig.insert(&row(ROWS)).unwrap_err();
    rig.delete(&row(7)).unwrap();
    rig.check_valid();
    let after = rig.crash(3);
    after.check_valid();
    assert!(after.collection().index("list_1_n_-1").unwrap().is_multikey());
    assert_eq!(after.docs().len(), ROWS as usize - 1);
}

#[test]
fn a_duplicate_ends_the_build_without_a_trace() {
    let directory = tempfile::tempdir().unwrap();
    let rig = rig(&directory);
    rig.insert(&doc(&[("_id", Value::String("twin".into())), ("n", Value::Int32(5))])).unwrap();
    match rig.store.create_indexes(&rig.ns, &specs()) {
        Err(Error::DuplicateKey { index_name, key_value, .. }) => {
            assert_eq!((index_name.as_str(), support::shown(key_value.as_doc())), ("n_1", "{ n: 5 }".to_owned()));
        }
        other => panic!("{other:?}"),
    }
    assert!(rig.collection().indexes.is_empty());
    assert_eq!(trees(&rig), 3, "ledger, catalogue, records");
    rig.check_valid();
    rig.create_index(spec(&[("n", 1)], &[])).unwrap();
    rig.check_valid();
}

fn trees(rig: &Rig) -> u64 {
    rig.own.engine.stats().unwrap().counters[0].1
}

/// The machine stops after the n-th disk call of the build: the index is ready, or built at the next start, or was never
/// begun.
#[test]
fn a_crash_in_the_middle_leaves_a_whole_index_or_a_build_that_begins_again() {
    let directory = tempfile::tempdir().unwrap();
    let (mut outcomes, mut begun_again) = ([0, 0], 0);
    for n in 0..40 {
        let rig = rig(&directory);
        rig.store.transactions().checkpoint_now().unwrap();
        rig.own.disk.stop_after(n);
        let _stopped = rig.store.create_indexes(&rig.ns, &specs());
        let after = rig.crash(n);
        after.check_valid();
        let ready = after.collection().indexes.len();
        assert!(ready == 0 || ready == 2, "{ready} indexes at {n}");
        assert_eq!(trees(&after), 3 + ready as u64, "at {n}");
        outcomes[ready / 2] += 1;
        assert!(!has_note(&after, b'b'), "the trees of the build are gone");
        for build in &after.store.unfinished_builds() {
            assert_eq!(ready, 0, "at {n}");
            let built = after.store.build_again(build, BuildSettings::default()).unwrap();
            assert_eq!(built.map(|built| built.created.len()), Some(2));
            after.check_valid();
            begun_again += 1;
        }
        assert!(!has_note(&after, b'i'), "the note of the build is gone");
    }
    assert!(outcomes.iter().all(|count| *count > 0) && begun_again > 0, "{outcomes:?} {begun_again}");
}

fn has_note(rig: &Rig, kind: u8) -> bool {
    let view = rig.store.transactions().read().unwrap();
    let mut cursor = view.cursor(arbor_base::TreeId(2)).unwrap();
    cursor.seek(&[kind]).unwrap() && cursor.key()[0] == kind
}
