//! Inner nodes: pivots and slots. They are always in memory and never change; a change copies the path from the root.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::Bounds;
use crate::Seq;
use crate::cache::{Cache, Charge, heap_bytes};
use crate::checkpoint::NodeOnDisk;
use crate::key_index::KeyIndex;
use crate::table::{Table, TableMeta};

pub struct Inner {
    /// `pivots.key(i)` is the lower bound of slot `i + 1`; slot 0 begins where the node begins.
    pub pivots: Arc<KeyIndex>,
    /// One more than pivots.
    pub slots: Vec<Arc<Slot>>,
    /// 1: the children are leaves.
    pub level: u8,
    /// Location at which the last checkpoint wrote this node; set once.
    pub disk: OnceLock<NodeOnDisk>,
    totals: OnceLock<Totals>,
    /// See [`Inner::excess`].
    excess: OnceLock<u64>,
    /// For this node with its slots; set once a tree has it.
    charge: OnceLock<Charge>,
}

/// Sums over a node and all below it. Messages that wait are not counted as rows.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Totals {
    pub rows: u64,
    /// Uncompressed bytes of leaves.
    pub bytes: u64,
    pub messages: u64,
    /// Uncompressed bytes of messages.
    pub buffered_bytes: u64,
    /// Bytes of leaves in the file, and about those of runs, large values included.
    pub disk_bytes: u64,
    /// The newest batch of which anything was merged in.
    pub newest: Seq,
}

/// The messages that wait for one child, and the child.
pub struct Slot {
    /// Oldest first, each clipped to the slot's bounds. One table may be in several neighbouring slots.
    pub runs: Vec<Run>,
    pub child: Child,
    /// Work of readers because of the runs, in bytes; it enters the weight when something is flushed.
    pub read_work: AtomicU64,
}

#[derive(Clone)]
pub struct Run {
    pub table: Arc<Table>,
    /// Approximate part of the table's uncompressed bytes that is inside the slot.
    pub bytes: u64,
}

#[derive(Clone)]
pub enum Child {
    Empty,
    Leaf(Arc<Table>),
    Inner(Arc<Inner>),
}

/// A slot with its lower bound: what the content of a node is while it is changed.
#[derive(Clone)]
pub struct Placed {
    pub from: Vec<u8>,
    pub slot: Arc<Slot>,
}

impl Inner {
    /// Requires: `slots` is not empty, lower bounds rise. The first one is that of the node.
    pub fn new(level: u8, slots: Vec<Placed>) -> Arc<Inner> {
        debug_assert!(!slots.is_empty() && slots.is_sorted_by(|a, b| a.from < b.from));
        let pivots = Arc::new(KeyIndex::new(slots.iter().skip(1).map(|placed| placed.from.as_slice())));
        let slots = slots.into_iter().map(|placed| placed.slot).collect();
        Arc::new(Inner::of_parts(pivots, slots, level, OnceLock::new()))
    }

    pub fn of_parts(pivots: Arc<KeyIndex>, slots: Vec<Arc<Slot>>, level: u8, disk: OnceLock<NodeOnDisk>) -> Inner {
        assert!(slots.len() == pivots.len() + 1, "{} slots, {} pivots", slots.len(), pivots.len());
        let (totals, excess, charge) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Inner { pivots, slots, level, disk, totals, excess, charge }
    }

    /// The root of a tree without rows.
    pub fn empty() -> Arc<Inner> {
        Inner::void(1)
    }

    /// A node that holds nothing yet.
    pub fn void(level: u8) -> Arc<Inner> {
        Inner::new(level, vec![Placed { from: Vec::new(), slot: Arc::new(Slot::void()) }])
    }

    /// The slot that is responsible for `key`.
    pub fn slot_of(&self, key: &[u8]) -> usize {
        self.pivots.upper_bound(key)
    }

    /// `own`: the bounds of this node.
    pub fn bounds_of(&self, at: usize, own: &Bounds) -> Bounds {
        let from = if at == 0 { own.from.clone() } else { self.pivots.key(at - 1).to_vec() };
        let to = if at < self.pivots.len() { Some(self.pivots.key(at).to_vec()) } else { own.to.clone() };
        Bounds { from, to }
    }

