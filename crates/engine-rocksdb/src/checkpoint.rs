//! Checkpoints: the state that survives a crash, and the log's barrier.
//!
//! RocksDB's own log is off, so the state that opens after a crash is what was flushed from memtables. One column family
//! and one write per group: a flush holds whole groups, in order, and the state record of the last of them says how far
//! it goes.
//!
//! **The barrier.** RocksDB flushes by itself when a memtable is full, when it is closed, when it recovers from a failed
//! flush, before a manual compaction and before it takes a file over that overlaps. Each of these could make a batch
//! durable that the log has not synced. So none of them happens: the memtable's limit is four times what the adapter lets
//! it hold (a write that comes to half the limit, which only a huge group can, waits for the barrier first), closing does
//! not flush, failed flushes are not repeated, loads refuse to flush, and while a manual compaction runs every write waits
//! for the barrier ([`compact`](crate::compact)). Rejected: a listener that waits when a flush begins; the C interface has none, and it could
//! not refuse.
//!
//! **A checkpoint:**
//!
//! 1. waits for the barrier at the applied position, concurrently with the writer;
//! 2. takes the writer's lock, waits for the barrier again, for the little that came since, and seals the memtable. The
//!    log never waits for the engine's writer, so this ends;
//! 3. lets the writer continue and waits until RocksDB has written and synced the file and its manifest;
//! 4. removes what dropped trees left ([`sweep`](crate::sweep)).
//!
//! A crash before the manifest's sync in 3 leaves the checkpoint before.
//!
//! **Memory.** When `memtable_bytes` were written, the background thread makes a checkpoint; at `memtables_max` times that
//! writers wait ([`room`](crate::room)), and a writer that came past that makes it itself.
//!
//! **A failed flush** ends writing (poisoned), but for a full disk: there RocksDB refuses writes, waits for space and then
//! flushes its memtables by itself. The barrier is therefore waited for once more when the failure is seen; RocksDB looks
//! for space after five seconds at the earliest, and wants as much as its memtable's limit.

use std::ffi::CStr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use arbor_base::Position;
use arbor_engine::{Error, Result};

use crate::core::Core;
use crate::raw::WriteBatch;
use crate::records::StateRecord;
use crate::span::Span;

const SEALED_MEMTABLES: &CStr = c"rocksdb.num-immutable-mem-table";
const FAILURES: &CStr = c"rocksdb.background-errors";
/// No call waits for a flush that was begun without sealing again, so the property is polled.
const LOOK_EVERY_MIN: Duration = Duration::from_micros(100);
const LOOK_EVERY_MAX: Duration = Duration::from_millis(5);

impl Core {
    pub(crate) fn checkpoint(&self) -> Result<Position> {
        let _one_at_a_time = self.flushing.lock();
        let begin = Instant::now();
        let result = self.flush();
        self.counters.checkpoint_ms.fetch_add(begin.elapsed().as_millis() as u64, Ordering::Relaxed);
        let (StateRecord { applied: position, generation, .. }, pending_range_gc) = result?;
        self.flushed_generation.store(generation, Ordering::Release);
        self.durable.store(position.0, Ordering::Release);
        self.counters.checkpoints.fetch_add(1, Ordering::Relaxed);
        self.expansion.refresh(&self.db);
        // A sweep that fails is tried again at the next checkpoint; if writing is over, the next `apply` says so.
        if self.sweep().and_then(|()| self.compact_ranges(pending_range_gc)).is_err() {
            self.counters.background_errors.fetch_add(1, Ordering::Relaxed);
        }
        Ok(position)
    }

    /// Returns the state that is durable, and the deleted ranges whose tombstones are in files now.
    fn flush(&self) -> Result<(StateRecord, Vec<Span>)> {
        self.wait_for_log(Position(self.applied.load(Ordering::Acquire)))?;
        let failures = self.db.property(FAILURES);
        let (state, pending_range_gc) = {
            let mut writer = self.lock_writer();
            if let Some(reason) = &writer.poisoned {
                return Err(Error::Poisoned { context: reason.clone() });
            }
            let state = writer.state;
            if !writer.dirty {
                return Ok((state, Vec::new()));
            }
            self.wait_for_log(state.applied)?;
            self.db.begin_flush().map_err(|error| self.judge(&mut writer, error))?;
            writer.flushing();
            let largest = self.largest_value_bytes.load(Ordering::Relaxed);
            self.largest_value_bytes.store(largest / 2, Ordering::Relaxed);
            self.flushing_bytes.store(self.unflushed_bytes.swap(0, Ordering::Relaxed), Ordering::Relaxed);
            (state, std::mem::take(&mut writer.pending_range_gc))
        };
        let flushed = self.wait_for_flush(failures);
        self.flushing_bytes.store(0, Ordering::Relaxed);
        flushed?;
        self.lock_writer().trees.values().for_each(|tree| tree.flushed());
        Ok((state, pending_range_gc))
    }

    pub(crate) fn wait_for_log(&self, position: Position) -> Result<()> {
        self.barrier.wait_for_log(position)
    }

    fn wait_for_flush(&self, failures: u64) -> Result<()> {
        let mut look_after = LOOK_EVERY_MIN;
        while self.db.property(SEALED_MEMTABLES) > 0 {
            if self.db.property(FAILURES) > failures {
                return Err(self.failed_flush());
            }
            std::thread::sleep(look_after);
            look_after = (look_after * 2).min(LOOK_EVERY_MAX);
        }
        Ok(())
    }

    /// RocksDB names the reason when it is written to.
    fn failed_flush(&self) -> Error {
        let mut writer = self.lock_writer();
        // Not flushed, so the next checkpoint must not pass it over.
        writer.dirty = true;
        let said = self.db.write(&WriteBatch::new()).err();
        let context = || "a flush failed; the file LOG in the engine's directory says why".to_owned();
        let error = said.unwrap_or_else(|| Error::Io { context: context(), source: std::io::Error::other("flush") });
        let error = self.judge(&mut writer, error);
        // If the log fails as well, it has poisoned all writing above the engine.
        let _ = self.wait_for_log(writer.state.applied);
        error
    }
}
