//! A transaction that is larger than one record of the log is split across several: a chain of consecutive links, whose
//! pieces together are the bytes of the one record (`record.rs`).
//!
//! | size | link |
//! |---|---|
//! | 1 | version, 3 |
//! | 8 | time of the first note, as in a record |
//! | 8 | the system's clock, as in a record |
//! | 8 | time of the last note, little-endian |
//! | 4 | number of the link in its chain from 0 on, little-endian |
//! | 1 | 1 in the last link, else 0 |
//! | ... | a piece of the record |
//!
//! - C1: the commit lock is held from the first link to the last, so the links of a chain have consecutive positions.
//! - C2: a chain counts from its last link on. Its batch, with all operations, has the position of that link; the positions
//!   of the others have no batch. So an engine shows all of a chain or nothing of it, and the barrier makes the log durable
//!   up to the last link before any of it is durable in an engine.
//! - C3: links that are not followed by their chain's next link are void: a crash or a full disk came in between. Readers
//!   pass over them.
//! - C4: recovery, before there are readers, applies a chain link by link: first it finds the last link, then each link is
//!   a batch of the operations that end in it, at its own position. So it holds one link, and an engine that a crash then
//!   leaves inside of the chain continues after the link that it has.

use arbor_base::{Fields, Position};
use arbor_engine::Op;
use arbor_log::{Log, PAYLOAD_BYTES_MAX};

use crate::Stamp;
use crate::record::{self, Decoded, Record};

const VERSION: u8 = 3;
const HEAD_BYTES: usize = 30;

/// A piece is copied into its link, and with it into the log's buffer.
const PIECE_BYTES_MAX: usize = 1 << 20;
const _: () = assert!(HEAD_BYTES + PIECE_BYTES_MAX <= PAYLOAD_BYTES_MAX);

/// Links of this many bytes are worth a sync of their own.
const SYNCED_BYTES: u64 = 4 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    stamp: Stamp,
    last_time: u64,
    number: u32,
    is_last: bool,
}

impl Head {
    fn encode(&self) -> [u8; HEAD_BYTES] {
        let mut out = Vec::with_capacity(HEAD_BYTES);
        out.push(VERSION);
        out.extend_from_slice(&self.stamp.time.to_le_bytes());
        out.extend_from_slice(&self.stamp.wall.to_le_bytes());
        out.extend_from_slice(&self.last_time.to_le_bytes());
        out.extend_from_slice(&self.number.to_le_bytes());
        out.push(u8::from(self.is_last));
        out.try_into().expect("a head has its fields and nothing else")
    }

    /// `None`: it is a whole record.
    fn decode(payload: &[u8]) -> Decoded<Option<(Head, &[u8])>> {
        if payload.first() != Some(&VERSION) {
            return Ok(None);
        }
        let (head, piece) = payload.split_first_chunk::<HEAD_BYTES>().ok_or("the record ends inside a link's head")?;
        let head = Head::of_fields(Fields::new(head)).ok_or("a link that is neither the last nor another one")?;
        Ok(Some((head, piece)))
    }

    fn of_fields(mut fields: Fields<'_>) -> Option<Head> {
        let _version = fields.u8()?;
        let stamp = Stamp { time: fields.u64()?, wall: fields.i64()? };
        let (last_time, number) = (fields.u64()?, fields.u32()?);
        let is_last = match fields.u8()? {
            0 => false,
            1 => true,
            _ => return None,
        };
        Some(Head { stamp, last_time, number, is_last })
    }
}

/// The stamp of a record or of a link's record, and the time of its last note.
pub fn times_of(payload: &[u8]) -> Decoded<(Stamp, u64)> {
    match Head::decode(payload)? {
        Some((head, _)) => Ok((head.stamp, head.last_time)),
        None => record::times_of(payload),
    }
}

/// Appends a record link by link, with one piece of it in memory.
pub(crate) struct ChainWriter<'l> {
    log: &'l Log,
    head: Head,
    /// Head and piece of the next link.
    link: Vec<u8>,
    piece_bytes: usize,
    /// Bytes appended.
    pub bytes: u64,
    /// Bytes appended when a sync was requested last.
    requested: u64,
}

