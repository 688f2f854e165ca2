//! The space of dropped trees and of deleted ranges.
//!
//! A dropped tree leaves a dropped content. Its files can be removed when the drop is durable (the removal is, at once)
//! and no snapshot from before the drop is held (the removal does not ask for snapshots). So it is done at the end of a
//! checkpoint: whole files go, and a range tombstone covers the rows in shared files, in the first level and in
//! memtables. At the checkpoint after that, when the tombstone is in a file, the range is compacted.
//!
//! A range that was deleted from a tree is one tombstone. New rows may be between the old ones, so no file is removed;
//! when the tombstone is in a file, the range is compacted if it is worth it.
//!
//! Callers: [`background`](crate::background) makes the checkpoints that this needs soon after a drop, and its second
//! thread compacts.

use std::sync::atomic::Ordering;

use arbor_engine::{Error, Result};

use crate::core::Core;
use crate::raw::WriteBatch;
use crate::records::{self, Content};
use crate::span::Span;

/// Ranges that take less in files wait for RocksDB's own compactions.
const WORTH_BYTES: u64 = 1 << 20;
impl Core {
    /// Requires: a checkpoint was just made, and no other is being made.
    pub(crate) fn sweep(&self) -> Result<()> {
        let mut covered = self.covered.lock();
        for content in covered.drain(..) {
            self.compactor.add(Span::within(content));
        }
        for content in self.removable() {
            self.db.delete_files(content)?;
            self.cover(content)?;
            covered.push(content);
        }
        Ok(())
    }

    /// Queues compactions of the deleted ranges that a checkpoint took over when it began. Requires: it just ended.
    pub(crate) fn compact_ranges(&self, spans: Vec<Span>) -> Result<()> {
        for span in spans {
            if self.db.file_bytes(&span.begin, &span.end)? >= WORTH_BYTES {
                self.compactor.add(span);
            }
        }
        Ok(())
    }

    fn removable(&self) -> Vec<Content> {
        let durable = self.flushed_generation.load(Ordering::Acquire);
        let ready = |generation: u64| generation <= durable && !self.published.held_before(generation);
        let writer = self.lock_writer();
        writer.pending_drops.iter().filter(|(_, generation)| ready(*generation)).map(|(content, _)| *content).collect()
    }

    /// Returns true if a checkpoint would bring dropped trees or deleted ranges nearer to the return of their space.
    pub(crate) fn wants_sweep(&self) -> bool {
        let covered = !self.covered.lock().is_empty();
        let writer = self.lock_writer();
        let durable = self.flushed_generation.load(Ordering::Acquire);
        let fresh = writer.pending_drops.iter().any(|(_, generation)| *generation > durable);
        writer.poisoned.is_none() && (fresh || covered || !writer.pending_range_gc.is_empty())
    }

    /// Returns true if there are dropped trees whose files wait for a snapshot to go.
    pub(crate) fn has_pending_drops(&self) -> bool {
        let writer = self.lock_writer();
        writer.poisoned.is_none() && !writer.pending_drops.is_empty()
    }

    /// Covers what is left of a content. The state stays the same, so this needs no new generation.
    fn cover(&self, content: Content) -> Result<()> {
        let mut writer = self.lock_writer();
        if let Some(reason) = &writer.poisoned {
            return Err(Error::Poisoned { context: reason.clone() });
        }
        let mut batch = WriteBatch::new();
        batch.delete_range(&content.prefix(), &content.end());
        records::delete_pending_drop(&mut batch, content);
        self.db.write(&batch).map_err(|error| self.judge(&mut writer, error))?;
        writer.dirty = true;
        writer.pending_drops.retain(|(dropped, _)| *dropped != content);
        self.counters.swept_trees.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}
