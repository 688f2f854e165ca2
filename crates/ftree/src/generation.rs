//! The memtable that is being filled, and those that are frozen, with the parts of the trees in it.

use std::sync::Arc;

use arbor_base::TreeId;

use crate::Seq;
use crate::cache::Cache;
use crate::memtable::{MemTree, Memtable};
use crate::tree::Tree;

/// One memtable and the trees it holds parts of.
pub struct Generation {
    pub number: u64,
    pub memtable: Arc<Memtable>,
    pub parts: Vec<(Arc<Tree>, Arc<MemTree>)>,
    /// The newest batch or bulk load in it or before it; set when it is frozen.
    pub last: Seq,
    /// Absorbing it makes free space: it drops trees, deletes ranges, or deletes keys on a full disk.
    pub frees: bool,
}

/// The state of the one thread that applies.
pub(crate) struct Writer {
    pub filling: Generation,
    /// Everything up to here is in frozen generations, or absorbed.
    pub frozen: Seq,
    /// The part that was written last: most batches write one tree after the other.
    pub(crate) part: Option<(TreeId, Arc<MemTree>)>,
}

impl Generation {
    pub fn new(number: u64, memtable_bytes: u64, cache: &Cache) -> Generation {
        let memtable = Memtable::charged(memtable_bytes, cache);
        Generation { number, memtable, parts: Vec::new(), last: Seq::ZERO, frees: false }
    }
}

impl Writer {
    /// `frozen`: up to where everything is in the trees.
    pub(crate) fn new(memtable_bytes: u64, frozen: Seq, cache: &Cache) -> Writer {
        Writer { filling: Generation::new(1, memtable_bytes, cache), frozen, part: None }
    }

    /// The tree behind the cached part may be another one now.
    pub(crate) fn forget_part(&mut self) {
        self.part = None;
    }
}
