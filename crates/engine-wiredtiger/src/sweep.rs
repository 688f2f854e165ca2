//! The tables of dropped trees.
//!
//! Dropping a table in WiredTiger is durable at once and asks for no snapshots. So it is done at the end of a checkpoint,
//! for tables that the checkpoint does not name and no held snapshot shows. A table that is in use (a cursor of a reader
//! that has moved on, a compaction) is tried again at the next one. What a crash leaves is dropped at open.

use std::sync::atomic::Ordering;

use arbor_engine::Result;

use crate::edit::{Book, Doomed};
use crate::engine::Core;
use crate::raw::Called;
use crate::records::CATALOGUE;

impl Core {
    /// Requires: a checkpoint was just made, and no other is being made. What fails is tried again.
    pub fn sweep(&self) {
        let durable = self.flushed_generation.load(Ordering::Acquire);
        let ready = |doomed: &Doomed| doomed.generation <= durable && !self.published.held_before(doomed.shape);
        if !self.lock_book().doomed.iter().any(ready) {
            return;
        }
        self.reading.pool.close_cursors();
        let mut book = self.lock_book();
        let (due, rest): (Vec<Doomed>, Vec<Doomed>) = std::mem::take(&mut book.doomed).into_iter().partition(ready);
        book.doomed = rest;
        for doomed in due {
            if self.drop_table(&mut book, &doomed).is_err() {
                book.doomed.push(doomed);
            }
        }
    }

    fn drop_table(&self, book: &mut Book, doomed: &Doomed) -> Called {
        book.session.close_cursor(doomed.table);
        match book.tables_session.drop_table(doomed.table) {
            Err(fault) if !fault.is_missing() => {
                if !fault.is_busy() {
                    self.counters.background_errors.fetch_add(1, Ordering::Relaxed);
                }
                return Err(fault);
            }
            _ => {}
        }
        self.reading.samples.forget(doomed.table);
        self.counters.swept_tables.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Drops the tables that no tree names. Called at open, when there are no snapshots.
    pub fn drop_orphans(&self) -> Result<()> {
        let mut book = self.lock_book();
        let existing = book.tables_session.tables()?;
        let named: Vec<_> = book.tables.values().copied().collect();
        for table in existing.into_iter().filter(|table| *table != CATALOGUE && !named.contains(table)) {
            book.doom(&[table], 0, 0);
        }
        for doomed in std::mem::take(&mut book.doomed) {
            if self.drop_table(&mut book, &doomed).is_err() {
                book.doomed.push(doomed);
            }
        }
        Ok(())
    }
}
