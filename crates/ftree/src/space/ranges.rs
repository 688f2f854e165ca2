//! A set of bytes of the file, as ranges that neither overlap nor touch.

use std::collections::BTreeMap;
use std::ops::Bound;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Range {
    pub offset: u64,
    pub bytes: u64,
}

impl Range {
    pub(super) fn new(offset: u64, bytes: u64) -> Range {
        Range { offset, bytes }
    }

    pub(super) fn end(self) -> u64 {
        self.offset + self.bytes
    }
}

#[derive(Default)]
pub(super) struct Ranges {
    /// Offset to bytes.
    map: BTreeMap<u64, u64>,
    bytes: u64,
}

impl Ranges {
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn count(&self) -> usize {
        self.map.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Range> {
        self.map.iter().map(|(offset, bytes)| Range::new(*offset, *bytes))
    }

    /// The range that holds this byte, or the last one before it.
    pub(super) fn at_or_before(&self, offset: u64) -> Option<Range> {
        self.map.range(..=offset).next_back().map(|(offset, bytes)| Range::new(*offset, *bytes))
    }

    pub(super) fn last(&self) -> Option<Range> {
        self.map.last_key_value().map(|(offset, bytes)| Range::new(*offset, *bytes))
    }

    /// Returns true if all of it is in the set.
    pub(super) fn holds(&self, range: Range) -> bool {
        self.at_or_before(range.offset).is_some_and(|around| range.end() <= around.end())
    }

    /// Returns true if a part of it is in the set.
    pub(super) fn overlaps(&self, range: Range) -> bool {
        self.neighbours(range).iter().any(|near| near.offset < range.end() && range.offset < near.end())
    }

    /// The ranges that `range` touches or overlaps.
    pub(super) fn neighbours(&self, range: Range) -> Vec<Range> {
        let before = self.at_or_before(range.offset).filter(|before| before.end() >= range.offset);
        let after = self.map.range((Bound::Excluded(range.offset), Bound::Included(range.end())));
        before.into_iter().chain(after.map(|(offset, bytes)| Range::new(*offset, *bytes))).collect()
    }

    /// Adds bytes, joined with what they touch. Returns the joined range.
    pub(super) fn insert(&mut self, range: Range) -> Range {
        let mut joined = range;
        for near in self.neighbours(range) {
            self.drop_range(near);
            let end = joined.end().max(near.end());
            joined.offset = joined.offset.min(near.offset);
            joined.bytes = end - joined.offset;
        }
        self.put(joined);
        joined
    }

    /// Takes bytes out. Returns which of them were there.
    pub(super) fn remove(&mut self, range: Range) -> Vec<Range> {
        let mut removed = Vec::new();
        for near in self.neighbours(range) {
            let (from, to) = (near.offset.max(range.offset), near.end().min(range.end()));
            if from >= to {
                continue;
            }
            self.drop_range(near);
            self.put(Range::new(near.offset, from - near.offset));
            self.put(Range::new(to, near.end() - to));
            removed.push(Range::new(from, to - from));
        }
        removed
    }

    fn put(&mut self, range: Range) {
        if range.bytes > 0 {
            let before = self.map.insert(range.offset, range.bytes);
            debug_assert!(before.is_none(), "two ranges begin at {}", range.offset);
            self.bytes += range.bytes;
        }
    }

    fn drop_range(&mut self, range: Range) {
        if self.map.remove(&range.offset).is_some() {
            self.bytes -= range.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]
        #[test]
        fn a_set_of_bytes(steps in prop::collection::vec((any::<bool>(), 0u64..60, 1u64..12), 1..60)) {
            let (mut ranges, mut model) = (Ranges::default(), [false; 80]);
            for (add, offset, bytes) in steps {
                let range = Range::new(offset, bytes);
                let there = |model: &[bool]| model[offset as usize..range.end() as usize].iter().filter(|b| **b).count();
                prop_assert_eq!(ranges.holds(range), there(&model) as u64 == bytes);
                if add {
                    let joined = ranges.insert(range);
                    prop_assert!(joined.offset <= offset && range.end() <= joined.end());
                } else {
                    let removed: u64 = ranges.remove(range).iter().map(|range| range.bytes).sum();
                    prop_assert_eq!(removed, there(&model) as u64);
                }
                model[offset as usize..range.end() as usize].fill(add);
                let mut seen = [false; 80];
                let mut end = None;
                for range in ranges.iter() {
                    prop_assert!(end.is_none_or(|end| end < range.offset), "ranges touch");
                    end = Some(range.end());
                    seen[range.offset as usize..range.end() as usize].fill(true);
                }
                prop_assert_eq!(seen, model);
                prop_assert_eq!(ranges.bytes(), model.iter().filter(|b| **b).count() as u64);
            }
        }
    }
}
