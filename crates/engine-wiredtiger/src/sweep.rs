//! The tables of dropped trees.
//!
//! Dropping a table in WiredTiger is durable at once and asks for no snapshots. So it is done at the end of a checkpoint,
//! for tables that the checkpoint does not name and no held snapshot shows. A table that is in use (a cursor of a reader
//! that has moved on, a compaction) is tried again at the next one. What a crash leaves is dropped at open.

use std::sync::atomic::Ordering;

use arbor_engine::Result;

use crate::core::Core;
use crate::raw::Called;
use crate::records::CATALOGUE;
use crate::writer::{PendingDrop, WriterState};

impl Core {
    /// Requires: a checkpoint was just made, and no other is being made. What fails is tried again.
    pub(crate) fn sweep(&self) {
        let durable = self.flushed_generation.load(Ordering::Acquire);
        let ready = |drop: &PendingDrop| drop.generation <= durable && !self.published.held_before(drop.shape);
        if !self.lock_writer().pending_drops.iter().any(ready) {
            return;
        }
        self.reading.pool.close_cursors();
        let mut writer = self.lock_writer();
        let (due, rest): (Vec<PendingDrop>, Vec<PendingDrop>) =
            std::mem::take(&mut writer.pending_drops).into_iter().partition(ready);
        writer.pending_drops = rest;
        for drop in due {
            if self.drop_table(&mut writer, &drop).is_err() {
                writer.pending_drops.push(drop);
            }
        }
    }

    fn drop_table(&self, writer: &mut WriterState, drop: &PendingDrop) -> Called {
        writer.session.close_cursor(drop.table);
        match writer.tables_session.drop_table(drop.table) {
            Err(fault) if !fault.is_missing() => {
                if !fault.is_busy() {
                    self.counters.background_errors.fetch_add(1, Ordering::Relaxed);
                }
                return Err(fault);
            }
            _ => {}
        }
        self.reading.samples.forget(drop.table);
        self.counters.swept_tables.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Drops the tables that no tree names. Called at open, when there are no snapshots.
    pub(crate) fn drop_orphans(&self) -> Result<()> {
        let mut writer = self.lock_writer();
        let existing = writer.tables_session.tables()?;
        let named: Vec<_> = writer.tables.values().copied().collect();
        for table in existing.into_iter().filter(|table| *table != CATALOGUE && !named.contains(table)) {
            writer.mark_dropped(&[table], 0, 0);
        }
        for drop in std::mem::take(&mut writer.pending_drops) {
            if self.drop_table(&mut writer, &drop).is_err() {
                writer.pending_drops.push(drop);
            }
        }
        Ok(())
    }
}
