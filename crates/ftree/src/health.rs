//! Failures, and their consequences for writers and for background work.
//!
//! - A write or a sync that failed poisons: nothing is written any more, reads continue.
//! - Without space, data stays where it is; work that frees space continues and the rest is tried again.
//! - Damage that a job hits puts that slot aside; only reads that need it fail.

use std::collections::HashSet;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::tree::{Place, Tree};
use crate::{Error, Result};

#[derive(Default)]
pub struct Health {
    poison: OnceLock<String>,
    out_of_space: AtomicBool,
    quarantine: Mutex<HashSet<Key>>,
    /// Slots put aside; jobs that failed for want of space, and because something could not be read.
    pub damaged: AtomicU64,
    pub refused: AtomicU64,
    pub unread: AtomicU64,
}

/// Tree, level and lower bound.
pub type Key = (u64, u8, Vec<u8>);

pub fn key_of(tree: &Tree, place: &Place) -> Key {
    (tree.serial, place.level, place.bounds.from.clone())
}

impl Health {
    /// Errors: writing is over.
    pub fn check(&self) -> Result<()> {
        match self.poison.get() {
            None => Ok(()),
            Some(context) => Err(Error::Poisoned { context: context.clone() }),
        }
    }

    pub fn is_poisoned(&self) -> bool {
        self.poison.get().is_some()
    }

    pub fn poison(&self, context: String) {
        // The first reason counts.
        let _ = self.poison.set(context);
    }

    pub fn is_out_of_space(&self) -> bool {
        self.out_of_space.load(Ordering::Relaxed)
    }

    /// Some work that needs space succeeded.
    pub fn found_space(&self) {
        if self.is_out_of_space() {
            self.out_of_space.store(false, Ordering::Relaxed);
        }
    }

    /// Draws the conclusions of an error in background work. `place`: the slot that was worked on.
    pub fn note(&self, error: &Error, place: Option<Key>) {
        match error {
            Error::OutOfSpace { .. } => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                self.out_of_space.store(true, Ordering::Relaxed);
            }
            // What could not be read is still there: the slot is looked at again when it gets more.
            Error::Io { context, .. } if context.starts_with("reading") => {
                self.unread.fetch_add(1, Ordering::Relaxed);
            }
            Error::Io { .. } | Error::Poisoned { .. } => self.poison(error.to_string()),
            Error::Corrupt { .. } | Error::Other(_) if place.is_some() => {
                self.damaged.fetch_add(1, Ordering::Relaxed);
                self.quarantine.lock().extend(place);
            }
            other => self.poison(other.to_string()),
        }
    }

    pub fn is_put_aside(&self, key: &Key) -> bool {
        // Almost always nothing is.
        self.damaged.load(Ordering::Relaxed) != 0 && self.quarantine.lock().contains(key)
    }

    /// Level and lower bound of the slots of a tree that are put aside.
    pub fn put_aside(&self, serial: u64) -> Vec<(u8, Vec<u8>)> {
        if self.damaged.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        self.quarantine.lock().iter().filter(|key| key.0 == serial).map(|key| (key.1, key.2.clone())).collect()
    }
}
