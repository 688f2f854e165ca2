//! Histories from a seed: random batches, checkpoints, crashes, bulk loads, compactions and held snapshots on the engine under test
//! and on the model, which must agree at every step.

use std::cell::Cell;
use std::sync::Arc;

use arbor_base::{Random, TreeId};

use super::Factory;
use super::bench::{
    Bench, Rows, add, assert_same, assert_same_rows, batch, create, delete, delete_range, drop_tree, model, put,
    rows_of,
};
use arbor_engine::model::ModelEngine;
use arbor_engine::{Batch, Cursor, Engine, Error, Op, Snapshot};

const TREES: u64 = 6;
const STEPS: u64 = 120;
const HELD_MAX: usize = 4;

pub(super) fn run(factory: &dyn Factory, seed: u64) {
    let bench = Bench::new(factory);
    let mut history = History::new(seed);
    let mut engine = bench.open();
    for _ in 0..STEPS {
        let crash = history.step(&*engine);
        engine.validate();
        if crash {
            history.drop_snapshots();
            engine = bench.crash_with(engine, history.random.next_u64());
            engine.validate();
            history.recovered(&*engine);
        }
    }
    assert_same(&history.model, &*engine, 0..TREES);
}

/// The model next to the engine, and what both were given.
pub struct History {
    pub random: Random,
    pub model: ModelEngine,
    /// Batches after the last checkpoint.
    since: Vec<Batch>,
    value_bytes_max: u64,
    held: Vec<(Arc<dyn Snapshot>, Arc<dyn Snapshot>)>,
}

impl History {
    pub fn new(seed: u64) -> History {
        History::with_values(seed, 100_000)
    }

    /// A history whose values are no longer than this.
    pub fn with_values(seed: u64, value_bytes_max: u64) -> History {
        let (random, model) = (Random::new(seed), model());
        History { random, model, since: Vec::new(), value_bytes_max, held: Vec::new() }
    }

    /// One random step. Returns true if a crash is to follow.
    pub fn step(&mut self, engine: &dyn Engine) -> bool {
        match self.random.below(100) {
            0..60 => self.apply(engine),
            60..70 => self.checkpoint(engine),
            70..74 => return true,
            74..78 => self.bulk_load(engine),
            78..84 => self.hold(engine),
            84..91 => self.walk(engine),
            91..94 => self.compact(engine),
            _ => assert_same(&self.model, engine, 0..TREES),
        }
        false
    }

    pub fn apply(&mut self, engine: &dyn Engine) {
        let updates = engine.capabilities().update_messages;
        let mut position = self.model.applied().0;
        let mut group = Vec::new();
        for _ in 0..1 + self.random.below(4) {
            // Positions rise, not always by one: other engines apply the records between.
            position += if self.random.one_in(10) { 1 + self.random.below(5) } else { 1 };
            let ops = (0..self.random.below(12)).map(|_| self.op(updates)).collect();
            group.push(batch(position, ops));
        }
        let (left, right) = (self.model.apply(&group), engine.apply(&group));
        assert_eq!(left.is_ok(), right.is_ok(), "{left:?} against {right:?}");
        assert_eq!(self.model.applied(), engine.applied());
        if left.is_ok() {
            self.since.extend(group);
        }
    }

    fn op(&mut self, updates: bool) -> Op {
        let tree = self.random.below(TREES);
        // Most operations find their tree: a missing one fails the whole group.
        let exists = self.model.tree_stats(TreeId(tree)).is_ok();
        match self.random.below(100) {
            0..5 => create(tree),
            5..7 => drop_tree(tree),
            _ if !exists && !self.random.one_in(40) => create(tree),
            7..30 if updates => add(tree, self.key(), self.random.below(5) as i64 - 2),
            7..60 => put(tree, self.key(), self.value()),
            60..90 => delete(tree, self.key()),
            90..98 => delete_range(tree, &self.key(), Some(&self.key())),
            _ => delete_range(tree, &self.key(), None),
        }
    }

    /// Few different keys, so that they collide; many around the lengths where engines cut keys.
    fn key(&mut self) -> Vec<u8> {
        let mut key = match self.random.below(10) {
            0..7 => Vec::new(),
            7 => vec![b'k'; *self.random.pick(&[254, 255, 256, 498, 499, 500, 501, 511, 512])],
            8 => vec![b'k'; *self.random.pick(&[998, 999, 1000, 1001, 1500, 2047])],
            _ => vec![0; self.random.below(600) as usize],
        };
        for _ in 0..self.random.below(4) {
            key.push(*self.random.pick(b"\0\x01ak\xff"));
        }
        key
    }

    fn value(&mut self) -> Vec<u8> {
        let length = match self.random.below(40) {
            0..10 => 8,
            10..34 => self.random.below(60),
            34..39 => self.random.below(5000),
            _ => self.random.below(100_000),
        };
        vec![self.random.next_u64() as u8; length.min(self.value_bytes_max) as usize]
    }

