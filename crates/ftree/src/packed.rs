//! Small numbers in an array of equal widths: key lengths, value lengths, kinds, sequence numbers of a block.
//!
//! Stored form: base u64, width u8 (0 to 8 bytes), then each number less the base in that many bytes, little-endian. When
//! all numbers are equal the width is 0 and nothing follows.

use crate::{Error, Result};

/// Read in place; bytes beyond the numbers make every load one of 8 bytes.
#[derive(Clone)]
pub struct PackedInts {
    base: u64,
    width: u8,
    mask: u64,
    bytes: Box<[u8]>,
}

impl PackedInts {
    /// All numbers are `base`.
    pub fn all(base: u64) -> PackedInts {
        PackedInts { base, width: 0, mask: 0, bytes: Box::default() }
    }

    pub fn new(numbers: &[u64]) -> PackedInts {
        let (base, width) = base_and_width(numbers.iter().copied());
        if width == 0 {
            return PackedInts::all(base);
        }
        let mut bytes = Vec::with_capacity(numbers.len() * width + 8);
        put(numbers.iter().copied(), base, width, &mut bytes);
        PackedInts::of(base, width, bytes)
    }

    fn of(base: u64, width: usize, mut bytes: Vec<u8>) -> PackedInts {
        debug_assert!((1..=8).contains(&width) && bytes.len().is_multiple_of(width), "numbers of {width} bytes");
        bytes.resize(bytes.len() + 8, 0);
        PackedInts { base, width: width as u8, mask: u64::MAX >> (64 - 8 * width as u32), bytes: bytes.into() }
    }

    /// The number at `index`, which must be below the count that it was made of; else any number.
    #[inline]
    pub fn get(&self, index: usize) -> u64 {
        if self.width == 0 {
            return self.base;
        }
        let rest = self.bytes.get(index * usize::from(self.width)..).and_then(|rest| rest.first_chunk::<8>());
        self.base.wrapping_add(rest.map_or(0, |bytes| u64::from_le_bytes(*bytes) & self.mask))
    }

    /// The number that all are.
    pub fn same(&self) -> Option<u64> {
        (self.width == 0).then_some(self.base)
    }

    pub fn memory_bytes(&self) -> usize {
        crate::cache::heap_bytes(self.bytes.len())
    }

    /// Takes the array of `count` numbers off the front of `input`.
    pub fn decode(input: &mut &[u8], count: usize) -> Result<PackedInts> {
        let take = |input: &mut &[u8]| -> Option<PackedInts> {
            let base = u64::from_le_bytes(*input.split_off(..8)?.first_chunk()?);
            let width = usize::from(*input.split_off_first()?);
            let bytes = input.split_off(..count.checked_mul(width)?)?;
            match width {
                0 => Some(PackedInts::all(base)),
                1..=8 => Some(PackedInts::of(base, width, bytes.to_vec())),
                _ => None,
            }
        };
        take(input).ok_or_else(|| Error::Corrupt { place: String::new(), context: "a packed array".to_owned() })
    }
}

fn base_and_width(numbers: impl Iterator<Item = u64>) -> (u64, usize) {
    let (least, greatest) = numbers.fold((u64::MAX, 0), |(least, greatest), n| (n.min(least), n.max(greatest)));
    let spread = greatest.saturating_sub(least);
    (least, (64 - spread.leading_zeros()).div_ceil(8) as usize)
}

fn put(numbers: impl Iterator<Item = u64>, base: u64, width: usize, out: &mut Vec<u8>) {
    for number in numbers {
        if let Some(bytes) = number.wrapping_sub(base).to_le_bytes().get(..width) {
            out.extend_from_slice(bytes);
        }
    }
}

/// Appends the stored form.
pub fn encode(numbers: impl Iterator<Item = u64> + Clone, out: &mut Vec<u8>) {
    let (base, width) = base_and_width(numbers.clone());
    out.extend_from_slice(&base.to_le_bytes());
    out.push(width as u8);
    if width > 0 {
        put(numbers, base, width, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(numbers: &[u64], bytes: usize) {
        let mut stored = Vec::new();
        encode(numbers.iter().copied(), &mut stored);
        assert_eq!(stored.len(), bytes, "{numbers:?}");
        stored.extend_from_slice(b"rest");
        let mut input = stored.as_slice();
        let decoded = PackedInts::decode(&mut input, numbers.len()).unwrap();
        assert_eq!(input, b"rest");
        let built = PackedInts::new(numbers);
        for (at, &number) in numbers.iter().enumerate() {
            assert_eq!((decoded.get(at), built.get(at)), (number, number));
        }
        assert_eq!(decoded.same().is_some(), bytes == 9);
    }

    #[test]
    fn widths_follow_the_spread() {
        check(&[], 9);
        check(&[5, 5, 5], 9);
        check(&[300, 555, 301], 9 + 3);
        check(&[300, 556], 9 + 4);
        check(&[u64::MAX, 0, 77], 9 + 24);
        check(&[1 << 40, (1 << 40) + (1 << 20)], 9 + 6);
    }

    #[test]
    fn damage_is_an_error() {
        let mut stored = Vec::new();
        encode([1, 2, 3].into_iter(), &mut stored);
        for cut in 0..stored.len() {
            assert!(PackedInts::decode(&mut &stored[..cut], 3).is_err());
        }
        stored[8] = 9;
        assert!(PackedInts::decode(&mut stored.as_slice(), 0).is_err());
        assert!(PackedInts::decode(&mut [0, 0, 0, 0, 0, 0, 0, 0, 1, 1].as_slice(), usize::MAX).is_err());
    }
}
