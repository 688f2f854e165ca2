//! Jobs that hit damage, a job that panics, a job whose slot became two, and idle work next to readers.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use arbor_base::TreeId;
use arbor_disk::FaultyDisk;
use arbor_engine::{Batch, Engine, Op, TreeOptions, UpdateFunction};

use crate::counters::Counter;
use crate::flush::combine::combine;
use crate::flush::push::push;
use crate::flush::{Flushed, Job};
use crate::tree::{Bounds, Child};
use crate::work::Task;
use crate::work::maintenance::Maintenance;
use crate::{Codec, Error, Forest, Options, TreeSettings};

const TREE: TreeId = TreeId(1);
const ROWS: u32 = 300;

fn options(disk: &FaultyDisk, threads: usize) -> Options {
    Options {
        threads,
        memtable_bytes: 16 << 10,
        checkpoint_interval_ms: 0,
        tree: TreeSettings { codec: Codec::None, block_bytes: 512, leaf_bytes: 4 << 10, ..TreeSettings::default() },
        ..Options::new(Arc::new(disk.clone()), 16 << 20)
    }
}

fn open(options: Options) -> Forest {
    Forest::open(Path::new("/data"), options).unwrap()
}

fn key(number: u32) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

fn put(number: u32, value: u8) -> Op {
    Op::Put { tree: TREE, key: key(number), value: vec![value; 100] }
}

fn apply(forest: &Forest, ops: Vec<Op>) -> crate::Result<()> {
    forest.wait_for_room();
    forest.apply(&[Batch { position: forest.applied().next(), ops }])
}

fn create() -> Op {
    Op::CreateTree { tree: TREE, options: TreeOptions::default() }
}

/// Flips a byte in the middle of the third leaf. Returns the numbers of the leaf's first and last row.
fn damage_a_leaf(disk: &FaultyDisk, forest: &Forest) -> (u32, u32) {
    let core = forest.core();
    let root = core.trees.alive(TREE).unwrap().root();
    assert_eq!(root.level, 1);
    let Child::Leaf(leaf) = &root.slots[2].child else { panic!("a leaf is there") };
    disk.damage(core.io.file.path(), leaf.meta.index_offset - 1500).unwrap();
    let number = |key: &[u8]| u32::from_be_bytes(key.try_into().unwrap());
    (number(&leaf.meta.first_key), number(&leaf.meta.last_key))
}

#[test]
fn a_damaged_leaf_is_put_aside_and_the_others_work_on() {
    let disk = FaultyDisk::new();
    let forest = open(options(&disk, 0));
    apply(&forest, vec![create()]).unwrap();
    let mut rows = (0..ROWS).map(|number| (key(number), vec![1; 100]));
    forest.bulk_load(TREE, &mut rows).unwrap();
    forest.checkpoint().unwrap();
    let (first, last) = damage_a_leaf(&disk, &forest);
    drop(forest);
    let forest = open(options(&disk, 0));
    // Even rows change again and again: every slot gets enough to be due.
    let rounds = 2..30u8;
    for value in rounds.clone() {
        apply(&forest, (0..ROWS).step_by(2).map(|number| put(number, value)).collect()).unwrap();
    }
    let core = forest.core();
    core.freeze();
    core.work.scheduler.absorb();
    core.run_due();

    assert_eq!(core.health.damaged.load(Ordering::Relaxed), 1, "the slot is put aside once, not tried again");
    assert!(core.health.check().is_ok());
    let snapshot = forest.snapshot().unwrap();
    let newest = rounds.end - 1;
    let (mut failed, mut messages) = (0, 0);
    for number in 0..ROWS {
        let is_aside = (first..=last).contains(&number);
        match snapshot.get(TREE, &key(number)) {
            Ok(row) => assert_eq!(row.unwrap()[0], if number % 2 == 0 { newest } else { 1 }, "{number}"),
            Err(error) => {
                assert!(is_aside && number % 2 == 1 && matches!(error, Error::Corrupt { .. }), "{number}: {error}");
                failed += 1;
            }
        }
        messages += u32::from(is_aside && number % 2 == 0);
    }
    assert!(failed > 0 && messages > 0, "reads of the damaged block fail, {failed}");
    drop(snapshot);

    // Slots elsewhere hold little, and only what waits for the damaged leaf grows, which is no debt.
    let root = core.trees.alive(TREE).unwrap().root();
    let aside = root.slots.iter().filter(|slot| slot.runs.iter().any(|run| run.table.meta.first_key <= key(last)));
    let aside = aside.map(|slot| slot.buffered_bytes()).max().unwrap();
    assert!(aside > 5000, "{aside} bytes wait for the damaged leaf");
    assert!(core.io.counters.get(Counter::FlushedBytesToLeaves) > 10 * 4096);
    core.count_debt();
    assert!(core.work.debt.bytes() < aside, "{} bytes of debt, {aside} aside", core.work.debt.bytes());
    forest.checkpoint().expect("checkpoints continue");
}

