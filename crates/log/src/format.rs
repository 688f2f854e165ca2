//! Byte layout of the log. All numbers are little-endian; checksums are CRC-32C.
//!
//! A segment is a file `{sequence:012}.log`: a header and records without gaps. Sequence numbers are consecutive.
//!
//! | offset | size | segment header |
//! |---|---|---|
//! | 0 | 8 | magic `ARBORLOG` |
//! | 8 | 4 | format version (2) |
//! | 12 | 4 | salt: random, start value of the header checksums of this segment's records |
//! | 16 | 8 | sequence number |
//! | 24 | 8 | floor: last position when the segment was created; all its records lie behind it |
//! | 32 | 8 | epoch of the segment's records; 1 in version 1, which has zeros here |
//! | 40 | 8 | epoch of the record before the segment's first one; 0 if there was none. 1 in version 1 |
//! | 48 | 12 | zero |
//! | 60 | 4 | checksum of bytes 0..60 |
//!
//! | offset | size | record |
//! |---|---|---|
//! | 0 | 4 | header checksum: over bytes 4..28, started from the salt |
//! | 4 | 4 | payload checksum |
//! | 8 | 4 | header checksum of the record before (also across segments; 0 for the first record ever) |
//! | 12 | 4 | bits 0..28 payload length, bits 28..32 kind: 1 data, 2 mark |
//! | 16 | 8 | position |
//! | 24 | 4 | lag: this position minus the last position known durable when the record was written; `u32::MAX`: unknown |
//! | 28 | .. | payload |
//!
//! A mark has no payload and repeats the position of the record before it; a clean close ends the log with one.
//!
//! **Invariants**
//! - L1: a record is valid only in sequence: header and payload agree with their checksums, its position follows the
//!   record before, and it names that record's checksum. Stale bytes never fit: the salt and the chain differ.
//! - L2: a segment file has its final name only after its header is durable, and gets records only after its name is.
//!   The next segment is created ahead, so the log may end with an empty one.
//! - L3: when the first record of segment n+2 is written, all of segment n is durable. Only the last two segments that
//!   hold records can have lost writes in a crash.
//! - L4: the lag never claims too much: `position - lag` was durable when the record was written. Hence a record whose
//!   claim reaches a bad place proves that the bad place was durable, and the log is damaged, not torn.
//! - L5: segments are removed from the oldest on, each removal durable before the next; a gap is damage.
//! - L6: a segment is trimmed only when a later one holds a durable record, so positions are never given twice in one
//!   epoch: only `cut_behind` and `reset` take positions back.
//! - L7: epochs do not fall from segment to segment, and a new one begins with a new segment. So `(epoch, position)` names a
//!   record in all copies of a log, and what was cut off differs in its salt from what is written in its place.

use arbor_base::{Fields, paranoid};

pub(crate) const MAGIC: [u8; 8] = *b"ARBORLOG";
pub(crate) const VERSION: u32 = 2;

/// Epoch of logs that know of none: of version 1, and of new ones.
pub(crate) const FIRST_EPOCH: u64 = 1;
pub(crate) const SEGMENT_HEADER_BYTES: usize = 64;
pub(crate) const RECORD_HEADER_BYTES: usize = 28;

/// Largest payload of one record.
pub const PAYLOAD_BYTES_MAX: usize = 64 << 20;

/// Positions fit a signed 64-bit number, as the layers above store them.
pub(crate) const POSITION_MAX: u64 = i64::MAX as u64;

const LENGTH_BITS: u32 = 28;
const LENGTH_MASK: u32 = (1 << LENGTH_BITS) - 1;
const LAG_UNKNOWN: u32 = u32::MAX;

