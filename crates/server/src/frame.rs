//! The read buffer of one connection: bytes in, whole frames out.
//!
//! I1: `start <= bytes.len()`. Bytes before `start` were consumed.
//! I2: the buffer never holds more than what has arrived plus one read step, whatever length a header announces; beyond
//! [`FREE_BYTES`] it grows only to the length that it was allowed, for which its owner has reserved the memory.

use std::io::Read;
use std::os::fd::AsFd;

use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

/// Header of every frame: length, request id, response to, opcode; each an i32, little-endian.
pub(crate) const HEADER_BYTES: usize = 16;

/// Space of a connection that has only ever sent small requests.
const SMALL: usize = 1 << 10;

/// Memory that every connection may hold. A buffer that grew beyond this is released after the frame.
pub(crate) const FREE_BYTES: usize = 64 << 10;

/// Bytes that are taken from a reader at once: those of a record of TLS.
const DECRYPTED: usize = 16 << 10;

pub(crate) struct FrameBuffer {
    bytes: Vec<u8>,
    start: usize,
    /// Bytes that the buffer may hold now.
    allowed: usize,
}

/// Received part of the next frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Nothing,
    /// Some bytes; the length is 0 while not even that is known.
    Part {
        frame_bytes: usize,
    },
    Whole {
        frame_bytes: usize,
    },
    /// A length that no frame can have.
    Invalid {
        announced: i32,
    },
}

impl FrameBuffer {
    pub(crate) fn new() -> FrameBuffer {
        FrameBuffer { bytes: Vec::new(), start: 0, allowed: FREE_BYTES }
    }

    /// Returns true if nothing more can be received before [`FrameBuffer::allow`].
    pub(crate) fn is_full(&self) -> bool {
        self.unread().len() >= self.allowed
    }

    /// Lets a whole frame of this length in. The memory is taken at once: a large buffer that grows by steps is copied, and
    /// is there twice meanwhile.
    pub(crate) fn allow(&mut self, frame_bytes: usize) {
        self.compact();
        self.allowed = self.allowed.max(frame_bytes);
        self.bytes.reserve_exact(self.allowed - self.bytes.len());
    }

    pub(crate) fn progress(&self, frame_bytes_max: usize) -> Progress {
        let unread = self.unread();
        let Some(length) = unread.first_chunk::<4>().map(|bytes| i32::from_le_bytes(*bytes)) else {
            return if unread.is_empty() { Progress::Nothing } else { Progress::Part { frame_bytes: 0 } };
        };
        match usize::try_from(length) {
            Ok(n) if (HEADER_BYTES..=frame_bytes_max).contains(&n) => {
                if unread.len() >= n {
                    Progress::Whole { frame_bytes: n }
                } else {
                    Progress::Part { frame_bytes: n }
                }
            }
            _ => Progress::Invalid { announced: length },
        }
    }

    /// The first `frame_bytes` unread bytes.
    pub(crate) fn frame(&self, frame_bytes: usize) -> &[u8] {
        self.unread().get(..frame_bytes).unwrap_or_default()
    }

    /// Receives once. Returns the number of bytes (0: the peer closed) and whether more may be waiting.
    pub(crate) fn receive(&mut self, socket: impl AsFd) -> Result<(usize, bool), Errno> {
        self.make_room();
        let room = self.bytes.capacity() - self.bytes.len();
        let (n, _) = recv(socket, spare_capacity(&mut self.bytes), RecvFlags::empty())?;
        Ok((n, n == room))
    }

    /// Like [`FrameBuffer::receive`], from a reader; returns the number of bytes.
    pub(crate) fn receive_from(&mut self, reader: &mut impl Read) -> std::io::Result<usize> {
        self.make_room();
        let mut part = [0; DECRYPTED];
        let room = (self.bytes.capacity() - self.bytes.len()).min(DECRYPTED);
        let count = reader.read(part.get_mut(..room).unwrap_or_default())?;
        self.bytes.extend_from_slice(part.get(..count).unwrap_or_default());
        Ok(count)
    }

