//! Which keys a memtable may hold: one Bloom filter over all trees of a generation.
//!
//! A key has four bits in one word of 64, so asking takes one load and adding one atomic `or`. With about 20 bits a key
//! (see [`MemFilter::new`]) some 0.5 % of absent keys are taken for present ones; each costs a search, not an answer.
//! Bits are added before the batch becomes visible, which orders them before every reader that may see the entry; so
//! relaxed accesses do.

use std::sync::atomic::{AtomicU64, Ordering};

use arbor_base::TreeId;

pub(super) struct MemFilter {
    words: Box<[AtomicU64]>,
    /// Takes the word's number from the top bits of a mixed hash.
    shift: u32,
}

/// Odd, bits without a pattern (2^64 / golden ratio).
const MIX: u64 = 0x9E37_79B9_7F4A_7C15;

/// Number that a tree's hashes are mixed with.
#[derive(Clone, Copy)]
pub(super) struct Salt(u64);

impl Salt {
    pub(super) fn of(tree: TreeId) -> Salt {
        Salt(tree.0.wrapping_add(1).wrapping_mul(MIX).rotate_left(32).wrapping_mul(MIX))
    }
}

impl MemFilter {
    /// One byte per 64 of the memtable: 20 bits a key for rows of 120 bytes with 30 to 40 bytes around them, 8 for rows of
    /// nothing but a short key.
    pub(super) fn new(limit_bytes: u64) -> MemFilter {
        let words = (limit_bytes / 64 / 8).clamp(64, 1 << 20).next_power_of_two();
        MemFilter { words: (0..words).map(|_| AtomicU64::new(0)).collect(), shift: 64 - words.trailing_zeros() }
    }

    pub(super) fn bytes(&self) -> u64 {
        8 * self.words.len() as u64
    }

    pub(super) fn add(&self, hash: u64, salt: Salt) {
        let (word, bits) = self.place(hash, salt);
        if word.load(Ordering::Relaxed) & bits != bits {
            word.fetch_or(bits, Ordering::Relaxed);
        }
    }

    pub(super) fn may_contain(&self, hash: u64, salt: Salt) -> bool {
        let (word, bits) = self.place(hash, salt);
        word.load(Ordering::Relaxed) & bits == bits
    }

    fn place(&self, hash: u64, salt: Salt) -> (&AtomicU64, u64) {
        let mixed = (hash ^ salt.0).wrapping_mul(MIX);
        let word =
            self.words.get((mixed >> self.shift) as usize).expect("the shift leaves as many bits as there are words");
        let bits = [0, 6, 12, 18].iter().fold(0, |bits, at| bits | 1 << (mixed >> at & 63));
        (word, bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(i: u64) -> u64 {
        xxhash_rust::xxh3::xxh3_64(&i.to_be_bytes())
    }

    #[test]
    fn knows_what_was_added_and_little_else() {
        let filter = MemFilter::new(1 << 20);
        let salts = [Salt::of(TreeId(1)), Salt::of(TreeId(2))];
        let (rows, others) = if cfg!(miri) { (60, 200) } else { (6_000, 20_000) };
        (0..rows).for_each(|i| filter.add(hash(i), salts[0]));
        assert!((0..rows).all(|i| filter.may_contain(hash(i), salts[0])));
        let wrong = |salt, from: u64| (from..from + others).filter(|&i| filter.may_contain(hash(i), salt)).count();
        for (count, name) in
            [(wrong(salts[0], rows), "other keys"), (wrong(salts[1], 0), "the same keys of another tree")]
        {
            assert!(count <= others as usize / 100, "{count} of {others} {name} are taken for present");
        }
    }

    #[test]
    fn takes_any_size() {
        for limit in [0, 1, 5_000, if cfg!(miri) { 10_000 } else { u64::MAX }] {
            let filter = MemFilter::new(limit);
            let salt = Salt::of(TreeId(u64::MAX - 1));
            assert!(!filter.may_contain(u64::MAX, salt));
            filter.add(u64::MAX, salt);
            assert!(filter.may_contain(u64::MAX, salt) && filter.bytes() <= 8 << 20);
        }
    }
}
