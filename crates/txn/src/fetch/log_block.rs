//! A block of the log: consecutive records of one epoch on their way to an archive.
//!
//! | size | what |
//! |---|---|
//! | 4 | CRC-32C of the rest, little-endian; so are all numbers |
//! | 1 | 1 if a record refers to a [load](crate::record::Load), else 0 |
//! | 8 | epoch |
//! | 8 | position of the first record |
//! | 4 | number of records; may be 0 |
//! | 8 | time of the last note; without records a time that all later records are after |
//! | 4 | bytes of the records, uncompressed |
//! | ... | the records, compressed with zstd: of each a varint length and the payload |

use arbor_base::{Fields, Position};

use super::block::{BLOCK_BYTES, LEVEL, push_varint, varint};
use crate::chain;
use crate::record;

const CRC_BYTES: usize = 4;
const HEAD_BYTES: usize = 37;
/// A block with one record of the greatest length.
const RAW_BYTES_MAX: usize = BLOCK_BYTES + arbor_log::PAYLOAD_BYTES_MAX + 10;

/// The description of a block's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogBlockHead {
    pub has_loads: bool,
    pub epoch: u64,
    pub first: Position,
    pub count: u32,
    pub time: u64,
}

impl LogBlockHead {
    /// Bytes at the begin of a block that hold the head.
    pub const BYTES: usize = HEAD_BYTES;

    /// Returns the head of a block, whose checksum is not compared. `None`: it is too short or none.
    pub fn decode(block: &[u8]) -> Option<LogBlockHead> {
        let mut fields = Fields::new(block.get(CRC_BYTES..HEAD_BYTES)?);
        let has_loads = match fields.u8()? {
            0 => false,
            1 => true,
            _ => return None,
        };
        let (epoch, first) = (fields.u64()?, Position(fields.u64()?));
        let (count, time) = (fields.u32()?, fields.u64()?);
        first.0.checked_add(count.into())?;
        (first > Position::ZERO).then_some(LogBlockHead { has_loads, epoch, first, count, time })
    }

    /// The last position; the one before the first in a block without records.
    pub fn last(&self) -> Position {
        Position(self.first.0 + u64::from(self.count) - 1)
    }
}

/// The records of a block before it is compressed.
pub(super) struct LogBlockWriter {
    head: LogBlockHead,
    raw: Vec<u8>,
}

impl LogBlockWriter {
    /// `time`: that of the block as long as it has no records.
    pub(super) fn new(first: Position, epoch: u64, time: u64) -> LogBlockWriter {
        let head = LogBlockHead { has_loads: false, epoch, first, count: 0, time };
        LogBlockWriter { head, raw: Vec::new() }
    }

    pub(super) fn next(&self) -> Position {
        self.head.last().next()
    }

    pub(super) fn epoch(&self) -> u64 {
        self.head.epoch
    }

    /// Errors: the reason why the payload is no record.
    pub(super) fn push(&mut self, payload: &[u8]) -> Result<(), &'static str> {
        let (_, last_time) = chain::times_of(payload)?;
        self.head.time = if self.head.count == 0 { last_time } else { self.head.time.max(last_time) };
        self.head.has_loads |= record::refers_to_loads(payload);
        self.head.count += 1;
        push_varint(&mut self.raw, payload.len());
        self.raw.extend_from_slice(payload);
        Ok(())
    }

    pub(super) fn is_full(&self) -> bool {
        self.raw.len() >= BLOCK_BYTES
    }

    pub(super) fn finish(self) -> std::io::Result<Vec<u8>> {
        assert!(self.raw.len() <= RAW_BYTES_MAX, "a block of {} bytes", self.raw.len());
        let head = self.head;
        let mut out = vec![0; CRC_BYTES];
        out.push(u8::from(head.has_loads));
        out.extend(head.epoch.to_le_bytes());
        out.extend(head.first.0.to_le_bytes());
        out.extend(head.count.to_le_bytes());
        out.extend(head.time.to_le_bytes());
        out.extend((self.raw.len() as u32).to_le_bytes());
        assert_eq!(out.len(), HEAD_BYTES, "a head has its fields and nothing else");
        out.extend(zstd::bulk::compress(&self.raw, LEVEL)?);
        if let Some((crc, checked)) = out.split_first_chunk_mut::<CRC_BYTES>() {
            *crc = crc32c::crc32c(checked).to_le_bytes();
        }
        Ok(out)
    }
}