    /// Forgets the part that has arrived of a frame that is thrown away; returns the bytes of it that are still to come.
    pub(crate) fn discard(&mut self, frame_bytes: usize) -> usize {
        let there = self.unread().len().min(frame_bytes);
        self.consume(there);
        frame_bytes - there
    }

    /// Forgets a frame that was answered.
    pub(crate) fn consume(&mut self, frame_bytes: usize) {
        self.start = (self.start + frame_bytes).min(self.bytes.len());
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
            self.allowed = FREE_BYTES;
            if self.bytes.capacity() > FREE_BYTES {
                self.bytes = Vec::new();
            }
        }
    }

    /// Bytes for which memory has to be reserved.
    pub(crate) fn reserved_bytes(&self) -> usize {
        if self.bytes.capacity() > FREE_BYTES { self.bytes.capacity() } else { 0 }
    }

    pub(crate) fn unread(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }

    /// Ensures that the next receive has room (I2). Requires that the buffer is not full.
    fn make_room(&mut self) {
        self.compact();
        debug_assert!(self.bytes.len() < self.allowed, "I2");
        if self.bytes.len() == self.bytes.capacity() {
            let step = self.bytes.len().max(SMALL).min(self.allowed - self.bytes.len());
            self.bytes.reserve_exact(step);
        }
    }

    fn compact(&mut self) {
        if self.start > 0 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer(bytes: &[u8]) -> FrameBuffer {
        FrameBuffer { bytes: bytes.to_vec(), start: 0, allowed: FREE_BYTES }
    }

    fn frame(length: i32, there: usize) -> Vec<u8> {
        let mut bytes = length.to_le_bytes().to_vec();
        bytes.resize(there, 7);
        bytes
    }

    #[test]
    fn progress_of_every_kind() {
        let max = 1000;
        for (bytes, expect) in [
            (vec![], Progress::Nothing),
            (vec![20, 0], Progress::Part { frame_bytes: 0 }),
            (frame(20, 4), Progress::Part { frame_bytes: 20 }),
            (frame(20, 20), Progress::Whole { frame_bytes: 20 }),
            (frame(20, 25), Progress::Whole { frame_bytes: 20 }),
            (frame(1000, 1000), Progress::Whole { frame_bytes: 1000 }),
            (frame(1001, 16), Progress::Invalid { announced: 1001 }),
            (frame(15, 16), Progress::Invalid { announced: 15 }),
            (frame(-1, 16), Progress::Invalid { announced: -1 }),
        ] {
            assert_eq!(buffer(&bytes).progress(max), expect, "{bytes:?}");
        }
    }

    #[test]
    fn pipelined_frames_are_taken_one_by_one() {
        let mut both = frame(16, 16);
        both.extend(frame(18, 18));
        let mut buffer = buffer(&both);
        assert_eq!(buffer.frame(16).len(), 16);
        buffer.consume(16);
        assert_eq!(buffer.progress(100), Progress::Whole { frame_bytes: 18 });
        buffer.consume(18);
        assert_eq!(buffer.progress(100), Progress::Nothing);
    }

    #[test]
    fn space_follows_what_arrived_until_it_is_allowed() {
        let announced = 48_000_000;
        let mut buffer = buffer(&frame(announced, 1024));
        buffer.make_room();
        assert!(buffer.bytes.capacity() <= 4096);
        buffer.bytes.resize(40 << 10, 0);
        buffer.make_room();
        assert!(buffer.bytes.capacity() <= FREE_BYTES && !buffer.is_full());
        buffer.bytes.resize(FREE_BYTES, 0);
        assert_eq!((buffer.is_full(), buffer.reserved_bytes()), (true, 0));
        buffer.allow(announced as usize);
        assert_eq!((buffer.is_full(), buffer.reserved_bytes()), (false, announced as usize));
        buffer.bytes.resize(announced as usize, 0);
        buffer.consume(announced as usize);
        assert_eq!((buffer.bytes.capacity(), buffer.allowed), (0, FREE_BYTES));
    }
}