const _: () = assert!(PAYLOAD_BYTES_MAX <= LENGTH_MASK as usize);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub salt: u32,
    pub sequence: u64,
    pub floor: u64,
    pub epoch: u64,
    /// Epoch of the record before the first one of the segment; 0: there was none.
    pub epoch_before: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderFault {
    Invalid(&'static str),
    Newer(u32),
}

impl SegmentHeader {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(SEGMENT_HEADER_BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&self.salt.to_le_bytes());
        bytes.extend_from_slice(&self.sequence.to_le_bytes());
        bytes.extend_from_slice(&self.floor.to_le_bytes());
        bytes.extend_from_slice(&self.epoch.to_le_bytes());
        bytes.extend_from_slice(&self.epoch_before.to_le_bytes());
        bytes.resize(SEGMENT_HEADER_BYTES - 4, 0);
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8; SEGMENT_HEADER_BYTES]) -> Result<SegmentHeader, HeaderFault> {
        let (covered, checksum) = bytes.split_last_chunk::<4>().ok_or(HeaderFault::Invalid("short header"))?;
        let short = HeaderFault::Invalid("short header");
        let mut fields = Fields::new(covered);
        let magic = fields.array().ok_or(short)?;
        let version = fields.u32().ok_or(short)?;
        if magic != MAGIC {
            return Err(HeaderFault::Invalid("not a log segment"));
        }
        if version > VERSION {
            return Err(HeaderFault::Newer(version));
        }
        if crc32c::crc32c(covered) != u32::from_le_bytes(*checksum) {
            return Err(HeaderFault::Invalid("segment header checksum"));
        }
        let header = SegmentHeader::fields(&mut fields, version).ok_or(short)?;
        if header.floor >= POSITION_MAX {
            return Err(HeaderFault::Invalid("floor out of range"));
        }
        if header.epoch_before > header.epoch {
            return Err(HeaderFault::Invalid("epoch before the segment is later than its own"));
        }
        Ok(header)
    }

    fn fields(fields: &mut Fields<'_>, version: u32) -> Option<SegmentHeader> {
        let (salt, sequence, floor) = (fields.u32()?, fields.u64()?, fields.u64()?);
        let epochs = (fields.u64()?, fields.u64()?);
        let (epoch, epoch_before) = if version == 1 { (FIRST_EPOCH, FIRST_EPOCH) } else { epochs };
        Some(SegmentHeader { salt, sequence, floor, epoch, epoch_before })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Data,
    Mark,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    pub kind: Kind,
    pub position: u64,
    /// Last position known durable when this was written, when known.
    pub durable: Option<u64>,
    pub previous: u32,
    pub payload_checksum: u32,
    pub length: usize,
}

impl RecordHeader {
    pub(crate) fn new(kind: Kind, position: u64, durable: u64, previous: u32, payload: &[u8]) -> RecordHeader {
        let payload_checksum = crc32c::crc32c(payload);
        RecordHeader { kind, position, durable: Some(durable), previous, payload_checksum, length: payload.len() }
    }

    /// Appends the encoded header and returns its checksum.
    pub(crate) fn encode(&self, salt: u32, to: &mut Vec<u8>) -> u32 {
        let kind: u32 = match self.kind {
            Kind::Data => 1,
            Kind::Mark => 2,
        };
        let lag = self.durable.and_then(|durable| self.position.checked_sub(durable));
        let lag = lag.and_then(|lag| u32::try_from(lag).ok()).unwrap_or(LAG_UNKNOWN);
        let mut covered = [0; RECORD_HEADER_BYTES - 4];
        let fields = [
            u64::from(self.payload_checksum) | u64::from(self.previous) << 32,
            u64::from(self.length as u32 | kind << LENGTH_BITS) | (self.position << 32),
            (self.position >> 32) | u64::from(lag) << 32,
        ];
        for (place, field) in covered.chunks_exact_mut(8).zip(fields) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        let checksum = crc32c::crc32c_append(salt, &covered);
        to.extend_from_slice(&checksum.to_le_bytes());
        to.extend_from_slice(&covered);
        paranoid!(self.is_read_from(to, salt), "a record header reads as it was written: {self:?}");
        checksum
    }

    /// Returns true if the encoded header at the end is this one. The lag may not fit.
    fn is_read_from(&self, encoded: &[u8], salt: u32) -> bool {
        let read = encoded.last_chunk().and_then(|bytes| RecordHeader::decode(bytes, salt));
        read.is_some_and(|(read, _)| RecordHeader { durable: self.durable, ..read } == *self)
    }

    /// The header and its checksum, when the bytes are a header of a segment with this salt.
    pub(crate) fn decode(bytes: &[u8; RECORD_HEADER_BYTES], salt: u32) -> Option<(RecordHeader, u32)> {
        let (checksum, covered) = bytes.split_first_chunk::<4>()?;
        let checksum = u32::from_le_bytes(*checksum);
        if crc32c::crc32c_append(salt, covered) != checksum {
            return None;
        }
        let mut fields = Fields::new(covered);
        let (payload_checksum, previous, packed) = (fields.u32()?, fields.u32()?, fields.u32()?);
        let (position, lag) = (fields.u64()?, fields.u32()?);
        let kind = match packed >> LENGTH_BITS {
            1 => Kind::Data,
            2 => Kind::Mark,
            _ => return None,
        };
        let length = (packed & LENGTH_MASK) as usize;
        let durable = if lag == LAG_UNKNOWN { None } else { Some(position.checked_sub(lag.into())?) };
        let header = RecordHeader { kind, position, durable, previous, payload_checksum, length };
        (length <= PAYLOAD_BYTES_MAX && position <= POSITION_MAX).then_some((header, checksum))
    }
}