    /// The slots with their lower bounds, to change them.
    pub fn placed(&self, own: &Bounds) -> Vec<Placed> {
        let from = |at: usize| if at == 0 { own.from.clone() } else { self.pivots.key(at - 1).to_vec() };
        self.slots.iter().enumerate().map(|(at, slot)| Placed { from: from(at), slot: slot.clone() }).collect()
    }

    /// Uncompressed bytes of messages that wait in the slots of this node.
    pub fn buffered_bytes(&self) -> u64 {
        self.slots.iter().map(|slot| slot.buffered_bytes()).sum()
    }

    /// Counted once for each node.
    pub fn totals(&self) -> Totals {
        *self.totals.get_or_init(|| self.slots.iter().map(|slot| slot.totals()).fold(Totals::default(), Totals::and))
    }

    /// Bytes of messages that wait here and below beyond what the nodes may hold, as `count` finds it the first time.
    pub fn excess(&self, count: impl FnOnce() -> u64) -> u64 {
        *self.excess.get_or_init(count)
    }

    /// Charges this node and those below that are not charged yet.
    pub fn charge(&self, cache: &Cache) {
        if self.charge.get().is_some() {
            return;
        }
        self.charge.get_or_init(|| cache.charge_resident(self.memory_bytes() as u64));
        for slot in &self.slots {
            if let Child::Inner(inner) = &slot.child {
                inner.charge(cache);
            }
        }
    }

    /// Slots that it shares with the node that it was copied from are counted for both.
    fn memory_bytes(&self) -> usize {
        let slot =
            |slot: &Arc<Slot>| heap_bytes(size_of::<Slot>() + 16) + heap_bytes(slot.runs.len() * size_of::<Run>());
        let slots = heap_bytes(self.slots.len() * 8) + self.slots.iter().map(slot).sum::<usize>();
        heap_bytes(size_of::<Inner>() + 16) + self.pivots.memory_bytes() + slots
    }

    /// Nothing here and below.
    pub fn is_void(&self) -> bool {
        self.slots.iter().all(|slot| slot.is_void())
    }

    /// Returns true if it is the placeholder of a node that opening found damaged (see `checkpoint/lost.rs`).
    pub fn is_lost(&self) -> bool {
        match self.slots.as_slice() {
            [only] => match &only.child {
                Child::Leaf(leaf) => leaf.meta.is_elsewhere(),
                Child::Inner(inner) => inner.is_lost(),
                Child::Empty => false,
            },
            _ => false,
        }
    }

    /// The children that are inner nodes.
    pub fn inner_children(&self) -> impl Iterator<Item = &Arc<Inner>> {
        self.slots.iter().filter_map(|slot| match &slot.child {
            Child::Inner(inner) => Some(inner),
            Child::Empty | Child::Leaf(_) => None,
        })
    }

    /// All tables here and below, those in several slots several times.
    pub fn for_each_table(&self, see: &mut dyn FnMut(&Arc<Table>)) {
        for slot in &self.slots {
            slot.runs.iter().for_each(|run| see(&run.table));
            match &slot.child {
                Child::Empty => {}
                Child::Leaf(leaf) => see(leaf),
                Child::Inner(inner) => inner.for_each_table(see),
            }
        }
    }
}

impl Slot {
    pub fn new(runs: Vec<Run>, child: Child) -> Slot {
        Slot { runs, child, read_work: AtomicU64::new(0) }
    }

    pub fn void() -> Slot {
        Slot::new(Vec::new(), Child::Empty)
    }

    pub fn is_void(&self) -> bool {
        self.runs.is_empty() && matches!(self.child, Child::Empty)
    }

