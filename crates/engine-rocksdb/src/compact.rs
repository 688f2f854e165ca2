//! Rewriting ranges on demand, with RocksDB's manual compaction.
//!
//! RocksDB flushes the memtable before it when that has a row in the range, which must not make a state durable before
//! the log is. So while a manual compaction runs, every write waits for the log first (`Core::lawful_flushes`); then a
//! flush at any moment is lawful. One manual compaction at a time, so that cancelling one cancels no other.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arbor_base::TreeId;
use arbor_engine::{Error, Result};

use crate::core::Core;
use crate::span::Span;

const LOOK_EVERY: Duration = Duration::from_millis(20);

impl Core {
    /// Returns the bytes that the tree's files became smaller by.
    pub(crate) fn compact_tree(&self, tree: TreeId, stop: &dyn Fn() -> bool) -> Result<u64> {
        let content = self.lock_writer().trees.get(&tree).map(|tree| tree.content).ok_or(Error::UnknownTree(tree))?;
        // What is in memory is to be in the files that are counted.
        self.checkpoint()?;
        let bytes = || self.db.file_bytes(&content.prefix(), &content.end());
        let before = bytes()?;
        self.compact_span(&Span { begin: content.prefix().to_vec(), end: content.row(&[0xff; 16]) }, stop)?;
        Ok(before.saturating_sub(bytes()?))
    }

    /// Ends early when `stop` returns true.
    pub(crate) fn compact_span(&self, span: &Span, stop: &dyn Fn() -> bool) -> Result<()> {
        let _alone = loop {
            match self.compacting.try_lock() {
                Some(alone) => break alone,
                None if stop() => return Ok(()),
                None => std::thread::sleep(LOOK_EVERY),
            }
        };
        self.lawful_flushes.store(true, Ordering::SeqCst);
        let compacted = self.log_has_all().map(|()| self.run_compaction(span, stop));
        self.lawful_flushes.store(false, Ordering::SeqCst);
        self.counters.manual_compactions.fetch_add(1, Ordering::Relaxed);
        compacted
    }

    /// The log is durable for all that is written; what is written later sees to itself.
    fn log_has_all(&self) -> Result<()> {
        let writer = self.lock_writer();
        self.wait_for_log(writer.state.applied)
    }

    fn run_compaction(&self, span: &Span, stop: &dyn Fn() -> bool) {
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                self.db.compact(&span.begin, &span.end);
                done.store(true, Ordering::Release);
            });
            while !done.load(Ordering::Acquire) && !worker.is_finished() {
                if stop() {
                    self.db.cancel_compactions();
                    self.db.allow_compactions();
                    break;
                }
                std::thread::sleep(LOOK_EVERY);
            }
        });
    }

    pub(crate) fn is_compacting(&self) -> bool {
        self.compacting.is_locked()
    }

    /// A step towards the return of space (see [`sweep`](crate::sweep)).
    pub(crate) fn reclaim(&self) -> Result<()> {
        if self.wants_sweep() {
            return self.checkpoint().map(drop);
        }
        let _one_at_a_time = self.flushing.lock();
        self.sweep()
    }
}
