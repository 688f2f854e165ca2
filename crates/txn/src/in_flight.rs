//! Commits that the log holds and the engine does not: because the set has not committed them yet, or because there was no space.

use std::collections::VecDeque;

use arbor_base::Position;
use arbor_engine::{Batch, Op};

use crate::Options;

/// Bytes of operations that may be in flight before further commits wait.
const IN_FLIGHT_BYTES_MAX: usize = 64 << 20;

/// Batches of the log that are not applied, in order.
#[derive(Default)]
pub(crate) struct InFlight {
    batches: VecDeque<Batch>,
    facts: VecDeque<Fact>,
    bytes: usize,
    ops: usize,
}

/// Properties of a batch in flight: its times, and its size.
struct Fact {
    time: u64,
    last_time: u64,
    bytes: usize,
}

impl InFlight {
    pub(crate) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    pub(crate) fn first(&self) -> Option<Position> {
        self.batches.front().map(|batch| batch.position)
    }

    /// Adds a batch whose notes have the times from `time` to `last_time`.
    pub(crate) fn push(&mut self, batch: Batch, time: u64, last_time: u64) {
        let before = self.batches.back().map(|last| last.position);
        assert!(before.is_none_or(|before| before < batch.position), "batches are applied in the order of the log");
        assert!(time <= last_time, "notes from {time} to {last_time}");
        let before = self.facts.back().map_or(0, |last| last.time);
        assert!(before <= time, "a batch of {time} after one of {before}: `last_at` searches by time");
        let bytes = batch.ops.iter().map(Op::bytes).sum();
        self.bytes += bytes;
        self.ops += batch.ops.len();
        self.batches.push_back(batch);
        self.facts.push_back(Fact { time, last_time, bytes });
    }

    /// Checks that the sums are those of the batches, which are in order.
    pub(crate) fn validate(&self) {
        assert_eq!(self.batches.len(), self.facts.len(), "a batch has its facts");
        assert!(self.batches.iter().is_sorted_by(|one, next| one.position < next.position), "in the order of the log");
        assert_eq!(self.bytes, self.facts.iter().map(|fact| fact.bytes).sum::<usize>(), "bytes in flight");
        assert_eq!(self.ops, self.batches.iter().map(|batch| batch.ops.len()).sum::<usize>(), "operations in flight");
    }

    /// Returns true if further commits are to wait. The conflict table remembers all keys in flight.
    pub(crate) fn is_full(&self, options: &Options) -> bool {
        self.bytes >= IN_FLIGHT_BYTES_MAX || self.ops >= options.conflict_keys_max / 2
    }

    /// The batches up to a position.
    pub(crate) fn until(&mut self, limit: Position) -> &[Batch] {
        let count = self.batches.partition_point(|batch| batch.position <= limit);
        self.batches.make_contiguous().split_at(count).0
    }

    /// Takes out the batches up to a position; returns the last of them and the time of its last note.
    pub(crate) fn remove_until(&mut self, limit: Position) -> Option<(Position, u64)> {
        let mut last = None;
        while self.batches.front().is_some_and(|batch| batch.position <= limit) {
            let (batch, fact) = (self.batches.pop_front(), self.facts.pop_front());
            let (Some(batch), Some(fact)) = (batch, fact) else { unreachable!("a batch has its facts") };
            self.ops -= batch.ops.len();
            self.bytes -= fact.bytes;
            last = Some((batch.position, fact.last_time));
        }
        let is_counted = !self.batches.is_empty() || (self.bytes, self.ops) == (0, 0);
        assert!(is_counted, "{} bytes and {} operations of no batch are in flight", self.bytes, self.ops);
        last
    }

    /// The last batch with a note of this time or an earlier one.
    pub(crate) fn last_at(&self, time: u64) -> Option<Position> {
        let behind = self.facts.partition_point(|fact| fact.time <= time);
        behind.checked_sub(1).and_then(|at| self.batches.get(at)).map(|batch| batch.position)
    }
}
