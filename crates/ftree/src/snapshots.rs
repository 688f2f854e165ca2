//! Which sequence numbers readers hold.

use std::sync::atomic::AtomicU64;

use crate::Seq;

pub struct Snapshots {}

/// A sequence number that merges keep the rows of, until this is dropped.
pub struct Registered {}

impl Snapshots {
    pub fn new() -> Snapshots {
        unimplemented!()
    }

    /// Registers what `visible` says now.
    pub fn register(&self, _visible: &AtomicU64) -> Registered {
        unimplemented!()
    }

    /// Sorted, each once.
    pub fn list(&self) -> Vec<Seq> {
        unimplemented!()
    }

    /// What a merge must keep: the registered numbers and what is visible now (whoever registers from now on gets
    /// that or more). Sorted, each once.
    pub fn stripes(&self, _visible: &AtomicU64) -> Vec<Seq> {
        unimplemented!()
    }

    pub fn oldest(&self) -> Option<Seq> {
        unimplemented!()
    }
}

impl Default for Snapshots {
    fn default() -> Snapshots {
        Snapshots::new()
    }
}

impl Registered {
    pub fn seq(&self) -> Seq {
        unimplemented!()
    }
}
