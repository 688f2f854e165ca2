//! The header in front of every message.
//!
//! | offset | size | what |
//! |---|---|---|
//! | 0 | 4 | messageLength, i32 little-endian, counts the header itself |
//! | 4 | 4 | requestID |
//! | 8 | 4 | responseTo: the requestID this message answers |
//! | 12 | 4 | opCode |

use crate::Fault;

/// The largest message that is read or written, header included (MongoDB's MaxMessageSizeBytes).
pub const MESSAGE_BYTES_MAX: usize = 48_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes of the whole message; within `Header::LEN..=MESSAGE_BYTES_MAX`.
    pub length: usize,
    pub request_id: i32,
    pub response_to: i32,
    pub opcode: i32,
}

impl Header {
    pub const LEN: usize = 16;

    /// Reads the header at the start of `bytes`. Errors: fewer than 16 bytes, or a length out of range.
    pub fn parse(bytes: &[u8]) -> Result<Header, Fault> {
        let fields: &[u8; Header::LEN] = bytes.first_chunk().ok_or(Fault::Incomplete)?;
        let ([length, request_id, response_to, opcode], _) = fields.as_chunks::<4>() else {
            return Err(Fault::Incomplete);
        };
        Ok(Header {
            length: checked_length(*length)?,
            request_id: i32::from_le_bytes(*request_id),
            response_to: i32::from_le_bytes(*response_to),
            opcode: i32::from_le_bytes(*opcode),
        })
    }

    pub fn to_bytes(self) -> [u8; Header::LEN] {
        let mut bytes = [0; Header::LEN];
        let fields = [self.length as i32, self.request_id, self.response_to, self.opcode];
        for (place, field) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(fields) {
            *place = field.to_le_bytes();
        }
        bytes
    }
}

/// Length of the frame that starts at `bytes`; `None` while fewer than four bytes are there. A reader calls this first
/// and grows its buffer in steps while the bytes arrive: an announced length is not a reason to allocate it.
pub fn frame_length(bytes: &[u8]) -> Result<Option<usize>, Fault> {
    bytes.first_chunk::<4>().map(|length| checked_length(*length)).transpose()
}

fn checked_length(bytes: [u8; 4]) -> Result<usize, Fault> {
    let announced = i32::from_le_bytes(bytes);
    usize::try_from(announced)
        .ok()
        .filter(|length| (Header::LEN..=MESSAGE_BYTES_MAX).contains(length))
        .ok_or(Fault::Length { announced })
}

/// The opcodes Arbor knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Opcode {
    Reply = 1,
    Update = 2001,
    Insert = 2002,
    Query = 2004,
    GetMore = 2005,
    Delete = 2006,
    KillCursors = 2007,
    Compressed = 2012,
    Message = 2013,
}

impl Opcode {
    pub fn parse(number: i32) -> Option<Opcode> {
        use Opcode::*;
        [Reply, Update, Insert, Query, GetMore, Delete, KillCursors, Compressed, Message]
            .into_iter()
            .find(|opcode| *opcode as i32 == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_back() {
        let header = Header { length: 77, request_id: -3, response_to: i32::MAX, opcode: 2013 };
        assert_eq!(Header::parse(&header.to_bytes()).unwrap(), header);
    }

    #[test]
    fn lengths_out_of_range_are_refused() {
        let check = |announced: i32, accepted: bool| {
            assert_eq!(frame_length(&announced.to_le_bytes()).is_ok(), accepted, "{announced}");
        };
        for announced in [i32::MIN, -1, 0, 15, 48_000_001, i32::MAX] {
            check(announced, false);
        }
        for announced in [16, 48_000_000] {
            check(announced, true);
        }
        assert!(matches!(frame_length(&[1, 2, 3]), Ok(None)));
        assert!(matches!(Header::parse(&[16, 0, 0, 0, 1]), Err(Fault::Incomplete)));
    }
}
