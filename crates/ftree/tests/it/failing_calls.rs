//! Every call to the disk fails once, in turn, over a scripted scenario: an error or success, never a panic; what can be
//! read is right; and the forest reopens in a state that was, at or after the last checkpoint that returned.

use std::path::Path;
use std::sync::Arc;

use arbor_base::{Position, TreeId};
use arbor_disk::{Fault, FaultyDisk, testkit};
use arbor_engine::model::ModelEngine;
use arbor_engine::{Batch, Engine, Error, Op, Result, TreeOptions};
use arbor_engine_contract::Adder;
use arbor_ftree::{Forest, Options, TreeSettings};

use crate::images::states::States;

const BULK: TreeId = TreeId(3);

fn options(disk: &FaultyDisk) -> Options {
    let tree = TreeSettings {
        block_bytes: 512,
        leaf_bytes: 4096,
        fanout: 3,
        blob_bytes: 2000,
        run_bytes: 1024,
        ..TreeSettings::default()
    };
    Options {
        memtable_bytes: 6000,
        threads: 0,
        checkpoint_bytes: 30_000,
        checkpoint_interval_ms: 0,
        updates: Some(Arc::new(Adder)),
        tree,
        ..Options::new(Arc::new(disk.clone()), 1 << 20)
    }
}

fn open(disk: &FaultyDisk) -> Result<Forest> {
    Forest::open(Path::new("/data"), options(disk))
}

enum Step {
    Open,
    Apply(Vec<Vec<Op>>),
    Checkpoint,
    BulkLoad,
}

fn put(tree: u64, key: impl AsRef<[u8]>, value: Vec<u8>) -> Op {
    Op::Put { tree: TreeId(tree), key: key.as_ref().to_vec(), value }
}

fn create(tree: u64) -> Op {
    Op::CreateTree { tree: TreeId(tree), options: TreeOptions::default() }
}

fn bulk_rows() -> Vec<(Vec<u8>, Vec<u8>)> {
    (0..300u32).map(|n| (n.to_be_bytes().to_vec(), vec![n as u8; if n == 70 { 3000 } else { 50 }])).collect()
}

fn scenario() -> Vec<Step> {
    let puts = |tree: u64, range: std::ops::Range<u32>, length: usize| -> Vec<Op> {
        range.map(|n| put(tree, n.to_be_bytes(), vec![n as u8; length])).collect()
    };
    let delete = |n: u32| Op::Delete { tree: TreeId(1), key: n.to_be_bytes().to_vec() };
    let add =
        |n: u32| Op::Update { tree: TreeId(1), key: n.to_be_bytes().to_vec(), update: 5u64.to_le_bytes().to_vec() };
    let range = Op::DeleteRange { tree: TreeId(1), from: vec![0, 0, 0, 20], to: Some(vec![0, 0, 0, 90]) };
    vec![
        Step::Open,
        Step::Apply(vec![vec![create(1), create(2)], puts(1, 0..60, 100)]),
        Step::Checkpoint,
        Step::Apply(vec![puts(1, 40..120, 60), vec![put(2, "large", vec![7; 5000])], (0..9).map(delete).collect()]),
        Step::Apply(vec![(200..230).map(add).collect()]),
        Step::Apply(vec![vec![range]]),
        Step::Checkpoint,
        Step::Open,
        Step::Apply(vec![vec![create(BULK.0)], puts(1, 10..130, 70)]),
        Step::BulkLoad,
        Step::Checkpoint,
        Step::Apply(vec![vec![Op::DropTree { tree: TreeId(1) }, put(2, "a", vec![3; 3000])]]),
        Step::Apply(vec![puts(2, 0..150, 80)]),
        Step::Checkpoint,
        Step::Apply(vec![vec![Op::DropTree { tree: TreeId(2) }, create(1)], puts(1, 0..9, 1500)]),
    ]
}

