//! The parts of one file that were punched out and not written since. They take no space.

use std::collections::BTreeMap;

#[derive(Clone, Debug, Default)]
pub(super) struct Holes {
    /// End by begin; they neither overlap nor touch.
    ranges: BTreeMap<u64, u64>,
}

impl Holes {
    pub(super) fn bytes(&self) -> u64 {
        self.ranges.iter().map(|(from, to)| to - from).sum()
    }

    pub(super) fn add(&mut self, from: u64, to: u64) {
        if from < to {
            self.fill(from, to);
            self.ranges.insert(from, to);
        }
    }

    /// Removes the holes in a range: it takes space again.
    pub(super) fn fill(&mut self, from: u64, to: u64) {
        let overlapping: Vec<(u64, u64)> =
            self.ranges.range(..to).rev().take_while(|(_, end)| **end > from).map(|(from, to)| (*from, *to)).collect();
        for (begin, end) in overlapping {
            self.ranges.remove(&begin);
            if begin < from {
                self.ranges.insert(begin, from);
            }
            if to < end {
                self.ranges.insert(to, end);
            }
        }
    }

    /// Returns the number of bytes from `offset` on that can be written with `free` bytes of space, if a hole limits it; else the
    /// bytes of the holes behind `offset`.
    pub(super) fn room(&self, offset: u64, free: u64) -> Result<u64, u64> {
        let mut taken = 0;
        for (from, to) in &self.ranges {
            let from = (*from).max(offset);
            let bytes = to.saturating_sub(from);
            if taken + bytes > free {
                return Ok(from - offset + (free - taken));
            }
            taken += bytes;
        }
        Err(taken)
    }
}