impl<'l> ChainWriter<'l> {
    pub(crate) fn new(log: &'l Log, stamp: Stamp, last_time: u64, piece_bytes: usize) -> ChainWriter<'l> {
        let head = Head { stamp, last_time, number: 0, is_last: false };
        let piece_bytes = piece_bytes.min(PIECE_BYTES_MAX);
        ChainWriter { log, head, link: vec![0; HEAD_BYTES], piece_bytes, bytes: 0, requested: 0 }
    }

    /// `begun` is the record up to its operations. Returns the position of the last link. After an error the links that are
    /// in the log are void.
    pub(crate) fn write(mut self, begun: &[u8], ops: &[Op]) -> arbor_log::Result<(Position, u64)> {
        self.push(begun)?;
        let mut head = Vec::new();
        for op in ops {
            head.clear();
            let last = record::push_op_head(&mut head, op);
            self.push(&head)?;
            self.push(last)?;
        }
        self.head.is_last = true;
        let last = self.append()?;
        Ok((last, self.bytes))
    }

    fn push(&mut self, mut bytes: &[u8]) -> arbor_log::Result<()> {
        loop {
            let room = HEAD_BYTES + self.piece_bytes - self.link.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.link.extend_from_slice(now);
            if later.is_empty() {
                return Ok(());
            }
            bytes = later;
            self.append()?;
        }
    }

    fn append(&mut self) -> arbor_log::Result<Position> {
        let head = self.link.first_chunk_mut::<HEAD_BYTES>().expect("a link begins with room for its head");
        *head = self.head.encode();
        let position = self.log.append(&[&self.link])?;
        self.bytes += self.link.len() as u64;
        if self.bytes >= self.requested + SYNCED_BYTES {
            // Written while the next links are made, not all at once when a thread waits for it.
            self.log.request_sync();
            self.requested = self.bytes;
        }
        self.head.number += 1;
        self.link.truncate(HEAD_BYTES);
        Ok(position)
    }
}

/// A link, as recovery reads it.
pub(crate) struct Link<'p> {
    pub number: u32,
    pub is_last: bool,
    pub piece: &'p [u8],
}

impl<'p> Link<'p> {
    /// `None`: the payload is a whole record.
    pub(crate) fn decode(payload: &'p [u8]) -> Decoded<Option<Link<'p>>> {
        let link = Head::decode(payload)?;
        Ok(link.map(|(head, piece)| Link { number: head.number, is_last: head.is_last, piece }))
    }
}

/// A payload of the log, by its meaning for the reader.
#[derive(Debug, PartialEq)]
pub enum Part {
    /// It is a record, or completes one.
    Record(Record),
    /// A link; more must follow.
    Link,
    /// A link whose chain began this many positions before it, at a position that was not read.
    Inside(u32),
}

/// Assembles the records of a log, some of which are split into chains. It is given every payload in order.
#[derive(Debug, Default)]
pub struct Assembler {
    /// Bytes of the links so far.
    record: Vec<u8>,
    /// Number of the next link; 0 outside of a chain.
    next: u32,
}

impl Assembler {
    pub fn take(&mut self, payload: &[u8]) -> Decoded<Part> {
        let Some((head, piece)) = Head::decode(payload)? else {
            self.reset();
            return Ok(Part::Record(Record::decode(payload)?));
        };
        if head.number != self.next {
            // C3, when it is the first link of another chain
            self.reset();
            if head.number > 0 {
                return Ok(Part::Inside(head.number));
            }
        }
        self.record.extend_from_slice(piece);
        self.next += 1;
        if !head.is_last {
            return Ok(Part::Link);
        }
        let record = Record::decode(&self.record);
        self.reset();
        Ok(Part::Record(record?))
    }

    /// Returns true if links were taken whose chain is not complete.
    pub fn is_inside(&self) -> bool {
        self.next > 0
    }

