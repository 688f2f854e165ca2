//! Says of most keys that are not there that they are not there.
//!
//! A Bloom filter in lines of 64 bytes: one key touches one line, so a probe costs one cache miss. At 10 bits per key
//! about one absent key in 90 passes.

use arbor_base::paranoid;

use crate::{Error, Result};

const LINE_BYTES: usize = 64;
const BITS_PER_KEY: usize = 10;
const PROBES: u32 = 6;
const _: () = assert!(9 * PROBES <= u64::BITS - 10, "the mixed hash has nine bits for each probe");

/// Hashes a key for filters. Computed once per operation and handed down.
pub fn hash(key: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(key)
}

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([u64; 8]);

pub struct Filter {
    lines: Box<[Line]>,
}

/// Which line of `lines` a key has.
#[inline]
fn line_of(hash: u64, lines: usize) -> usize {
    (((hash >> 32) * lines as u64) >> 32) as usize
}

/// Six bits of the 512, nine bits of the mixed hash each.
#[inline]
fn bits_of(hash: u64) -> impl Iterator<Item = (usize, u64)> {
    let mixed = hash.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 10;
    (0..PROBES).map(move |probe| {
        let bit = mixed >> (9 * probe);
        ((bit >> 6) as usize & 7, 1u64 << (bit & 63))
    })
}

impl Filter {
    #[inline]
    pub fn may_contain(&self, hash: u64) -> bool {
        let Some(Line(line)) = self.lines.get(line_of(hash, self.lines.len())) else { return true };
        bits_of(hash).fold(true, |all, (word, bit)| all & line.get(word & 7).is_some_and(|word| word & bit != 0))
    }

    pub fn memory_bytes(&self) -> usize {
        self.lines.len() * LINE_BYTES
    }

    /// Appends the lines, words little-endian.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.reserve(self.memory_bytes());
        out.extend(self.lines.iter().flat_map(|line| line.0).flat_map(u64::to_le_bytes));
    }

    pub fn decode(bytes: &[u8]) -> Result<Filter> {
        let (lines, rest) = bytes.as_chunks::<LINE_BYTES>();
        if lines.is_empty() || !rest.is_empty() {
            let context = format!("a filter of {} bytes", bytes.len());
            return Err(Error::Corrupt { place: String::new(), context });
        }
        let line = |bytes: &[u8; LINE_BYTES]| {
            let mut line = Line([0; 8]);
            for (word, bytes) in line.0.iter_mut().zip(bytes.as_chunks::<8>().0) {
                *word = u64::from_le_bytes(*bytes);
            }
            line
        };
        Ok(Filter { lines: lines.iter().map(line).collect() })
    }
}

/// Collects the hashes first: the size of a filter follows from their number.
#[derive(Default)]
pub struct FilterBuilder {
    hashes: Vec<u64>,
}

impl FilterBuilder {
    #[inline]
    pub fn add(&mut self, hash: u64) {
        self.hashes.push(hash);
    }

    pub fn len(&self) -> usize {
        self.hashes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    pub fn memory_bytes(&self) -> usize {
        self.hashes.capacity() * size_of::<u64>()
    }

    pub fn finish(&self) -> Filter {
        let count = (self.hashes.len() * BITS_PER_KEY).div_ceil(8 * LINE_BYTES).max(1);
        let mut lines = vec![Line([0; 8]); count];
        for &hash in &self.hashes {
            if let Some(Line(line)) = lines.get_mut(line_of(hash, count)) {
                for (word, bit) in bits_of(hash) {
                    line.get_mut(word & 7).into_iter().for_each(|word| *word |= bit);
                }
            }
        }
        let filter = Filter { lines: lines.into() };
        paranoid!(self.hashes.iter().all(|hash| filter.may_contain(*hash)), "a filter denies no key that it has");
        filter
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_what_was_added_and_little_else() {
        let counts: &[u64] = if cfg!(miri) { &[1, 50] } else { &[1, 50, 1000, 8000] };
        for &count in counts {
            let mut builder = FilterBuilder::default();
            (0..count).for_each(|n| builder.add(hash(&n.to_be_bytes())));
            let built = builder.finish();
            assert!(built.memory_bytes() as u64 <= count * 10 / 8 + 64);
            let mut stored = Vec::new();
            built.encode(&mut stored);
            let filter = Filter::decode(&stored).unwrap();
            assert!((0..count).all(|n| filter.may_contain(hash(&n.to_be_bytes()))));
            let absent = if cfg!(miri) { 500 } else { 10_000 };
            let wrong = (count..count + absent).filter(|n| filter.may_contain(hash(&n.to_be_bytes()))).count();
            assert!(wrong < absent as usize / 40, "{wrong} of {absent} pass with {count} keys");
        }
    }

    #[test]
    fn other_lengths_are_damage() {
        assert!(Filter::decode(&[]).is_err());
        assert!(Filter::decode(&[0; 65]).is_err());
    }
}
