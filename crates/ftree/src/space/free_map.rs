//! Free ranges, findable by size.
//!
//! Ranges of similar size share a class, four classes per doubling. A request searches the classes of up to twice its
//! size and takes the lowest address found, so that big ranges stay whole and the end of the file empties. When that
//! address is where the file would have ended long ago without its holes, the lowest range of any size is taken
//! instead.

use std::collections::BTreeSet;

use super::UNIT;
use super::ranges::{Range, Ranges};

/// Ranges of the request's own class may be too short: this many of them are checked.
const PROBES: usize = 8;

#[derive(Default)]
pub(super) struct FreeMap {
    ranges: Ranges,
    /// Offsets by class.
    classes: Vec<BTreeSet<u64>>,
}

impl FreeMap {
    pub(super) fn bytes(&self) -> u64 {
        self.ranges.bytes()
    }

    pub(super) fn last(&self) -> Option<Range> {
        self.ranges.last()
    }

    pub(super) fn holds(&self, range: Range) -> bool {
        self.ranges.holds(range)
    }

    pub(super) fn insert(&mut self, range: Range) {
        for near in self.ranges.neighbours(range) {
            self.unlist(near);
        }
        assert!(!self.ranges.overlaps(range), "S1: {range:?} was in use");
        let joined = self.ranges.insert(range);
        self.list(joined);
    }

    /// Takes a range out. False, and nothing done, when not all of it is free.
    pub(super) fn remove(&mut self, range: Range) -> bool {
        let around = self.ranges.at_or_before(range.offset).filter(|around| range.end() <= around.end());
        let Some(around) = around else { return false };
        self.unlist(around);
        self.ranges.remove(range);
        let rests = [
            Range::new(around.offset, range.offset - around.offset),
            Range::new(range.end(), around.end() - range.end()),
        ];
        rests.into_iter().filter(|rest| rest.bytes > 0).for_each(|rest| self.list(rest));
        true
    }

    /// A free range of exactly this size, at the begin of a longer one. See above for `low_end`.
    pub(super) fn find(&self, bytes: u64, low_end: u64) -> Option<Range> {
        let good = self.lowest(bytes, class_of(bytes), class_of(bytes * 2));
        let offset = match good.filter(|offset| *offset < low_end) {
            Some(offset) => Some(offset),
            None => self.lowest(bytes, class_of(bytes), usize::MAX),
        };
        offset.map(|offset| Range::new(offset, bytes))
    }

    /// A free range of exactly this size that ends at `limit` or before: a good fit, or at a low address.
    pub(super) fn find_below(&self, bytes: u64, limit: u64) -> Option<Range> {
        let range = |last: usize| Some(Range::new(self.lowest(bytes, class_of(bytes), last)?, bytes));
        let below = |range: &Range| range.end() <= limit;
        range(class_of(bytes * 2)).filter(below).or_else(|| range(usize::MAX).filter(below))
    }

    fn lowest(&self, bytes: u64, first: usize, last: usize) -> Option<u64> {
        let long_enough = |offset: &&u64| self.ranges.holds(Range::new(**offset, bytes));
        let own = self.classes.get(first).and_then(|class| class.iter().take(PROBES).find(long_enough));
        let above = self.classes.iter().skip(first + 1).take(last.saturating_sub(first)).filter_map(BTreeSet::first);
        own.into_iter().chain(above).min().copied()
    }

    fn list(&mut self, range: Range) {
        let class = class_of(range.bytes);
        if self.classes.len() <= class {
            self.classes.resize_with(class + 1, BTreeSet::new);
        }
        if let Some(class) = self.classes.get_mut(class) {
            let is_new = class.insert(range.offset);
            debug_assert!(is_new, "{range:?} is listed once");
        }
    }

    fn unlist(&mut self, range: Range) {
        if let Some(class) = self.classes.get_mut(class_of(range.bytes)) {
            let was_listed = class.remove(&range.offset);
            debug_assert!(was_listed, "{range:?} is listed");
        }
    }
}

/// Classes ascend with the size; a class holds sizes that differ by less than a quarter.
fn class_of(bytes: u64) -> usize {
    let units = (bytes / UNIT).max(1);
    let doubling = units.ilog2();
    let quarter = if doubling < 2 { units << (2 - doubling) } else { units >> (doubling - 2) } & 3;
    (u64::from(doubling) * 4 + quarter) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_ascend() {
        let classes: Vec<usize> = (1..5000).map(|units| class_of(units * UNIT)).collect();
        assert!(classes.is_sorted());
        assert_eq!(class_of(UNIT), 0);
        assert!(class_of(u64::MAX) < 256);
    }

    #[test]
    fn a_good_fit_at_a_low_address_is_taken() {
        let mut free = FreeMap::default();
        free.insert(Range::new(0, 100 * UNIT));
        free.insert(Range::new(200 * UNIT, 5 * UNIT));
        free.insert(Range::new(300 * UNIT, 4 * UNIT));
        let check = |bytes, low_end, expect| assert_eq!(free.find(bytes, low_end), expect);
        check(4 * UNIT, 1000 * UNIT, Some(Range::new(200 * UNIT, 4 * UNIT)));
        check(4 * UNIT, 200 * UNIT, Some(Range::new(0, 4 * UNIT)));
        check(20 * UNIT, 1000 * UNIT, Some(Range::new(0, 20 * UNIT)));
        check(101 * UNIT, 1000 * UNIT, None);
    }

    #[test]
    fn only_what_is_free_is_removed() {
        let mut free = FreeMap::default();
        free.insert(Range::new(10 * UNIT, 10 * UNIT));
        assert!(!free.remove(Range::new(9 * UNIT, 2 * UNIT)));
        assert!(!free.remove(Range::new(19 * UNIT, 2 * UNIT)));
        assert!(free.remove(Range::new(12 * UNIT, 2 * UNIT)));
        assert!(!free.remove(Range::new(12 * UNIT, UNIT)));
        assert_eq!(free.bytes(), 8 * UNIT);
        free.insert(Range::new(12 * UNIT, 2 * UNIT));
        assert_eq!(free.find(10 * UNIT, 0), Some(Range::new(10 * UNIT, 10 * UNIT)));
    }
}
