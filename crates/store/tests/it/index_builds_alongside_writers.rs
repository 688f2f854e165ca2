//! Index builds while others write: what they change between the steps of a build, and what ends it.

use crate::support;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::{Rig, array, doc, spec};
use arbor_bson::{Doc, DocBuf, Value, ValueRef};
use arbor_store::{
    BuildSettings, Collection, Error, IndexSelection, IndexesCreated, Namespace, Phase, Result, StoreOptions, Watch,
};
use arbor_txn::testing::InMemory;
use arbor_txn::{Options, Transaction};

const ROWS: i32 = 300;

/// Calls a closure at every sign of progress; its result aborts the build.
struct Watcher<F> {
    at_progress: F,
    stopped: Cell<bool>,
    closing: bool,
}

impl<F: Fn(Phase) -> bool> Watch for Watcher<F> {
    fn is_stopped(&self) -> bool {
        self.stopped.get()
    }

    fn is_closing(&self) -> bool {
        self.closing
    }

    fn progress(&self, phase: Phase, done: u64, total: u64) {
        assert!(done <= total, "{phase:?} {done} of {total}");
        if (self.at_progress)(phase) {
            self.stopped.set(true);
        }
    }
}

fn build(rig: &Rig, specs: &[DocBuf], at_progress: impl Fn(Phase) -> bool) -> Result<IndexesCreated> {
    let watch = &Watcher { at_progress, stopped: Cell::new(false), closing: false };
    rig.store.build_indexes(&rig.ns, specs, BuildSettings { memory_bytes: 20_000, watch })
}

/// Runs `work` once, when the build first comes to `phase`.
fn build_with(rig: &Rig, specs: &[DocBuf], phase: Phase, work: impl FnOnce()) -> Result<IndexesCreated> {
    let work = RefCell::new(Some(work));
    let outcome = build(rig, specs, |now| {
        if now == phase
            && let Some(work) = work.take()
        {
            work();
        }
        false
    });
    assert!(work.take().is_none(), "the build never came to {phase:?}");
    outcome
}

fn row(id: i32, n: i32) -> DocBuf {
    let list = array(&[Value::Int32(n), Value::Int32(n + 1)]);
    let fields = [("_id", Value::Int32(id)), ("n", Value::Int32(n)), ("u", Value::Int32(id)), ("list", list)];
    doc(&fields).with("pad", "x".repeat(300).as_str())
}

/// Nothing is small.
fn options() -> StoreOptions {
    StoreOptions { build_in_transaction_bytes: 100, ..StoreOptions::default() }
}

fn filled() -> Rig {
    let rig = Rig::over(InMemory::new(Options::default()).unwrap(), options());
    let fill = |txn: &mut Transaction, own: &Collection| {
        (0..ROWS).try_for_each(|id| arbor_store::insert(txn, own, row(id, id).as_doc()))
    };
    rig.write(fill).unwrap();
    rig
}

/// The store after power was lost, with all that was committed.
fn crashed(rig: &Rig, seed: u64) -> Rig {
    let log = rig.store.transactions().log();
    log.wait_durable(log.appended()).unwrap();
    rig.crash(seed)
}

fn put(rig: &Rig, new: &DocBuf) {
    rig.write(|txn, own| {
        let id = new.get("_id").unwrap();
        let old = arbor_store::record(txn, own, &arbor_store::id_key(id))?.map(|old| old.into_owned());
        match old {
            None => arbor_store::insert(txn, own, new.as_doc()),
            Some(old) => {
                arbor_store::update(txn, own, Doc::trusted(&old), new.as_doc(), arbor_store::UpdateKind::Update)
            }
        }
    })
    .unwrap();
}

fn remove(rig: &Rig, id: i32) {
    rig.write(|txn, own| {
        let old = arbor_store::record(txn, own, &arbor_store::id_key(ValueRef::Int32(id)))?.unwrap().into_owned();
        arbor_store::delete(txn, own, Doc::trusted(&old))
    })
    .unwrap();
}

/// Ledger, catalogue, and the collection's own.
fn check_trees(rig: &Rig) {
    let own = rig.collection();
    let mut expect: Vec<u64> = own.trees().map(|tree| tree.0).chain([1, 2]).collect();
    expect.sort_unstable();
    let found: Vec<u64> = rig.store.transactions().engine().trees().unwrap().iter().map(|tree| tree.0).collect();
    assert_eq!(found, expect);
}

