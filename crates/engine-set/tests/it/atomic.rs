//! Atomicity over several members: groups that readers see, groups that one member refuses, members that come in.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::support::{Models, create_in, ftree, lmdb, put};
use arbor_base::{Position, TreeId};
use arbor_engine::{
    Barrier, Batch, Capabilities, Engine, EngineStats, Error, MemberState, Op, Result, Snapshot, TreeOptions, TreeStats,
};
use arbor_engine_contract::Scratch;
use arbor_engine_set::{EngineSet, Kind};

fn value(snapshot: &dyn Snapshot, tree: u64, key: &str) -> Option<u64> {
    let value = snapshot.get(TreeId(tree), key.as_bytes()).unwrap()?;
    Some(String::from_utf8_lossy(&value).parse().unwrap())
}

fn apply(engine: &dyn Engine, ops: Vec<Op>) -> Result<()> {
    engine.apply(&[Batch { position: engine.applied().next(), ops }])
}

fn named(name: &str) -> TreeOptions {
    TreeOptions::default().with_engine(name)
}

fn models(models: &Models, directory: &Path) -> EngineSet {
    let kinds = vec![models.kind("home"), models.kind("left"), models.kind("right")];
    EngineSet::open(directory, kinds, "home", "home").unwrap()
}

/// Three trees in three members get the same number by each batch; single members are written in between.
fn same_number_everywhere(set: &EngineSet, names: [&str; 3], rounds: u64) {
    names.iter().for_each(|name| set.check_options(&named(name)).unwrap());
    apply(set, (0..3).map(|tree| create_in(tree, names[tree as usize])).collect()).unwrap();
    apply(set, (0..3).map(|tree| put(tree, "n", "0")).collect()).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut last = (0, Position::ZERO);
                while !stop.load(Ordering::Relaxed) {
                    let snapshot = set.snapshot().unwrap();
                    let numbers = [0, 1, 2].map(|tree| value(&*snapshot, tree, "n").unwrap());
                    assert!(numbers.iter().all(|number| *number == numbers[0]), "{numbers:?}");
                    // A later write to one member is not seen without all that came before it.
                    for tree in 0..3 {
                        let alone = value(&*snapshot, tree, "alone").unwrap_or(0);
                        assert!(alone <= numbers[0], "{alone} {numbers:?}");
                    }
                    let position = snapshot.position();
                    assert!(numbers[0] >= last.0 && position >= last.1);
                    // Batch 2 is number 0, and each number from 1 on takes two batches.
                    assert!((1 + numbers[0] * 2..3 + numbers[0] * 2).contains(&position.0), "{numbers:?} {position}");
                    last = (numbers[0], position);
                }
            });
        }
        for number in 1..=rounds {
            let text = number.to_string();
            apply(set, (0..3).map(|tree| put(tree, "n", &text)).collect()).unwrap();
            apply(set, vec![put(number % 3, "alone", &text)]).unwrap_or_else(|error| panic!("{error}"));
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn snapshots_show_whole_groups_of_models() {
    let (scratch, engines) = (Scratch::new(), Models::default());
    same_number_everywhere(&models(&engines, scratch.path()), ["home", "left", "right"], 4000);
}

#[test]
fn snapshots_show_whole_groups_of_ftree_lmdb_and_a_model() {
    let (scratch, engines) = (Scratch::new(), Models::default());
    let kinds = vec![ftree(), lmdb(), engines.kind("model")];
    let set = EngineSet::open(scratch.path(), kinds, "ftree", "lmdb").unwrap();
    same_number_everywhere(&set, ["ftree", "lmdb", "model"], 300);
}

#[test]
fn a_group_that_one_member_refuses_is_never_seen_in_part() {
    let (scratch, engines) = (Scratch::new(), Models::default());
    let set = models(&engines, scratch.path());
    ["left", "right"].iter().for_each(|name| set.check_options(&named(name)).unwrap());
    let trees = [(1, "home"), (2, "left"), (3, "right"), (4, "right")];
    apply(&set, trees.iter().map(|(tree, name)| create_in(*tree, name)).collect()).unwrap();
    apply(&set, (1..5).map(|tree| put(tree, "n", "1")).collect()).unwrap();
    let group = Batch { position: Position(3), ops: (1..4).map(|tree| put(tree, "n", "2")).collect() };
    // The right one applies first, the home last.
    let full = || Error::OutOfSpace { context: "test".to_owned() };
    engines.last(&scratch.path().join("left")).fail_next_apply(full());
    assert!(matches!(set.apply(std::slice::from_ref(&group)), Err(Error::OutOfSpace { .. })));
    assert_eq!(set.applied(), Position(2));
    let snapshot = set.snapshot().unwrap();
    assert_eq!(snapshot.position(), Position(2));
    assert_eq!([1, 2, 4].map(|tree| value(&*snapshot, tree, "n")), [Some(1); 3]);
    assert!(matches!(snapshot.get(TreeId(3), b"n"), Err(Error::OutOfSpace { .. })));
    // The next try goes further: now the home is the one that refuses.
    engines.last(&scratch.path().join("home")).fail_next_apply(full());
    assert!(set.apply(std::slice::from_ref(&group)).is_err());
    assert!(set.snapshot().unwrap().get(TreeId(2), b"n").is_err());
    assert_eq!(value(&*set.snapshot().unwrap(), 1, "n"), Some(1));
    set.apply(&[group]).unwrap();
    let snapshot = set.snapshot().unwrap();
    assert_eq!((snapshot.position(), [1, 2, 3].map(|tree| value(&*snapshot, tree, "n"))), (Position(3), [Some(2); 3]));
}

/// A group that no engine could apply leaves every member as it was.
#[test]
fn a_wrong_group_changes_nothing() {
    let (scratch, engines) = (Scratch::new(), Models::default());
    let set = models(&engines, scratch.path());
    set.check_options(&named("left")).unwrap();
    apply(&set, vec![create_in(1, "home"), create_in(2, "left")]).unwrap();
    for wrong in [put(9, "n", "1"), create_in(3, "right"), create_in(1, "left"), put(2, vec![0; 40 << 20], "1")] {
        assert!(apply(&set, vec![put(2, "n", "1"), put(1, "n", "1"), wrong]).is_err());
        let snapshot = set.snapshot().unwrap();
        assert_eq!((value(&*snapshot, 1, "n"), value(&*snapshot, 2, "n")), (None, None));
    }
    assert_eq!(set.applied(), Position(1));
}

#[test]
fn members_come_in_when_they_are_needed_and_stay() {
    let (scratch, engines) = (Scratch::new(), Models::default());
    let set = models(&engines, scratch.path());
    let states = |set: &EngineSet| set.members().into_iter().map(|member| member.state).collect::<Vec<_>>();
    apply(&set, vec![Op::CreateTree { tree: TreeId(1), options: named("home") }, put(1, "n", "7")]).unwrap();
    let before = set.snapshot().unwrap();
    assert_eq!(states(&set)[1], MemberState::Closed);
    assert!(matches!(set.check_options(&named("paper")), Err(Error::InvalidOption { .. })));
    set.check_options(&named("left")).unwrap();
    assert_eq!(states(&set)[1], MemberState::Open { applied: Position(1), durable: Position(1) });
    apply(&set, vec![create_in(2, "left"), put(2, "n", "8"), put(1, "n", "9")]).unwrap();
    assert_eq!((set.engine_of(TreeId(1)), set.engine_of(TreeId(2))), ("home", "left"));
    assert!(before.get(TreeId(2), b"n").is_err());
    assert_eq!(value(&*before, 1, "n"), Some(7));
    set.checkpoint().unwrap();
    drop((before, set));
    let set = models(&engines, scratch.path());
    assert_eq!((set.applied(), set.trees().unwrap()), (Position(2), vec![TreeId(1), TreeId(2)]));
    assert_eq!(value(&*set.snapshot().unwrap(), 2, "n"), Some(8));
    assert_eq!(states(&set)[2], MemberState::Closed);
    // Nothing of this concerns the other member, so it has all of it.
    apply(&set, vec![put(1, "n", "10")]).unwrap();
    assert!(matches!(states(&set)[1], MemberState::Open { applied: Position(3), .. }));
}

/// One engine's files are gone: what lives there says so, the rest works, the log is kept, and it comes back.
#[test]
fn a_member_that_does_not_open_is_missed_alone() {
    let (scratch, engines) = (Scratch::new(), Models::default());
    let broken = Arc::new(AtomicBool::new(false));
    let open = || {
        let (own, is_broken) = (engines.clone(), broken.clone());
        let left = Kind::new("left", move |directory| match is_broken.load(Ordering::Relaxed) {
            true => {
                Err(Error::Corrupt { place: directory.join("data").display().to_string(), context: "test".to_owned() })
            }
            false => Ok(own.open(directory)),
        });
        EngineSet::open(scratch.path(), vec![engines.kind("home"), left], "home", "home").unwrap()
    };
    let set = open();
    set.check_options(&named("left")).unwrap();
    apply(&set, vec![create_in(20, "home"), create_in(30, "left"), put(30, "n", "1")]).unwrap();
    set.checkpoint().unwrap();
    drop(set);

    broken.store(true, Ordering::Relaxed);
    let set = open();
    let unavailable = |result: Result<()>| {
        let text = result.unwrap_err().to_string();
        assert!(text.contains("engine left is not available") && text.contains("left/data"), "{text}");
    };
    unavailable(set.snapshot().unwrap().get(TreeId(30), b"n").map(drop));
    unavailable(set.snapshot().unwrap().cursor(TreeId(30)).map(drop));
    unavailable(set.check_tree(TreeId(30)));
    unavailable(set.tree_stats(TreeId(30)).map(drop));
    unavailable(set.check_options(&named("left")));
    set.check_tree(TreeId(20)).unwrap();
    // The trees of txn itself are looked for before they are made.
    assert!(matches!(set.snapshot().unwrap().get(TreeId(1), b"n"), Err(Error::UnknownTree(_))));
    let drop_it = Op::DropTree { tree: TreeId(30) };
    let lost = [
        Batch { position: Position(2), ops: vec![put(20, "n", "2")] },
        Batch { position: Position(3), ops: vec![drop_it] },
    ];
    set.apply(&lost).unwrap();
    set.checkpoint().unwrap();
    assert_eq!((set.applied(), set.durable()), (Position(3), Position::ZERO));
    drop(set);

    broken.store(false, Ordering::Relaxed);
    let set = open();
    assert_eq!((set.applied(), set.applied_in_part()), (Position(1), Position(3)));
    set.apply(&lost).unwrap();
    assert_eq!(set.trees().unwrap(), [TreeId(20)]);
    assert_eq!((value(&*set.snapshot().unwrap(), 20, "n"), set.applied()), (Some(2), Position(3)));
}

/// Gives no snapshots while it is set to fail, as LMDB without a free reader and WiredTiger with a full cache.
struct Sightless {
    inner: Arc<dyn Engine>,
    fail: Arc<Fail>,
}

/// The error of the next snapshots.
type Fail = Mutex<Option<fn() -> Error>>;

impl Engine for Sightless {
    fn name(&self) -> &'static str {
        self.inner.name()
    }
    fn applied(&self) -> Position {
        self.inner.applied()
    }
    fn apply(&self, batches: &[Batch]) -> Result<()> {
        self.inner.apply(batches)
    }
    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        match *self.fail.lock().unwrap() {
            Some(error) => Err(error()),
            None => self.inner.snapshot(),
        }
    }
    fn checkpoint(&self) -> Result<Position> {
        self.inner.checkpoint()
    }
    fn set_barrier(&self, barrier: Barrier) {
        self.inner.set_barrier(barrier)
    }
    fn durable(&self) -> Position {
        self.inner.durable()
    }
    fn bulk_load(&self, tree: TreeId, rows: &mut dyn Iterator<Item = (Vec<u8>, Vec<u8>)>) -> Result<()> {
        self.inner.bulk_load(tree, rows)
    }
    fn trees(&self) -> Result<Vec<TreeId>> {
        self.inner.trees()
    }
    fn stats(&self) -> Result<EngineStats> {
        self.inner.stats()
    }
    fn tree_stats(&self, tree: TreeId) -> Result<TreeStats> {
        self.inner.tree_stats(tree)
    }
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }
}