    pub fn buffered_bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.bytes).sum()
    }

    pub fn has_tombstones(&self) -> bool {
        self.runs.iter().any(|run| run.table.meta.has_tombstones)
    }

    fn totals(&self) -> Totals {
        let below = match &self.child {
            Child::Empty => Totals::default(),
            Child::Inner(inner) => inner.totals(),
            Child::Leaf(leaf) => {
                let (rows, bytes, disk_bytes) = (leaf.meta.rows, leaf.meta.raw_bytes, leaf.meta.disk_bytes());
                Totals { rows, bytes, disk_bytes, newest: leaf.meta.max_seq, ..Totals::default() }
            }
        };
        self.runs.iter().map(Run::totals).fold(below, Totals::and)
    }

    /// Returns the urgency of flushing this slot before others.
    pub fn weight(&self) -> u64 {
        self.buffered_bytes() + self.read_work.load(Ordering::Relaxed)
    }

    /// Returns a slot of the same runs over another child.
    pub fn with_child(&self, child: Child) -> Slot {
        let read_work = AtomicU64::new(self.read_work.load(Ordering::Relaxed));
        Slot { runs: self.runs.clone(), child, read_work }
    }

    /// Returns true if the child, and the runs that share keys with this one, hold nothing as new as it does (I1, I2).
    pub fn is_older_than(&self, run: &Run) -> bool {
        let meta = &run.table.meta;
        // a table of range tombstones alone has no first and last key
        let overlaps = |other: &TableMeta| {
            let has_rows = meta.rows > 0 && other.rows > 0;
            has_rows && meta.first_key <= other.last_key && other.first_key <= meta.last_key
        };
        let runs = self.runs.iter().filter(|run| overlaps(&run.table.meta)).map(|run| run.table.meta.max_seq);
        let below = match &self.child {
            Child::Empty => Seq::ZERO,
            Child::Leaf(leaf) => leaf.meta.max_seq,
            Child::Inner(inner) => inner.totals().newest,
        };
        runs.max().unwrap_or_default().max(below) < meta.min_seq
    }

    /// One more run, the newest.
    pub fn with_run(&self, run: Run) -> Slot {
        debug_assert!(self.is_older_than(&run), "I1: later runs of a slot are newer");
        let mut slot = self.with_child(self.child.clone());
        slot.runs.push(run);
        slot
    }

    /// Returns true if these tables are the oldest runs.
    pub fn begins_with(&self, tables: &[(Arc<Table>, u64)]) -> bool {
        self.has_runs(0, tables)
    }

    /// Returns true if these tables follow the `before` oldest runs.
    pub fn has_runs(&self, before: usize, tables: &[(Arc<Table>, u64)]) -> bool {
        let same = |(run, (table, _)): (&Run, &(Arc<Table>, u64))| Arc::ptr_eq(&run.table, table);
        let runs = self.runs.iter().skip(before);
        runs.len() >= tables.len() && runs.zip(tables).all(same)
    }
}

impl Totals {
    fn and(self, other: Totals) -> Totals {
        Totals {
            rows: self.rows + other.rows,
            bytes: self.bytes + other.bytes,
            messages: self.messages + other.messages,
            buffered_bytes: self.buffered_bytes + other.buffered_bytes,
            disk_bytes: self.disk_bytes + other.disk_bytes,
            newest: self.newest.max(other.newest),
        }
    }
}

impl Run {
    /// The part of the table that is in the slot, by its bytes.
    pub fn totals(&self) -> Totals {
        let meta = &self.table.meta;
        let (messages, disk_bytes) = (self.part(meta.rows), self.part(meta.disk_bytes()));
        Totals { messages, buffered_bytes: self.bytes, disk_bytes, newest: meta.max_seq, ..Totals::default() }
    }

    /// Bytes in the file, without large values.
    pub fn table_bytes(&self) -> u64 {
        self.part(self.table.meta.bytes)
    }

    fn part(&self, whole: u64) -> u64 {
        let part = whole as f64 * self.bytes as f64 / self.table.meta.raw_bytes.max(1) as f64;
        part.min(whole as f64) as u64
    }

    /// Returns true if something of the run may be inside. Range tombstones may reach beyond the table's keys.
    pub fn reaches(&self, bounds: &Bounds) -> bool {
        let meta = &self.table.meta;
        let behind_start = bounds.from.as_slice() <= meta.last_key.as_slice();
        let before_end = bounds.to.as_deref().is_none_or(|to| meta.first_key.as_slice() < to);
        meta.has_tombstones || (behind_start && before_end)
    }
}

impl Child {
    /// Returns true if both are the same object, not only equal.
    pub fn is(&self, other: &Child) -> bool {
        match (self, other) {
            (Child::Empty, Child::Empty) => true,
            (Child::Leaf(one), Child::Leaf(other)) => Arc::ptr_eq(one, other),
            (Child::Inner(one), Child::Inner(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}