fn unique() -> DocBuf {
    spec(&[("n", 1)], &[("unique", Value::Bool(true))])
}

fn all_kinds() -> Vec<DocBuf> {
    let filter = DocBuf::new().with("n", &DocBuf::new().with("$gt", 100i32));
    let mut hashed = DocBuf::new();
    hashed.append("key", &DocBuf::new().with("n", "hashed"));
    vec![
        spec(&[("u", 1)], &[("unique", Value::Bool(true))]),
        spec(&[("list", -1), ("n", 1)], &[]),
        spec(&[("maybe", 1)], &[("sparse", Value::Bool(true))]),
        spec(&[("u", -1)], &[("partialFilterExpression", Value::Document(filter))]),
        spec(&[("n", -1)], &[("clustering", Value::Bool(true))]),
        spec(&[("$**", 1)], &[]),
        hashed,
    ]
}

#[test]
fn all_kinds_of_indexes_hold_what_writers_changed_meanwhile() {
    build_among_writers(&filled(), &all_kinds());
}

#[test]
fn indexes_of_a_partitioned_collection_are_built_while_others_write() {
    let rig = filled();
    rig.store.convert_to_partitioned(&rig.ns).unwrap();
    // the second range begins among the documents that are changed, the third one has those of the other writers
    for max in [ROWS, ROWS + 20, 10_100] {
        rig.store.add_partition(&rig.ns, Some(ValueRef::Int32(max)), None).unwrap();
    }
    build_among_writers(&rig, &all_kinds()[1..]);
    let own = rig.collection();
    assert_eq!((own.partitions.len(), own.trees().count()), (4, 4 + 6 * 5));
    // a build that fails leaves no tree, and one that is at work keeps the partitions as they are
    let failed = build(&rig, &[spec(&[("pad", 1)], &[])], |now| {
        let added = rig.store.add_partition(&rig.ns, Some(ValueRef::Int32(90_000)), None);
        assert!(matches!(added, Err(Error::IndexBuildRunning { .. })), "{added:?}");
        now == Phase::CatchingUp
    });
    assert!(failed.is_err());
    check_trees(&rig);
}

fn build_among_writers(rig: &Rig, specs: &[DocBuf]) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let stop = &stop;
            scope.spawn(move || {
                for step in 0..100_000 {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let id = (step * 7 + thread * 1000) % (ROWS + 50) + thread * 10_000;
                    let mut new = row(id, step);
                    if step % 3 == 0 {
                        new.append("maybe", step);
                    }
                    put(rig, &new);
                    if step % 10 == 0 {
                        remove(rig, id);
                    }
                }
            });
        }
        let created = build(rig, specs, |_| false).unwrap();
        assert_eq!((created.before, created.after), (1, 1 + specs.len()));
        stop.store(true, Ordering::Relaxed);
    });
    rig.check_valid();
    check_trees(rig);
    let again = crashed(rig, 7);
    again.check_valid();
    check_trees(&again);
    assert!(again.collection().index("list_-1_n_1").unwrap().is_multikey());
    assert!(again.store.unfinished_builds().is_empty());
}

