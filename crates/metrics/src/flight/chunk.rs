//! Samples of one structure, and their bytes.

use std::io::{Read, Write};

use arbor_bson::{Doc, DocBuf};
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;

use super::numbers::{same_structure, walk};

/// More samples are not put in a chunk.
pub const SAMPLES_MAX: usize = 10_000;
/// Limits of what is read: a chunk of the recorder is far smaller.
const BYTES_MAX: usize = 64 << 20;
const NUMBERS_MAX: usize = 1 << 24;

/// Samples of the same structure.
#[derive(Clone, Debug)]
pub struct Chunk {
    first: DocBuf,
    /// Per sample, its numbers.
    samples: Vec<Vec<u64>>,
}

impl Chunk {
    pub fn new(first: DocBuf) -> Chunk {
        let samples = vec![numbers(first.as_doc())];
        Chunk { first, samples }
    }

    /// Adds a sample; false if it has another structure, and belongs into the next chunk.
    pub fn push(&mut self, sample: &DocBuf) -> bool {
        if self.samples.len() >= SAMPLES_MAX || !same_structure(self.first.as_doc(), sample.as_doc()) {
            return false;
        }
        let numbers = numbers(sample.as_doc());
        assert!(self.samples.iter().all(|sample| sample.len() == numbers.len()), "one structure has one count");
        self.samples.push(numbers);
        true
    }

    pub fn len(&self) -> usize {
        self.samples.len()
    }

    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// Returns the first sample, with the texts that are not kept of the others.
    pub fn first(&self) -> Doc<'_> {
        self.first.as_doc()
    }

    /// Returns the names of the numbers, with points between their parts.
    pub fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        walk(self.first.as_doc(), &mut |place, _| names.push(place.path()));
        names
    }

    /// Returns a number at each sample; `at` counts in the order of `names`.
    pub fn series(&self, at: usize) -> impl Iterator<Item = i64> + '_ {
        self.samples.iter().map(move |sample| sample.get(at).copied().unwrap_or(0) as i64)
    }

    /// Returns the contents of `data`.
    pub(super) fn encode(&self) -> std::io::Result<Vec<u8>> {
        let count = self.samples.first().map_or(0, Vec::len);
        let mut plain = self.first.as_bytes().to_vec();
        plain.extend((count as u32).to_le_bytes());
        plain.extend((self.samples.len().saturating_sub(1) as u32).to_le_bytes());
        let mut zeros = 0u64;
        for at in 0..count {
            let number = |sample: &Vec<u64>| sample.get(at).copied().unwrap_or(0);
            let befores = self.samples.iter().map(number);
            for (before, now) in befores.zip(self.samples.iter().skip(1).map(number)) {
                match now.wrapping_sub(before) {
                    0 => zeros += 1,
                    delta => {
                        put_zeros(&mut plain, &mut zeros);
                        put(&mut plain, delta);
                    }
                }
            }
        }
        put_zeros(&mut plain, &mut zeros);
        let mut out = (plain.len() as u32).to_le_bytes().to_vec();
        let mut encoder = ZlibEncoder::new(&mut out, Compression::default());
        encoder.write_all(&plain)?;
        encoder.finish()?;
        Ok(out)
    }

    /// Reads what `encode` wrote. `None`: the bytes are damaged.
    pub(super) fn decode(data: &[u8]) -> Option<Chunk> {
        let (length, packed) = data.split_first_chunk::<4>()?;
        let length = u32::from_le_bytes(*length) as usize;
        if length > BYTES_MAX {
            return None;
        }
        let mut plain = Vec::new();
        ZlibDecoder::new(packed).take(length as u64 + 1).read_to_end(&mut plain).ok()?;
        if plain.len() != length {
            return None;
        }
        let size = u32::from_le_bytes(*plain.first_chunk::<4>()?) as usize;
        let first = Doc::parse(plain.get(..size)?).ok()?.to_buf();
        let (count, rest) = plain.get(size..)?.split_first_chunk::<4>()?;
        let (further, mut rest) = rest.split_first_chunk::<4>()?;
        let (count, further) = (u32::from_le_bytes(*count) as usize, u32::from_le_bytes(*further) as usize);
        let mut chunk = Chunk::new(first);
        let first = chunk.samples.first()?.clone();
        if first.len() != count || count.checked_mul(further)? > NUMBERS_MAX {
            return None;
        }
        chunk.samples.resize(further + 1, first);
        let mut zeros = 0u64;
        for at in 0..count {
            let mut before = *chunk.samples.first()?.get(at)?;
            for sample in chunk.samples.iter_mut().skip(1) {
                if zeros > 0 {
                    zeros -= 1;
                } else {
                    match take(&mut rest)? {
                        0 => zeros = take(&mut rest)?,
                        delta => before = before.wrapping_add(delta),
                    }
                }
                *sample.get_mut(at)? = before;
            }
        }
        (rest.is_empty() && zeros == 0).then_some(chunk)
    }
}