/// A received block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogBlock {
    pub head: LogBlockHead,
    payloads: Vec<Vec<u8>>,
}

impl LogBlock {
    /// Errors: the reason why the bytes are no block.
    pub fn decode(block: &[u8]) -> Result<LogBlock, &'static str> {
        let (crc, checked) = block.split_first_chunk::<CRC_BYTES>().ok_or("the block is cut short")?;
        if crc32c::crc32c(checked) != u32::from_le_bytes(*crc) {
            return Err("the checksum of the block does not match");
        }
        let head = LogBlockHead::decode(block).ok_or("the head of the block is not valid")?;
        let (_, rest) = block.split_at_checked(HEAD_BYTES - 4).ok_or("the block is cut short")?;
        let (raw_bytes, compressed) = rest.split_first_chunk::<4>().ok_or("the block is cut short")?;
        let raw_bytes = u32::from_le_bytes(*raw_bytes) as usize;
        if raw_bytes > RAW_BYTES_MAX {
            return Err("the head of the block is not valid");
        }
        let raw = zstd::bulk::decompress(compressed, raw_bytes).map_err(|_| "the block does not decompress")?;
        let (mut fields, mut payloads) = (Fields::new(&raw), Vec::new());
        while !fields.rest().is_empty() {
            let payload = varint(&mut fields).and_then(|length| fields.bytes(length));
            payloads.push(payload.ok_or("the block ends inside a record")?.to_vec());
        }
        match payloads.len() == head.count as usize && raw.len() == raw_bytes {
            true => Ok(LogBlock { head, payloads }),
            false => Err("the block has other records than its head says"),
        }
    }

    /// The records with their positions.
    pub fn records(&self) -> impl Iterator<Item = (Position, &[u8])> {
        let first = self.head.first.0;
        self.payloads.iter().zip(first..).map(|(payload, at)| (Position(at), payload.as_slice()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stamp;
    use crate::record::{Load, Record};

    fn block() -> (Vec<u8>, Vec<Vec<u8>>) {
        let record = |time: u64, loads: Vec<Load>| {
            let stamp = Stamp { time, wall: 5 };
            Record { stamp, logical: vec![7; time as usize * 50], loads, ..Record::default() }.encode()
        };
        let load = Load { tree: arbor_base::TreeId(9), rows: 1, checksum: 2 };
        let payloads = vec![record(3, vec![]), record(4, vec![load]), record(9, vec![])];
        let mut writer = LogBlockWriter::new(Position(41), 2, 0);
        payloads.iter().for_each(|payload| writer.push(payload).unwrap());
        assert_eq!(writer.next(), Position(44));
        (writer.finish().unwrap(), payloads)
    }

    #[test]
    fn records_come_back_and_damage_is_found() {
        let (bytes, payloads) = block();
        let decoded = LogBlock::decode(&bytes).unwrap();
        let head = LogBlockHead { has_loads: true, epoch: 2, first: Position(41), count: 3, time: 9 };
        assert_eq!((decoded.head, head.last()), (head, Position(43)));
        assert_eq!(LogBlockHead::decode(&bytes[..LogBlockHead::BYTES]), Some(head));
        let records: Vec<(Position, Vec<u8>)> = decoded.records().map(|(at, payload)| (at, payload.to_vec())).collect();
        let expected: Vec<(Position, Vec<u8>)> = (41..).map(Position).zip(payloads).collect();
        assert_eq!(records, expected);
        (0..bytes.len()).for_each(|end| assert!(LogBlock::decode(&bytes[..end]).is_err(), "cut at {end}"));
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 0x10;
            assert!(LogBlock::decode(&flipped).is_err(), "flipped at {at}");
        }
    }

    #[test]
    fn a_block_without_records_has_a_time() {
        let bytes = LogBlockWriter::new(Position(1), 0, 77).finish().unwrap();
        let head = LogBlock::decode(&bytes).unwrap().head;
        assert_eq!((head.count, head.time, head.last()), (0, 77, Position::ZERO));
    }
}