/// Documents before the build, changes at a step of it, and the key that still has two documents at the end.
#[test]
fn only_keys_with_two_owners_at_the_end_are_duplicates() {
    type Step = fn(&Rig);
    let nothing: Step = |_| {};
    let twin: Step = |rig| put(rig, &row(1000, 5));
    let cases: &[(&str, Step, Phase, Step, Option<&str>)] = &[
        ("none", nothing, Phase::Scanning, nothing, None),
        ("stays", twin, Phase::Scanning, nothing, Some("{ n: 5 }")),
        ("deleted after the snapshot", twin, Phase::Scanning, |rig| remove(rig, 1000), None),
        ("changed after the load", twin, Phase::CatchingUp, |rig| put(rig, &row(5, -5)), None),
        ("comes while scanning", nothing, Phase::Scanning, twin, Some("{ n: 5 }")),
        ("comes after the load", nothing, Phase::CatchingUp, twin, Some("{ n: 5 }")),
        ("comes and goes", nothing, Phase::Loading, |rig| (twin_of(rig, 1000), remove(rig, 1000)).1, None),
        ("changes its owner", nothing, Phase::CatchingUp, |rig| (remove(rig, 5), twin_of(rig, 1000)).1, None),
        (
            "two change places",
            nothing,
            Phase::CatchingUp,
            |rig| {
                put(rig, &row(5, -1));
                put(rig, &row(6, 5));
                put(rig, &row(5, 6));
            },
            None,
        ),
        (
            "three want it, then one",
            |rig| (twin_of(rig, 1000), twin_of(rig, 1001)).1,
            Phase::CatchingUp,
            |rig| (remove(rig, 5), remove(rig, 1001)).1,
            None,
        ),
        (
            "three want it, then others",
            |rig| (twin_of(rig, 1000), twin_of(rig, 1001)).1,
            Phase::CatchingUp,
            |rig| {
                [5, 1000, 1001].into_iter().for_each(|id| remove(rig, id));
                twin_of(rig, 2000);
                twin_of(rig, 2001);
            },
            Some("{ n: 5 }"),
        ),
    ];
    for (name, before, phase, meanwhile, duplicate) in cases {
        let rig = filled();
        before(&rig);
        let outcome = build_with(&rig, &[unique(), spec(&[("u", 1)], &[])], *phase, || meanwhile(&rig));
        match (outcome, duplicate) {
            (Ok(_), None) => assert_eq!(rig.collection().indexes.len(), 2, "{name}"),
            (Err(Error::DuplicateKey { index_name, key_value, .. }), Some(key)) => {
                assert_eq!((index_name.as_str(), support::shown(key_value.as_doc())), ("n_1", key.to_string()));
                assert!(rig.collection().indexes.is_empty(), "{name}");
            }
            (outcome, _) => panic!("{name}: {outcome:?}"),
        }
        rig.check_valid();
        check_trees(&rig);
        assert!(crashed(&rig, 1).store.unfinished_builds().is_empty(), "{name}");
    }
}

fn twin_of(rig: &Rig, id: i32) {
    put(rig, &row(id, 5));
}

#[test]
fn documents_that_cannot_be_indexed_end_the_build_only_if_they_stay() {
    let parallel = |id: i32| row(id, 1).with("b", &arbor_bson::ArrayBuf::new());
    let specs = [spec(&[("list", 1), ("b", 1)], &[])];
    let cases: [(bool, Option<bool>, bool); 4] =
        [(true, None, false), (true, Some(false), true), (false, Some(true), false), (false, None, true)];
    for (before, after, works) in cases {
        let rig = filled();
        if before {
            put(&rig, &parallel(900));
        }
        let outcome = build_with(&rig, &specs, Phase::Scanning, || match after {
            Some(true) => put(&rig, &parallel(900)),
            Some(false) => put(&rig, &row(900, 1)),
            None => {}
        });
        match outcome {
            Ok(_) => assert!(works),
            Err(Error::CannotIndexParallelArrays { .. }) => assert!(!works),
            other => panic!("{other:?}"),
        }
        rig.check_valid();
        check_trees(&rig);
    }
}

#[test]
fn who_drops_the_collection_or_the_index_ends_the_build() {
    type Drop = fn(&Rig);
    let drops: [(Drop, &str); 4] = [
        (|rig| drop(rig.store.drop_collection(&rig.ns).unwrap()), "collection dropped"),
        (|rig| assert!(rig.store.drop_database("test").unwrap()), "database dropped"),
        (|rig| drop_indexes(rig, IndexSelection::Names(vec!["n_1".into()])), "dropIndexes command"),
        (|rig| drop_indexes(rig, IndexSelection::All), "dropIndexes command"),
    ];
    for (drop, expected) in drops {
        for phase in [Phase::Scanning, Phase::Loading, Phase::CatchingUp] {
            let rig = filled();
            let outcome = std::thread::scope(|scope| {
                build_with(&rig, &[unique()], phase, || {
                    // It waits until the build has ended.
                    let dropping = scope.spawn(|| drop(&rig));
                    while !dropping.is_finished() && !is_ending(&rig) {
                        std::thread::yield_now();
                    }
                })
            });
            match outcome {
                Err(Error::IndexBuildAborted { reason, .. }) => assert_eq!(reason, expected),
                other => panic!("{other:?} at {phase:?}"),
            }
            let again = crashed(&rig, 2);
            assert!(again.store.unfinished_builds().is_empty());
            if again.store.collection(&rig.ns).is_some() {
                check_trees(&again);
                assert!(again.collection().indexes.is_empty());
            }
        }
    }
}

