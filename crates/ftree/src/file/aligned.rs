//! Memory whose address is a multiple of a unit, as direct I/O needs it.

use crate::space::UNIT;

/// Zeros at first.
pub(super) struct AlignedBuffer {
    memory: Vec<u8>,
    begin: usize,
    len: usize,
}

impl AlignedBuffer {
    pub(super) fn new(len: usize) -> AlignedBuffer {
        // More than is needed, so that an aligned part of it is long enough.
        let memory = vec![0; len + UNIT as usize];
        let begin = memory.as_ptr().align_offset(UNIT as usize);
        assert!(begin < UNIT as usize, "`align_offset` is below the alignment");
        AlignedBuffer { memory, begin, len }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.memory.get(self.begin..self.begin + self.len).expect("align_offset is below the alignment")
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        self.memory.get_mut(self.begin..self.begin + self.len).expect("align_offset is below the alignment")
    }
}