#[test]
fn a_job_whose_slot_became_two_is_refused() {
    let disk = FaultyDisk::new();
    let forest = open(options(&disk, 0));
    apply(&forest, vec![create()]).unwrap();
    let mut rows = (0..100 * ROWS).map(|number| (key(number), vec![1; 100]));
    forest.bulk_load(TREE, &mut rows).unwrap();
    apply(&forest, (0..100 * ROWS).step_by(500).map(|number| put(number, 2)).collect()).unwrap();
    let core = forest.core();
    core.absorb_all().unwrap();
    let tree = core.trees.alive(TREE).unwrap();
    let root = tree.root();
    assert!(root.level == 2 && root.slots.iter().take(2).all(|slot| !slot.runs.is_empty()));
    let job = |slots| Job::of_slots(&tree, &root, &Bounds::all(), slots);
    let before = root.totals();
    for flush in [push, combine] {
        assert_eq!(flush(core, &job(0..2)).unwrap(), Flushed::Refused, "K2: half of it would be left");
    }
    assert_eq!(tree.root().totals(), before);
    assert!(matches!(push(core, &job(0..1)).unwrap(), Flushed::Done(_)));
}

#[test]
fn idle_work_leaves_the_disk_to_readers() {
    let disk = FaultyDisk::new();
    let forest = open(options(&disk, 0));
    apply(&forest, vec![create()]).unwrap();
    let mut rows = (0..2 * ROWS).map(|number| (key(number), vec![1; 100]));
    forest.bulk_load(TREE, &mut rows).unwrap();
    // a tenth of each leaf: worth draining, and not due
    apply(&forest, (0..2 * ROWS).step_by(10).map(|number| put(number, 2)).collect()).unwrap();
    let core = forest.core();
    core.freeze();
    core.work.scheduler.absorb();
    core.run_due();
    let leaf_jobs = || core.io.counters.get(Counter::LeafJobs);
    assert_eq!(leaf_jobs(), 0);
    let (begun, second) = (Instant::now(), Duration::from_secs(1));
    let mut maintenance = Maintenance::new(core, begun);
    // blocks that readers load until the second, slots that are drained then
    for (at, loaded, drained) in [(2, 5000, 1), (3, 600, 1), (4, 100, 8)] {
        core.io.counters.add(Counter::LeafBlockMisses, loaded);
        let before = leaf_jobs();
        maintenance.tick(core, begun + second * at);
        core.run_due();
        assert_eq!(leaf_jobs() - before, drained, "slots in second {at}, {loaded} blocks loaded");
    }
}

#[test]
fn a_worker_rests_unless_a_memtable_waits() {
    let disk = FaultyDisk::new();
    let forest = open(options(&disk, 0));
    apply(&forest, vec![create()]).unwrap();
    let mut rows = (0..ROWS).map(|number| (key(number), vec![1; 100]));
    forest.bulk_load(TREE, &mut rows).unwrap();
    apply(&forest, (0..ROWS).step_by(10).map(|number| put(number, 2)).collect()).unwrap();
    let core = forest.core();
    let scheduler = &core.work.scheduler;
    core.freeze();
    scheduler.absorb();
    let (long, short) = (Duration::from_secs(600), Duration::from_millis(20));
    let absorb = scheduler.next(long).unwrap();
    assert!(matches!(absorb, Task::Absorb), "an absorb ends a rest");
    core.run(absorb);
    Maintenance::new(core, Instant::now() - short * 100).tick(core, Instant::now());
    let begun = Instant::now();
    assert!(matches!(scheduler.next(short), Some(Task::Flush(_))), "a slot waits");
    assert!(begun.elapsed() >= short, "a rest has its length");
    assert!(matches!(scheduler.next(Duration::ZERO), Some(Task::Flush(_))));

    // the plan is kept: a job after which nothing is beyond buffers is no hurry
    let job = Duration::from_millis(3);
    assert_eq!((core.work.debt.bytes(), core.rest(job), core.rest(long)), (0, job * 4, Duration::from_millis(100)));
    core.work.debt.set(u64::MAX, 1);
    assert_eq!(core.rest(job), Duration::ZERO, "more is left than was planned");
    scheduler.stop();
    assert!(scheduler.next(long).is_none());
}

struct Panics;

impl UpdateFunction for Panics {
    fn apply(&self, _key: &[u8], _row: Option<&[u8]>, update: &[u8]) -> Option<Vec<u8>> {
        assert!(update != b"panic", "as the test wants it");
        Some(update.to_vec())
    }
}

#[test]
fn a_job_that_panics_ends_writing_and_not_reading() {
    let disk = FaultyDisk::new();
    let forest = open(Options { updates: Some(Arc::new(Panics)), ..options(&disk, 2) });
    apply(&forest, vec![create()]).unwrap();
    apply(&forest, (0..ROWS).map(|number| put(number, 1)).collect()).unwrap();
    forest.checkpoint().unwrap();
    apply(&forest, vec![Op::Update { tree: TREE, key: key(7), update: b"panic".to_vec() }]).unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    let error = loop {
        assert!(Instant::now() < until, "the job that resolves the update never came");
        if let Err(error) = apply(&forest, (0..ROWS).filter(|n| *n != 7).map(|number| put(number, 2)).collect()) {
            break error;
        }
    };
    assert!(matches!(&error, Error::Poisoned { context } if context.contains("panicked")), "{error}");
    assert!(matches!(forest.checkpoint(), Err(Error::Poisoned { .. })), "nothing is made durable any more");
    let snapshot = forest.snapshot().unwrap();
    for number in [0, 6, 8, ROWS - 1] {
        assert_eq!(snapshot.get(TREE, &key(number)).unwrap().unwrap()[0], 2, "{number}");
    }
    drop(snapshot);
    drop(forest);
    let forest = open(options(&disk, 0));
    let row = forest.snapshot().unwrap().get(TREE, &key(7)).unwrap().map(|row| row[0]);
    assert_eq!(row, Some(1), "opening finds the last checkpoint");
}