#[test]
fn a_member_that_gives_no_snapshot_is_missed_alone() {
    let (scratch, engines) = (Scratch::new(), Models::default());
    let fail: Arc<Fail> = Arc::default();
    let (own, shared) = (engines.clone(), fail.clone());
    let left = Kind::new("left", move |directory| {
        Ok(Arc::new(Sightless { inner: own.open(directory), fail: shared.clone() }))
    });
    let set = EngineSet::open(scratch.path(), vec![engines.kind("home"), left], "home", "home").unwrap();
    set.check_options(&named("left")).unwrap();
    apply(&set, vec![create_in(20, "home"), create_in(30, "left")]).unwrap();
    apply(&set, vec![put(20, "n", "1"), put(30, "n", "1")]).unwrap();

    *fail.lock().unwrap() = Some(|| Error::Other("no reader is free".to_owned()));
    let snapshot = set.snapshot().unwrap();
    assert_eq!((value(&*snapshot, 20, "n"), snapshot.position()), (Some(1), Position(2)));
    let text = snapshot.get(TreeId(30), b"n").unwrap_err().to_string();
    assert!(text.contains("engine left is not available") && text.contains("no reader is free"), "{text}");
    *fail.lock().unwrap() = Some(|| Error::CacheFull { context: "test".to_owned() });
    let snapshot = set.snapshot().unwrap();
    assert_eq!(value(&*snapshot, 20, "n"), Some(1));
    let refused = snapshot.get(TreeId(30), b"n").unwrap_err();
    assert!(matches!(refused, Error::CacheFull { .. }), "it may succeed later: {refused:?}");
    *fail.lock().unwrap() = None;
    assert_eq!(value(&*set.snapshot().unwrap(), 30, "n"), Some(1));
}