fn is_ending(rig: &Rig) -> bool {
    let collection = rig.store.collection(&rig.ns);
    collection.is_none_or(|own| rig.store.index_builds(&own).iter().all(|build| build.is_ending))
}

fn drop_indexes(rig: &Rig, which: IndexSelection) {
    assert_eq!(rig.store.drop_indexes(&rig.ns, &which).unwrap(), 2);
}

#[test]
fn changes_that_a_build_would_miss_are_refused() {
    let rig = filled();
    let refused = |outcome: Result<()>| assert!(matches!(outcome, Err(Error::IndexBuildRunning { .. })), "{outcome:?}");
    build_with(&rig, &[unique(), spec(&[("u", 1)], &[])], Phase::Loading, || {
        let other = Namespace::new("test", "other").unwrap();
        refused(rig.store.rename(&rig.ns, &other, false));
        refused(rig.store.convert_to_capped(&rig.ns, 1 << 20));
        let engine = DocBuf::new().with("model", &DocBuf::new());
        refused(rig.store.switch_engine(&rig.ns, &engine, &arbor_store::Unwatched).map(drop));
        refused(rig.store.drop_indexes(&rig.ns, &IndexSelection::Names(vec!["n_1".into()])).map(drop));
        // One that is not there is no reason to end the others.
        let missing = rig.store.drop_indexes(&rig.ns, &IndexSelection::Names(vec!["x_1".into()]));
        assert!(matches!(missing, Err(Error::Index { .. })), "{missing:?}");
        rig.store.set_options(&rig.ns, &DocBuf::new().with("validationLevel", "off")).unwrap();
    })
    .unwrap();
    rig.check_valid();
    assert_eq!(rig.collection().indexes.len(), 2);
    assert!(rig.collection().options.get("validationLevel").is_some());
}

#[test]
fn builds_of_one_collection_run_concurrently() {
    let rig = filled();
    build_with(&rig, &[unique()], Phase::Scanning, || {
        assert_eq!(rig.store.index_builds(&rig.collection()).len(), 1);
        build_with(&rig, &[spec(&[("u", 1)], &[])], Phase::Loading, || put(&rig, &row(5, 9999))).unwrap();
        assert_eq!(rig.collection().indexes.len(), 1);
        let conflict = rig.create_index(spec(&[("other", 1)], &[("name", Value::String("n_1".into()))]));
        assert!(matches!(conflict, Err(Error::Index { .. })), "{conflict:?}");
    })
    .unwrap();
    rig.check_valid();
    assert_eq!(rig.collection().indexes.len(), 2);
    check_trees(&rig);
}

#[test]
fn who_wants_the_same_index_waits_for_it() {
    let rig = filled();
    let other = std::thread::scope(|scope| {
        let handle = Cell::new(None);
        build_with(&rig, &[unique()], Phase::Scanning, || {
            handle.set(Some(scope.spawn(|| rig.store.create_indexes(&rig.ns, &[unique()]))));
        })
        .unwrap();
        handle.take().unwrap().join().unwrap().unwrap()
    });
    assert_eq!((other.before, other.after), (2, 2));
    assert_eq!(rig.store.index_build_counts().begun, 1);
    rig.check_valid();
}

#[test]
fn an_aborted_build_restarts_only_after_a_shutdown() {
    for closing in [false, true] {
        for phase in [Phase::Scanning, Phase::Loading, Phase::CatchingUp] {
            let rig = filled();
            let at_progress = |now| now == phase;
            let watch = &Watcher { at_progress, stopped: Cell::new(false), closing };
            let outcome =
                rig.store.build_indexes(&rig.ns, &all_kinds(), BuildSettings { memory_bytes: 1 << 20, watch });
            if phase == Phase::CatchingUp && outcome.is_ok() {
                continue;
            }
            assert!(matches!(outcome, Err(Error::Interrupted)), "{outcome:?}");
            check_trees(&rig);
            rig.check_valid();
            let again = crashed(&rig, 3);
            check_trees(&again);
            assert_eq!(again.store.unfinished_builds().len(), usize::from(closing));
            for build in &again.store.unfinished_builds() {
                let built = again.store.build_again(build, BuildSettings::default()).unwrap().unwrap();
                assert_eq!(built.created.len(), 7);
                again.check_valid();
                check_trees(&again);
                assert!(crashed(&again, 4).store.unfinished_builds().is_empty());
            }
        }
    }
}