fn numbers(doc: Doc<'_>) -> Vec<u64> {
    let mut numbers = Vec::new();
    walk(doc, &mut |_, number| numbers.push(number));
    numbers
}

fn put_zeros(out: &mut Vec<u8>, zeros: &mut u64) {
    if *zeros > 0 {
        out.push(0);
        put(out, *zeros - 1);
        *zeros = 0;
    }
}

/// Appends a varint: seven bits per byte, the lowest first.
fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number as u8 & 0x7f) | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn take(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, left) = rest.split_first()?;
        *rest = left;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use arbor_bson::{ArrayBuf, ValueRef};

    use super::*;

    impl PartialEq for Chunk {
        fn eq(&self, other: &Chunk) -> bool {
            self.first.as_bytes() == other.first.as_bytes() && self.samples == other.samples
        }
    }

    fn sample(n: i64) -> DocBuf {
        let inner = DocBuf::new().with("up", n * 1000).with("same", 7i32).with("text", "x").with("down", -n);
        let mut list = ArrayBuf::new();
        list.push(n as f64 + 0.5).push(n % 2 == 0);
        let time = arbor_bson::Timestamp { seconds: n as u32, increment: 3 };
        DocBuf::new()
            .with("start", ValueRef::DateTime(n))
            .with("a", &inner)
            .with("list", &list)
            .with("t", ValueRef::Timestamp(time))
    }

    #[test]
    fn samples_are_read_as_they_were_written() {
        let mut chunk = Chunk::new(sample(5));
        for n in [6, 6, 6, 900, -40] {
            assert!(chunk.push(&sample(n)));
        }
        assert!(!chunk.push(&DocBuf::new().with("other", 1i32)), "another structure");
        assert!(!chunk.push(&sample(1).with("one", "more")));
        let data = chunk.encode().unwrap();
        let read = Chunk::decode(&data).unwrap();
        assert_eq!(read, chunk);
        assert_eq!(read.names(), ["start", "a.up", "a.same", "a.down", "list.0", "list.1", "t", "t.i"]);
        assert_eq!(read.series(1).collect::<Vec<_>>(), [5000, 6000, 6000, 6000, 900_000, -40_000]);
        assert_eq!(read.series(4).collect::<Vec<_>>(), [5, 6, 6, 6, 900, -39]);
        let one = Chunk::new(sample(1));
        assert_eq!(Chunk::decode(&one.encode().unwrap()), Some(one));
    }

    #[test]
    fn damage_is_found() {
        let mut chunk = Chunk::new(sample(5));
        (6..60).for_each(|n| assert!(chunk.push(&sample(n))));
        let data = chunk.encode().unwrap();
        for end in 0..data.len() {
            assert_eq!(Chunk::decode(&data[..end]), None, "cut at {end}");
        }
        for at in 0..data.len() {
            let mut flipped = data.clone();
            flipped[at] ^= 0x10;
            // the second byte of zlib's head has bits of no meaning for the contents
            assert!(Chunk::decode(&flipped).is_none_or(|read| read == chunk), "a bit of byte {at}");
        }
    }

    #[test]
    fn varints_have_ends() {
        for number in [0, 1, 127, 128, 300, u64::MAX] {
            let mut bytes = Vec::new();
            put(&mut bytes, number);
            assert_eq!(take(&mut &*bytes), Some(number));
        }
        assert_eq!(take(&mut &[0x80u8; 12][..]), None);
    }
}
