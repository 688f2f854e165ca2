//! Everything about space that one mutex guards.

use std::collections::VecDeque;

use arbor_base::sometimes;

use super::free_map::FreeMap;
use super::ranges::{Range, Ranges};
use super::{DATA_BEGIN, UNIT};

/// Entries of `freed` beyond twice the ranges before it is rebuilt.
const FREED_SLACK: usize = 1024;
/// Ranges that are looked at when only unpunched ones will do.
const PROBES: usize = 4096;
/// The most that is punched at once.
const PUNCH_MAX: u64 = 256 << 20;

pub(super) struct State {
    free: FreeMap,
    /// The free ranges that still have their blocks on the file system.
    unpunched: Ranges,
    /// Freed ranges, oldest first. Covers `unpunched`; may hold what was allocated or punched meanwhile.
    freed: VecDeque<Range>,
    /// Free, but taken out of `free` while it is being punched or cut.
    busy: u64,
    /// End of the file; the next growth begins here.
    end: u64,
}

impl State {
    /// All of the file is free, and all of it may have blocks.
    pub(super) fn new(file_bytes: u64) -> State {
        let end = file_bytes.next_multiple_of(UNIT).max(DATA_BEGIN);
        let (free, unpunched, freed) = (FreeMap::default(), Ranges::default(), VecDeque::new());
        let mut state = State { free, unpunched, freed, busy: 0, end };
        if end > DATA_BEGIN {
            state.put_back(Range::new(DATA_BEGIN, end - DATA_BEGIN), false);
        }
        state
    }

    pub(super) fn end(&self) -> u64 {
        self.end
    }

    pub(super) fn free_bytes(&self) -> u64 {
        debug_assert!(DATA_BEGIN + self.free.bytes() + self.busy <= self.end, "S2: what is free is in the file");
        self.free.bytes() + self.busy
    }

    pub(super) fn used_bytes(&self) -> u64 {
        self.end - DATA_BEGIN - self.free_bytes()
    }

    /// Returns the bytes that take blocks of the file system.
    pub(super) fn held_bytes(&self) -> u64 {
        self.used_bytes() + self.unpunched.bytes()
    }

    pub(super) fn find_below(&self, bytes: u64, limit: u64) -> Option<Range> {
        self.free.find_below(bytes, limit)
    }

    /// Takes a free range. `with_blocks`: only one that has its blocks.
    pub(super) fn take(&mut self, bytes: u64, with_blocks: bool) -> Option<Range> {
        let found = if with_blocks {
            let long_enough = self.unpunched.iter().take(PROBES).find(|range| range.bytes >= bytes);
            long_enough.map(|range| Range::new(range.offset, bytes))
        } else {
            self.free.find(bytes, DATA_BEGIN + self.used_bytes())
        };
        found.filter(|range| self.take_range(*range))
    }

    /// Takes this range; false when not all of it is free.
    pub(super) fn take_range(&mut self, range: Range) -> bool {
        let taken = self.free.remove(range);
        if taken {
            self.unpunched.remove(range);
        }
        taken
    }

    /// Takes a range at the end of the file, beginning in the free tail when there is one. Also returns by how much the
    /// file grew; `None` when the addresses do not suffice.
    pub(super) fn grow(&mut self, bytes: u64) -> Option<(Range, u64)> {
        let tail = self.tail();
        let begin = tail.map_or(self.end, |tail| tail.offset);
        let range = Range::new(begin, bytes);
        let end = begin.checked_add(bytes).filter(|end| i64::try_from(*end).is_ok())?.max(self.end);
        if let Some(tail) = tail {
            sometimes!("ftree: the file grows from its free tail");
            let taken = self.take_range(Range::new(begin, tail.bytes.min(bytes)));
            assert!(taken, "S1: the tail at {begin} is free");
        }
        let grown = end - self.end;
        self.end = end;
        Some((range, grown))
    }

    /// A range is free again.
    pub(super) fn put_back(&mut self, range: Range, punched: bool) {
        assert!(DATA_BEGIN <= range.offset && range.end() <= self.end, "S1: {range:?} is in the file");
        self.free.insert(range);
        if punched {
            return;
        }
        self.unpunched.insert(range);
        self.freed.push_back(range);
        if self.freed.len() > FREED_SLACK + 2 * self.unpunched.count() {
            self.freed = self.unpunched.iter().collect();
        }
    }

    /// Takes the oldest free ranges out to be punched, as many as leave `keep` bytes unpunched, at most `count`.
    pub(super) fn take_to_punch(&mut self, keep: u64, count: usize) -> Vec<Range> {
        let mut taken = Vec::new();
        while taken.len() < count && self.unpunched.bytes() > keep {
            let Some(oldest) = self.freed.pop_front() else { break };
            let excess = (self.unpunched.bytes() - keep).next_multiple_of(UNIT);
            let bytes = oldest.bytes.min(excess).min(PUNCH_MAX);
            if bytes < oldest.bytes {
                self.freed.push_front(Range::new(oldest.offset + bytes, oldest.bytes - bytes));
            }
            taken.extend(self.unpunched.remove(Range::new(oldest.offset, bytes)));
        }
        taken.iter().for_each(|range| self.make_busy(*range));
        taken
    }

    /// The free range at the end of the file.
    pub(super) fn tail(&self) -> Option<Range> {
        self.free.last().filter(|last| last.end() == self.end)
    }

    /// Takes the free range at the end out to be cut, when it is at least this long.
    pub(super) fn take_tail(&mut self, bytes_min: u64) -> Option<Range> {
        let tail = self.tail().filter(|tail| tail.bytes >= bytes_min)?;
        self.unpunched.remove(tail);
        self.make_busy(tail);
        Some(tail)
    }

    /// A range that was punched, or could not be.
    pub(super) fn end_busy(&mut self, range: Range, punched: bool) {
        assert!(range.bytes <= self.busy, "S3: {range:?} was taken out");
        self.busy -= range.bytes;
        self.put_back(range, punched);
    }

    /// The tail was cut off the file.
    pub(super) fn end_cut(&mut self, tail: Range) {
        assert!(tail.bytes <= self.busy && tail.end() == self.end, "S3: {tail:?} is the end of the file");
        self.busy -= tail.bytes;
        self.end = tail.offset;
    }

    fn make_busy(&mut self, range: Range) {
        let was_free = self.free.remove(range);
        assert!(was_free, "S3: {range:?} is free");
        self.busy += range.bytes;
    }

    /// Panics where the sums do not agree.
    pub(super) fn validate(&self) {
        assert!(self.unpunched.iter().all(|range| self.free.holds(range)), "unpunched is a part of free");
        let mut covered = Ranges::default();
        self.freed.iter().for_each(|range| {
            covered.insert(*range);
        });
        assert!(self.unpunched.iter().all(|range| covered.holds(range)), "freed covers unpunched");
        assert!(self.free.last().is_none_or(|last| last.end() <= self.end), "free is in the file");
        assert!(self.end >= DATA_BEGIN && self.end.is_multiple_of(UNIT), "the file ends at a unit: {}", self.end);
        assert!(self.free_bytes() <= self.end - DATA_BEGIN, "S2: free, busy and used parts make up the file");
    }
}