/// The scenario on one disk.
struct Run<'d> {
    disk: &'d FaultyDisk,
    forest: Option<Forest>,
    states: States,
    /// The last checkpoint that returned.
    floor: usize,
}

impl Run<'_> {
    fn do_step(&mut self, step: &Step) -> Result<()> {
        if let Step::Open = step {
            self.forest = None;
            let forest = self.forest.insert(open(self.disk)?);
            // Looking is no part of the scenario.
            let same = open(&self.disk.kill_process())?;
            assert_eq!(forest.applied(), same.applied());
            self.states.go_back_to(self.states.find(self.floor, &same));
            return Ok(());
        }
        let Some(forest) = &self.forest else { panic!("the forest was opened") };
        match step {
            Step::Open => {}
            Step::Apply(groups) => {
                let batch = |(n, ops): (usize, &Vec<Op>)| Batch {
                    position: Position(forest.applied().0 + 1 + n as u64),
                    ops: ops.clone(),
                };
                let batches: Vec<Batch> = groups.iter().enumerate().map(batch).collect();
                forest.apply(&batches)?;
                for batch in batches {
                    self.states.push(|state| state.apply(std::slice::from_ref(&batch)));
                }
            }
            Step::Checkpoint => {
                assert_eq!(forest.checkpoint()?, forest.applied());
                self.floor = self.states.newest();
            }
            Step::BulkLoad => {
                forest.bulk_load(BULK, &mut bulk_rows().into_iter())?;
                self.states.push(|state| state.bulk_load(BULK, &mut bulk_rows().into_iter()));
            }
        }
        Ok(())
    }

    /// Steps until one fails for good.
    fn run(&mut self) {
        for (number, step) in scenario().iter().enumerate() {
            let Err(error) = self.do_step(step) else { continue };
            let what = format!("step {number}: {error}");
            if let Some(forest) = &self.forest {
                // Reading continues in the state of before.
                let newest = self.states.newest();
                assert_eq!(self.states.find(newest, forest), newest, "{what}");
            }
            match error {
                Error::OutOfSpace { .. } => {}
                _ if self.forest.is_none() => {}
                // The output of a bulk load is not needed yet.
                Error::Io { .. } if matches!(step, Step::BulkLoad) => {}
                _ => {
                    let next = Batch { position: Position(100_000), ops: vec![] };
                    let next = self.forest.as_ref().map(|forest| forest.apply(&[next]));
                    assert!(matches!(next, Some(Err(Error::Poisoned { .. }))), "{what}; a write after it: {next:?}");
                    return;
                }
            }
            // The disk is well again.
            match self.do_step(step) {
                Ok(()) => {}
                Err(Error::Poisoned { .. }) => return,
                Err(again) => panic!("{what}; again: {again}"),
            }
        }
    }
}

fn each_call(fault: Fault) {
    let calls = testkit::fail_at_each(fault, |disk| {
        let states = States::new(&ModelEngine::with_updates(Arc::new(Adder)));
        let mut run = Run { disk, forest: None, states, floor: 0 };
        run.run();
        let call = disk.counts().calls;
        let Run { forest, states, floor, .. } = run;
        drop(forest);
        for image in [disk.crash(call), disk.kill_process()] {
            let forest = open(&image).unwrap_or_else(|error| panic!("{fault:?}: reopen: {error}"));
            states.find(floor, &forest);
            let next = Batch { position: forest.applied().next(), ops: vec![create(9), put(9, "a", vec![1])] };
            forest.apply(&[next]).expect("it takes batches again");
            forest.checkpoint().expect("it makes checkpoints again");
        }
    });
    assert!(calls > 100, "only {calls} calls were seen");
    eprintln!("{fault:?}: {calls} calls failed, one at a time");
}

#[test]
fn each_call_fails_once_with_eio() {
    each_call(Fault::Io);
}

#[test]
fn each_call_fails_once_with_enospc() {
    each_call(Fault::OutOfSpace);
}

#[test]
fn each_call_fails_once_half_done() {
    each_call(Fault::ShortWrite);
}
