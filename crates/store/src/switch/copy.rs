//! The rows of a snapshot on their way into the new trees.

use std::sync::Arc;

use arbor_base::TreeId;
use arbor_engine::Engine;
use arbor_txn::{Cursor, ReadView, View};

use super::throttle::Throttle;
use super::{Phase, Watch};
use crate::{Error, Result};

/// The copy looks at the clock, at its share and at who watches after so many bytes.
const STEP_BYTES: usize = 64 << 10;
/// The target says whether it has room after so many.
const ROOM_BYTES: usize = 1 << 20;

pub(super) struct Copy<'s> {
    engine: &'s Arc<dyn Engine>,
    view: &'s ReadView,
    watch: &'s dyn Watch,
    throttle: &'s mut Throttle,
    /// Rows over all trees.
    pub done: u64,
    total: u64,
    /// Bytes since the last look, and since the target was asked for room.
    step: usize,
    room: usize,
}

impl<'s> Copy<'s> {
    pub fn new(
        engine: &'s Arc<dyn Engine>,
        view: &'s ReadView,
        watch: &'s dyn Watch,
        throttle: &'s mut Throttle,
        total: u64,
    ) -> Copy<'s> {
        Copy { engine, view, watch, throttle, done: 0, total, step: 0, room: 0 }
    }

    /// Answers the number of rows.
    pub fn tree(&mut self, from: TreeId, to: TreeId) -> Result<u64> {
        let (engine, before) = (self.engine, self.done);
        let cursor = self.view.cursor(from)?;
        let mut rows = Rows { copy: self, cursor, begun: false, error: None };
        let loaded = engine.bulk_load(to, &mut rows);
        match rows.error {
            Some(error) => Err(error),
            None => {
                loaded?;
                self.look_up()?;
                Ok(self.done - before)
            }
        }
    }

    fn count(&mut self, bytes: usize) -> Result<()> {
        self.done += 1;
        self.step += bytes;
        if self.step < STEP_BYTES {
            return Ok(());
        }
        self.room += std::mem::take(&mut self.step);
        if self.room >= ROOM_BYTES {
            self.room = 0;
            self.engine.wait_for_room();
        }
        self.look_up()
    }

    fn look_up(&mut self) -> Result<()> {
        self.watch.progress(Phase::Copying, self.done, self.total.max(self.done));
        self.throttle.pause();
        if self.watch.is_stopped() { Err(Error::Interrupted) } else { Ok(()) }
    }
}

/// Rows for `bulk_load`; ends early when a read fails or the switch is broken off, and keeps the error.
struct Rows<'r, 's> {
    copy: &'r mut Copy<'s>,
    cursor: Box<dyn Cursor + 's>,
    begun: bool,
    error: Option<Error>,
}

impl Rows<'_, '_> {
    fn checked_next(&mut self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let stands = if std::mem::replace(&mut self.begun, true) { self.cursor.next() } else { self.cursor.first() };
        if !stands? {
            return Ok(None);
        }
        let row = (self.cursor.key().to_vec(), self.cursor.value().to_vec());
        self.copy.count(row.0.len() + row.1.len() + 16)?;
        Ok(Some(row))
    }
}

impl Iterator for Rows<'_, '_> {
    type Item = (Vec<u8>, Vec<u8>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.error.is_some() {
            return None;
        }
        self.checked_next().unwrap_or_else(|error| {
            self.error = Some(error);
            None
        })
    }
}