/// Position in the bytes of a would-be record header, without any check: a cheap first look for the evidence search.
pub(crate) fn position_unchecked(bytes: &[u8; RECORD_HEADER_BYTES]) -> u64 {
    let mut fields = Fields::new(bytes);
    fields.bytes(16);
    fields.u64().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segment_headers_come_back_and_every_flipped_bit_is_noticed() {
        let header = SegmentHeader { salt: 0xDEAD_BEEF, sequence: 7, floor: 1 << 40, epoch: 9, epoch_before: 8 };
        let bytes: [u8; SEGMENT_HEADER_BYTES] = header.encode().try_into().unwrap();
        assert_eq!(SegmentHeader::decode(&bytes), Ok(header));
        for bit in 0..SEGMENT_HEADER_BYTES * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(SegmentHeader::decode(&damaged).is_err(), "bit {bit}");
        }
        let mut newer = bytes;
        newer[8] = 3;
        assert_eq!(SegmentHeader::decode(&newer), Err(HeaderFault::Newer(3)));
    }

    #[test]
    fn segment_headers_of_version_1_are_of_the_first_epoch() {
        let header = SegmentHeader { salt: 5, sequence: 7, floor: 3, epoch: 0, epoch_before: 0 };
        let mut bytes = header.encode();
        bytes[8] = 1;
        let checksum = crc32c::crc32c(&bytes[..60]).to_le_bytes();
        bytes[60..].copy_from_slice(&checksum);
        let read = SegmentHeader::decode(&bytes.try_into().unwrap());
        assert_eq!(read, Ok(SegmentHeader { epoch: 1, epoch_before: 1, ..header }));
    }

    #[test]
    fn record_headers_are_laid_out_as_the_table_says() {
        let header = RecordHeader::new(Kind::Data, 0x1122_3344_5566_7788, 0x1122_3344_5566_7780, 0xA0B0_C0D0, b"abc");
        let mut bytes = Vec::new();
        let checksum = header.encode(5, &mut bytes);
        assert_eq!(bytes[0..4], checksum.to_le_bytes());
        assert_eq!(bytes[4..8], crc32c::crc32c(b"abc").to_le_bytes());
        assert_eq!(bytes[8..12], [0xD0, 0xC0, 0xB0, 0xA0]);
        assert_eq!(bytes[12..16], [3, 0, 0, 0x10]);
        assert_eq!(bytes[16..24], 0x1122_3344_5566_7788_u64.to_le_bytes());
        assert_eq!(bytes[24..28], [8, 0, 0, 0]);
        let bytes: [u8; RECORD_HEADER_BYTES] = bytes.try_into().unwrap();
        assert_eq!(RecordHeader::decode(&bytes, 5), Some((header, checksum)));
        assert_eq!(RecordHeader::decode(&bytes, 6), None, "the salt of another segment");
        assert_eq!(position_unchecked(&bytes), header.position);
        for bit in 0..RECORD_HEADER_BYTES * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(RecordHeader::decode(&damaged, 5), None, "bit {bit}");
        }
    }

    #[test]
    fn a_lag_that_does_not_fit_claims_nothing() {
        let check = |position, durable, expect| {
            let mut bytes = Vec::new();
            RecordHeader::new(Kind::Mark, position, durable, 0, b"").encode(0, &mut bytes);
            let (header, _) = RecordHeader::decode(&bytes.try_into().unwrap(), 0).unwrap();
            assert_eq!(header.durable, expect);
        };
        check(1 << 40, 1 << 40, Some(1 << 40));
        check(1 << 40, 0, None);
        check(u64::from(u32::MAX), 0, None);
        check(u64::from(u32::MAX) - 1, 0, Some(0));
    }

    #[test]
    fn zeros_are_no_record() {
        assert_eq!(RecordHeader::decode(&[0; RECORD_HEADER_BYTES], 0), None);
    }
}
