//! Frozen generations that wait to be absorbed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};

use crate::Seq;
use crate::generation::Generation;

/// Frozen generations that wait.
#[derive(Default)]
pub struct Backlog {
    /// Oldest first. The one that is being absorbed stays until it is.
    pub(crate) waiting: Mutex<VecDeque<Arc<Generation>>>,
    pub(crate) absorbed: AtomicU64,
    /// Held while a generation is absorbed, and while a checkpoint captures the roots.
    turn: Mutex<()>,
}

impl Backlog {
    pub fn new(absorbed: Seq) -> Backlog {
        Backlog { absorbed: AtomicU64::new(absorbed.0), ..Backlog::default() }
    }

    /// The roots hold everything up to here, and nothing newer.
    pub fn absorbed(&self) -> Seq {
        Seq(self.absorbed.load(Ordering::Acquire))
    }

    pub fn add(&self, generation: Generation) {
        let mut waiting = self.lock();
        let before = waiting.back().map_or(self.absorbed(), |before| before.last);
        assert!(before < generation.last, "B1: {:?} was frozen after {before:?}", generation.last);
        waiting.push_back(Arc::new(generation));
    }

    pub fn len(&self) -> usize {
        self.lock().len()
    }

    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Memory that waits.
    pub fn bytes(&self) -> u64 {
        self.lock().iter().map(|generation| generation.memtable.bytes()).sum()
    }

    /// While this is held nothing is absorbed.
    pub fn turn(&self) -> Turn<'_> {
        Turn { _guard: self.turn.lock(), backlog: self }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<Generation>>> {
        self.waiting.lock()
    }
}

/// The right to absorb.
pub struct Turn<'b> {
    _guard: MutexGuard<'b, ()>,
    pub(crate) backlog: &'b Backlog,
}