    pub fn checkpoint(&mut self, engine: &dyn Engine) {
        let durable = engine.checkpoint().expect("the checkpoint succeeds");
        assert_eq!(durable, self.model.checkpoint().expect("the model makes checkpoints"));
        assert_eq!(engine.durable(), durable);
        self.since.clear();
    }

    pub fn bulk_load(&mut self, engine: &dyn Engine) {
        let tree = TreeId(self.random.below(TREES));
        let mut rows: Rows = (0..self.random.below(200)).map(|_| (self.key(), self.value())).collect();
        rows.sort();
        rows.dedup_by(|a, b| a.0 == b.0);
        let left = self.model.bulk_load(tree, &mut rows.iter().cloned());
        let right = engine.bulk_load(tree, &mut rows.iter().cloned());
        assert_eq!(left.is_ok(), right.is_ok(), "{left:?} against {right:?}");
        // The contract: a checkpoint before anything depends on the rows.
        self.checkpoint(engine);
    }

    /// Changes nothing that anyone sees, also when it is stopped early. An engine may have no such thing.
    pub fn compact(&mut self, engine: &dyn Engine) {
        let (tree, steps) = (TreeId(self.random.below(TREES)), Cell::new(self.random.below(30)));
        let is_broken_off = self.random.one_in(3);
        let stop = || is_broken_off && steps.replace(steps.get().saturating_sub(1)) == 0;
        match engine.compact(tree, &stop) {
            Ok(_) | Err(Error::UnknownTree(_)) | Err(Error::Unsupported { .. }) => {}
            Err(error) => panic!("compacting {tree}: {error}"),
        }
        assert_same(&self.model, engine, tree.0..tree.0 + 1);
    }

    fn hold(&mut self, engine: &dyn Engine) {
        if self.held.len() == HELD_MAX {
            let (left, right) = self.held.swap_remove(self.random.below(HELD_MAX as u64) as usize);
            assert_eq!(left.position(), right.position());
            for tree in (0..TREES).map(TreeId) {
                assert_same_rows(&*left, &*right, tree);
            }
        }
        let (left, right) = (self.model.snapshot(), engine.snapshot());
        self.held.push((left.expect("a snapshot"), right.expect("a snapshot")));
    }

    pub fn drop_snapshots(&mut self) {
        self.held.clear();
    }

    /// A cursor moves at random on both.
    fn walk(&mut self, engine: &dyn Engine) {
        let tree = TreeId(self.random.below(TREES));
        let (left, right) = (self.model.snapshot().expect("a snapshot"), engine.snapshot().expect("a snapshot"));
        let (Ok(mut left), Ok(mut right)) = (left.cursor(tree), right.cursor(tree)) else {
            assert_eq!(rows_of(&*left, tree).is_some(), rows_of(&*right, tree).is_some());
            return;
        };
        for _ in 0..30 {
            let (choice, target) = (self.random.below(8), self.key());
            let go = |cursor: &mut dyn Cursor| match choice {
                0 => cursor.seek(&target),
                1 => cursor.seek_before(&target),
                2 => cursor.first(),
                3 => cursor.last(),
                4 | 5 => cursor.next(),
                _ => cursor.prev(),
            };
            let (on, same) = (go(&mut *left).expect("a move"), go(&mut *right).expect("a move"));
            assert_eq!(on, same, "move {choice} in {tree:?}");
            assert!(!on || (left.key() == right.key() && left.value() == right.value()), "move {choice} in {tree:?}");
        }
    }

    /// The model goes to the state that the engine shows after a crash.
    pub fn recovered(&mut self, engine: &dyn Engine) {
        self.model = self.check_recovered(engine);
        self.since.retain(|batch| batch.position <= engine.applied());
    }

    /// After a crash: the engine shows a prefix at or after the last checkpoint. Returns the model at that state.
    pub fn check_recovered(&self, engine: &dyn Engine) -> ModelEngine {
        let model = self.model.crash();
        let (before, reached) = (self.model.applied(), engine.applied());
        assert!((model.applied()..=before).contains(&reached), "{} {reached} {before}", model.applied());
        let survived: Vec<Batch> = self.since.iter().filter(|batch| batch.position <= reached).cloned().collect();
        model.apply(&survived).expect("what was applied once applies again");
        assert_eq!(model.applied(), reached, "the engine names a batch that was applied");
        assert!(engine.durable() <= reached);
        self.assert_same(&model, engine);
        model
    }

    /// Positions, trees, rows and counts agree.
    pub fn assert_same(&self, model: &ModelEngine, engine: &dyn Engine) {
        assert_same(model, engine, 0..TREES);
    }
}
