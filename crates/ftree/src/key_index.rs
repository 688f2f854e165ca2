//! Sorted keys to search in: first keys of a table's blocks, pivots of inner nodes, rows of a block.
//!
//! The common prefix of all keys is compared once; the next four bytes of every key, its *head*, are in an array of their
//! own. Counting the smaller heads of up to 64 keys is a handful of vector instructions over four cache lines that are
//! fetched at once, where a binary search would wait for one after the other. Whole keys are compared only where heads
//! are equal.

use crate::cache::heap_bytes;
use std::cmp::Ordering;

/// Heads in a row that are counted rather than searched.
const COUNTED: usize = 64;

/// The heads of sorted keys that are stored elsewhere.
pub struct Heads {
    /// Bytes that all keys have in common.
    prefix: usize,
    heads: Box<[u32]>,
}

#[inline]
fn head_of(key: &[u8], prefix: usize) -> u32 {
    let rest = key.get(prefix..).unwrap_or_default();
    match rest.first_chunk::<4>() {
        Some(bytes) => u32::from_be_bytes(*bytes),
        None => (0..4).fold(0, |head, at| head << 8 | u32::from(rest.get(at).copied().unwrap_or(0))),
    }
}

pub fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

impl Heads {
    /// `key(i)` for `i` below `len`: keys in order.
    pub fn new<'a>(len: usize, key: impl Fn(usize) -> &'a [u8]) -> Heads {
        if len == 0 {
            return Heads { prefix: 0, heads: Box::default() };
        }
        let prefix = common_prefix(key(0), key(len - 1));
        Heads { prefix, heads: (0..len).map(|at| head_of(key(at), prefix)).collect() }
    }

    pub fn memory_bytes(&self) -> usize {
        heap_bytes(self.heads.len() * 4)
    }

    /// Returns the number of keys less than `probe`, or less than or equal to it.
    #[inline]
    pub fn count<'a>(&self, probe: &[u8], or_equal: bool, key: impl Fn(usize) -> &'a [u8]) -> usize {
        let Some(prefix) = key(0).get(..self.prefix) else { return 0 };
        let shared = probe.len().min(prefix.len());
        match probe.get(..shared).cmp(&prefix.get(..shared)) {
            Ordering::Less => return 0,
            Ordering::Greater => return self.heads.len(),
            Ordering::Equal if shared < prefix.len() => return 0,
            Ordering::Equal => {}
        }
        debug_assert!(probe.starts_with(prefix), "what has another prefix is before or after all keys");
        let head = head_of(probe, self.prefix);
        let from = self.count_less(head);
        let to = match self.heads.get(from..) {
            Some([first, ..]) if *first != head => return from,
            Some([_, second, ..]) if *second == head => {
                head.checked_add(1).map_or(self.heads.len(), |next| self.count_less(next))
            }
            Some([_, ..]) => from + 1,
            _ => return from,
        };
        let is_before = |at: usize| match key(at).cmp(probe) {
            Ordering::Less => true,
            Ordering::Equal => or_equal,
            Ordering::Greater => false,
        };
        partition_point(from, to, is_before)
    }

    #[inline]
    fn count_less(&self, head: u32) -> usize {
        let (mut from, mut rest) = (0, &*self.heads);
        while rest.len() > COUNTED {
            let (left, right) = rest.split_at(rest.len() / 2);
            rest = match right.first() {
                Some(&first) if first < head => {
                    from += left.len();
                    right
                }
                _ => left,
            };
        }
        from + rest.iter().map(|&other| u32::from(other < head)).sum::<u32>() as usize
    }
}

#[inline]
fn partition_point(mut from: usize, mut to: usize, is_before: impl Fn(usize) -> bool) -> usize {
    while from < to {
        let middle = from + (to - from) / 2;
        if is_before(middle) { from = middle + 1 } else { to = middle }
    }
    from
}

/// Sorted keys. Immutable.
pub struct KeyIndex {
    heads: Heads,
    /// Offset of each key, and the end of the last one.
    starts: Box<[u32]>,
    bytes: Box<[u8]>,
}