    /// Forgets the links so far.
    pub fn reset(&mut self) {
        *self = Assembler::default();
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use arbor_base::TreeId;
    use arbor_disk::FaultyDisk;
    use arbor_log::LogOptions;

    use super::*;
    use crate::record::Note;

    fn record() -> Record {
        let tree = TreeId(20);
        let note = |n: usize| Note { tree, about: vec![n as u8; n], value: record::NoteValue::Op(n) };
        let put = |n: usize| Op::Put { tree, key: vec![n as u8], value: vec![n as u8; n * 3] };
        Record {
            stamp: Stamp { time: 70, wall: -3 },
            logical: vec![4; 9],
            places: vec![(tree, b"db.c".to_vec())],
            notes: (0..20).map(note).collect(),
            loads: Vec::new(),
            ops: (0..20).map(put).collect(),
        }
    }

    /// The payloads of one chain.
    fn links(record: &Record, piece_bytes: usize) -> Vec<Vec<u8>> {
        let log = Log::open(Arc::new(FaultyDisk::new()), Path::new("log"), LogOptions::default()).unwrap();
        let begun = Record { ops: Vec::new(), ..record.clone() }.encode();
        // notes of operations that are not there yet do not decode, but encode
        ChainWriter::new(&log, record.stamp, record.last_time(), piece_bytes).write(&begun, &record.ops).unwrap();
        log.read(Position::ZERO).map(|read| read.unwrap().1).collect()
    }

    #[test]
    fn a_record_comes_back_whatever_its_pieces() {
        let record = record();
        let whole = record.encode().len();
        for piece_bytes in [1, 7, 64, whole - 1, whole, whole + 1] {
            let links = links(&record, piece_bytes);
            assert_eq!(links.len(), whole.div_ceil(piece_bytes));
            let mut assembler = Assembler::default();
            let (last, before) = links.split_last().unwrap();
            for link in before {
                assert_eq!(assembler.take(link), Ok(Part::Link));
                assert_eq!(times_of(link), Ok((record.stamp, 89)));
            }
            assert_eq!(assembler.is_inside(), !before.is_empty());
            assert_eq!(assembler.take(last), Ok(Part::Record(record.clone())));
            assert!(!assembler.is_inside());
        }
    }

    #[test]
    fn a_piece_is_a_small_part_of_a_large_value() {
        let value = vec![7; 3 * PIECE_BYTES_MAX];
        let record = Record { ops: vec![Op::Put { tree: TreeId(20), key: vec![1], value }], ..Record::default() };
        let links = links(&record, usize::MAX);
        assert_eq!(links.len(), 4);
        assert!(links.iter().all(|link| link.len() <= HEAD_BYTES + PIECE_BYTES_MAX));
    }

    #[test]
    fn void_links_are_passed_over() {
        let record = record();
        let links = links(&record, 200);
        for cut in 1..links.len() {
            let mut assembler = Assembler::default();
            links[..cut].iter().for_each(|link| assert_eq!(assembler.take(link), Ok(Part::Link)));
            let other = Record { ops: Vec::new(), notes: Vec::new(), ..record.clone() };
            assert_eq!(assembler.take(&other.encode()), Ok(Part::Record(other.clone())));
            links[..cut].iter().for_each(|link| assert_eq!(assembler.take(link), Ok(Part::Link)));
            let ends: Vec<_> = links.iter().map(|link| assembler.take(link).unwrap()).collect();
            assert_eq!(ends.last(), Some(&Part::Record(record.clone())), "the same chain again, cut {cut}");
            assert_eq!(assembler.take(&links[cut]), Ok(Part::Inside(cut as u32)));
        }
    }

    #[test]
    fn damaged_links_are_refused() {
        let links = links(&record(), 200);
        let mut assembler = Assembler::default();
        assert!((1..HEAD_BYTES).all(|end| assembler.take(&links[0][..end]).is_err()));
        let mut neither = links[0].clone();
        neither[29] = 2;
        assert!(assembler.take(&neither).is_err());
        let mut early = links[0].clone();
        early[29] = 1;
        assert!(assembler.take(&early).is_err(), "the record is cut off");
        assert!(!assembler.is_inside());
    }
}
