//! Memory of reads and writes, aligned as direct I/O needs it.

use std::ops::{Deref, DerefMut, Range};

/// Address, offset and length of direct I/O are multiples of this.
pub const DIRECT_UNIT: usize = 4096;

/// Bytes of an allocation that may begin before them and end after them.
#[derive(Debug)]
pub struct Buffer {
    memory: Vec<u8>,
    begin: usize,
    len: usize,
}

impl Buffer {
    /// Makes a buffer of zeros whose address is a multiple of [`DIRECT_UNIT`].
    pub fn aligned(len: usize) -> Buffer {
        // more than is needed, so that an aligned part of it is long enough
        let memory = vec![0; len + DIRECT_UNIT];
        let begin = memory.as_ptr().align_offset(DIRECT_UNIT);
        assert!(begin < DIRECT_UNIT, "`align_offset` is below the alignment");
        Buffer { memory, begin, len }
    }

    /// Makes a buffer for a direct read of whole units around a range. Returns where they begin, the buffer, and the range in it.
    pub fn around(offset: u64, len: usize) -> (u64, Buffer, Range<usize>) {
        let skip = (offset % DIRECT_UNIT as u64) as usize;
        let whole = Buffer::aligned((skip + len).next_multiple_of(DIRECT_UNIT));
        (offset - skip as u64, whole, skip..skip + len)
    }

    /// Keeps a part of the bytes.
    ///
    /// Requires: `part` ends within the buffer.
    pub fn narrowed(mut self, part: Range<usize>) -> Buffer {
        assert!(part.start <= part.end && part.end <= self.len, "{part:?} of {} bytes", self.len);
        self.begin += part.start;
        self.len = part.len();
        self
    }
}

impl From<Vec<u8>> for Buffer {
    fn from(memory: Vec<u8>) -> Buffer {
        Buffer { begin: 0, len: memory.len(), memory }
    }
}

/// Takes the memory over: the bytes move to its beginning.
impl From<Buffer> for Vec<u8> {
    fn from(buffer: Buffer) -> Vec<u8> {
        let Buffer { mut memory, begin, len } = buffer;
        memory.truncate(begin + len);
        memory.drain(..begin);
        memory
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.memory.get(self.begin..self.begin + self.len).expect("the buffer is a part of its memory")
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.memory.get_mut(self.begin..self.begin + self.len).expect("the buffer is a part of its memory")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_buffer_becomes_a_vector() {
        let (begin, mut buffer, range) = Buffer::around(5000, 3000);
        assert_eq!((begin, buffer.len(), range.clone()), (4096, DIRECT_UNIT, 904..3904));
        buffer.iter_mut().enumerate().for_each(|(at, byte)| *byte = at as u8);
        let expected = buffer[range.clone()].to_vec();
        let part = buffer.narrowed(range);
        assert_eq!(part[..], expected);
        assert_eq!(Vec::from(part.narrowed(1..2999)), expected[1..2999]);
        assert_eq!(Vec::from(Buffer::from(vec![1, 2, 3])), [1, 2, 3]);
    }
}