impl KeyIndex {
    /// The keys come in order, less than 4 GiB in all.
    pub fn new<'a>(keys: impl Iterator<Item = &'a [u8]>) -> KeyIndex {
        let (mut starts, mut bytes) = (vec![0], Vec::new());
        for key in keys {
            bytes.extend_from_slice(key);
            starts.push(bytes.len() as u32);
        }
        assert!(bytes.len() <= u32::MAX as usize, "offsets of keys are 4 bytes: {}", bytes.len());
        let mut index =
            KeyIndex { heads: Heads { prefix: 0, heads: Box::default() }, starts: starts.into(), bytes: bytes.into() };
        index.heads = Heads::new(index.len(), |at| index.key(at));
        index
    }

    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Beyond the last one: the empty key.
    #[inline]
    pub fn key(&self, at: usize) -> &[u8] {
        match self.starts.get(at..) {
            Some(&[from, to, ..]) => self.bytes.get(from as usize..to as usize).unwrap_or_default(),
            _ => &[],
        }
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &[u8]> + ExactSizeIterator {
        (0..self.len()).map(|at| self.key(at))
    }

    /// Returns the number of keys that are `<= key`.
    #[inline]
    pub fn upper_bound(&self, key: &[u8]) -> usize {
        self.heads.count(key, true, |at| self.key(at))
    }

    /// Returns the number of keys that are `< key`.
    #[inline]
    pub fn lower_bound(&self, key: &[u8]) -> usize {
        self.heads.count(key, false, |at| self.key(at))
    }

    pub fn memory_bytes(&self) -> usize {
        self.heads.memory_bytes() + heap_bytes(self.starts.len() * 4) + heap_bytes(self.bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn check(keys: &[&str], probes: &[&str]) {
        let index = KeyIndex::new(keys.iter().map(|key| key.as_bytes()));
        assert_eq!(index.len(), keys.len());
        for probe in probes.iter().chain(keys) {
            let less = keys.iter().filter(|key| *key < probe).count();
            let less_or_equal = keys.iter().filter(|key| *key <= probe).count();
            assert_eq!(index.lower_bound(probe.as_bytes()), less, "{probe:?} in {keys:?}");
            assert_eq!(index.upper_bound(probe.as_bytes()), less_or_equal, "{probe:?} in {keys:?}");
        }
    }

    #[test]
    fn bounds() {
        let probes = ["", "\0", "a", "ab", "abc", "abcde", "abcdefgh", "b", "zz", "\u{7f}"];
        check(&[], &probes);
        check(&[""], &probes);
        check(&["", "a"], &probes);
        check(&["ab"], &probes);
        check(&["ab", "ab", "ab"], &probes);
        check(&["abcd", "abcde", "abcdee", "abcdef"], &probes);
        check(&["a", "a\0", "a\0\0", "a\0\0\0\0", "a\u{1}"], &["a\0\0\0", "a\0\0\0\0\0", "a\0\u{1}"]);
    }

    #[test]
    fn bounds_among_many() {
        let many = if cfg!(miri) { 140 } else { 1000 };
        let keys: Vec<String> = (0..many).map(|n| format!("key{:06}", n / 2 * 3)).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let probes: Vec<String> = (0..many / 10).map(|n| format!("key{:06}", n * 17)).collect();
        check(&keys, &probes.iter().map(String::as_str).collect::<Vec<_>>());
        let last = "\u{7f}\u{7f}\u{7f}\u{7f}";
        check(&["", last, last, last], &[last]);
    }

    proptest! {
        #[test]
        fn bounds_are_those_of_the_standard_library(
            mut keys in vec(vec(prop_oneof![Just(0u8), Just(97), any::<u8>()], 0..9), 0..if cfg!(miri) { 20 } else { 200 }), probes in vec(vec(any::<u8>(), 0..9), 0..9),
        ) {
            keys.sort();
            let index = KeyIndex::new(keys.iter().map(Vec::as_slice));
            for probe in probes.iter().chain(&keys) {
                prop_assert_eq!(index.lower_bound(probe), keys.partition_point(|key| key < probe));
                prop_assert_eq!(index.upper_bound(probe), keys.partition_point(|key| key <= probe));
            }
        }
    }
}