/// As [`crashed`], where builds take their steps again.
fn crashed_among_builds(rig: &Rig, seed: u64) -> Rig {
    let log = rig.store.transactions().log();
    log.wait_durable(log.appended()).unwrap();
    let (disk, engine) = (rig.own.disk.crash(seed), rig.own.engine.crash());
    Rig::over(InMemory::open(disk, engine, Options::default()).unwrap(), options())
}

/// Returns the state after a crash when `build` first comes to scanning.
fn crash_in(rig: &Rig, build: impl FnOnce(BuildSettings<'_>)) -> Rig {
    let image = RefCell::new(None);
    let at_progress = |now| {
        if now == Phase::Scanning && image.borrow().is_none() {
            image.replace(Some(crashed_among_builds(rig, 5)));
        }
        false
    };
    let watch = &Watcher { at_progress, stopped: Cell::new(false), closing: false };
    build(BuildSettings { memory_bytes: 1 << 20, watch });
    image.take().expect("the build scans")
}

#[test]
fn a_build_that_ends_the_process_begins_again_twice_and_is_then_aborted() {
    let rig = filled();
    let mut rig = crash_in(&rig, |settings| drop(rig.store.build_indexes(&rig.ns, &all_kinds(), settings).unwrap()));
    for restarts in 0..2 {
        let builds = rig.store.unfinished_builds();
        let [build] = &builds[..] else { panic!() };
        assert!(build.restarts == restarts && build.begins_again());
        let again = |settings: BuildSettings<'_>| drop(rig.store.build_again(build, settings).unwrap());
        let crashed = crash_in(&rig, again);
        rig = crashed;
    }
    let builds = rig.store.unfinished_builds();
    let [build] = &builds[..] else { panic!() };
    assert!(!build.begins_again());
    let ended = rig.store.build_again(build, BuildSettings::default());
    assert!(matches!(ended, Err(Error::IndexBuildAborted { .. })), "{ended:?}");
    assert!(rig.collection().indexes.is_empty());
    check_trees(&rig);
    assert!(crashed(&rig, 9).store.unfinished_builds().is_empty());
}

#[test]
fn a_shutdown_in_a_build_does_not_count_as_its_end() {
    let rig = filled();
    let watch = &Watcher { at_progress: |_| true, stopped: Cell::new(false), closing: true };
    let settings = BuildSettings { memory_bytes: 1 << 20, watch };
    rig.store.build_indexes(&rig.ns, &[unique()], settings).unwrap_err();
    let mut rig = crashed_among_builds(&rig, 1);
    for seed in 2..6 {
        let builds = rig.store.unfinished_builds();
        let [build] = &builds[..] else { panic!() };
        assert_eq!(build.restarts, 0);
        let watch = &Watcher { at_progress: |_| true, stopped: Cell::new(false), closing: true };
        rig.store.build_again(build, BuildSettings { memory_bytes: 1 << 20, watch }).unwrap_err();
        rig = crashed_among_builds(&rig, seed);
    }
}

#[test]
fn a_build_of_a_collection_that_is_gone_does_not_begin_again() {
    let rig = filled();
    let watch = &Watcher { at_progress: |_| true, stopped: Cell::new(false), closing: true };
    rig.store.build_indexes(&rig.ns, &[unique()], BuildSettings { memory_bytes: 1 << 20, watch }).unwrap_err();
    let again = crashed(&rig, 1);
    again.store.drop_collection(&again.ns).unwrap();
    again.insert(&row(1, 1)).unwrap();
    let builds = again.store.unfinished_builds();
    let [build] = &builds[..] else { panic!() };
    assert_eq!(again.store.build_again(build, BuildSettings::default()).unwrap(), None);
    assert!(again.collection().indexes.is_empty());
    assert!(crashed(&again, 2).store.unfinished_builds().is_empty());
}
