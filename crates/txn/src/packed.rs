//! Compression of log records. A packed record is written in the place of a record of version 2 (`record.rs`) that is long and repeats
//! itself, as batches of inserts do.
//!
//! | size | what |
//! |---|---|
//! | 1 | version, 5 |
//! | 8 | time of the first note, as in a record |
//! | 8 | the system's clock, as in a record |
//! | varint | number of notes |
//! | varint | length of the body: what the record has behind its stamp |
//! | 4 | length of the compressed body, little-endian |
//! | ... | the compressed body: one block of LZ4 without a frame |
//! | ... | operations until the end of the record, not compressed: those that the leader of a group adds under the commit lock |
//!
//! Compressing is done before the commit lock is taken, so the stamp is outside of the body. The links of chains and records that refer
//! to loads are not packed. A record has the same bytes in the logs of all members.

use arbor_log::PAYLOAD_BYTES_MAX;
use lz4::block::{compress_to_buffer, decompress_to_buffer};

use crate::Stamp;
use crate::record::{self, Decoded, PACKED_VERSION, Reader, STAMPED_BYTES};

/// Bodies below are not compressed: a single document repeats little, and the compressor clears 16 KB of tables for each.
// PERF: with 512 bytes a server took a tenth more CPU for updates of documents of 1.1 KB (YCSB A; docs/performance.md, "Compressed records of
// the log").
const BODY_BYTES_MIN: usize = 4096;

/// A body is stored compressed if that saves one part in this many at least.
const SAVED_PARTS: usize = 8;

/// No block of LZ4 expands to more than this many times its length,
const EXPANSION_MAX: usize = 255;
/// and this many bytes.
const EXPANSION_BYTES: usize = 64;

const LENGTH_BYTES: usize = size_of::<u32>();

/// Room for the operations that the leader adds: the record is not copied while it holds the commit lock.
const OWN_OPS_BYTES: usize = 256;

/// Returns the record in its shorter form. Requires a record of version 2 that has a stamp or room for it, and no operations of the leader.
pub(crate) fn pack(record: Vec<u8>, notes: usize) -> Vec<u8> {
    let Some((stamped, body)) = record.split_first_chunk::<STAMPED_BYTES>() else { return record };
    if body.len() < BODY_BYTES_MIN || body.len() > PAYLOAD_BYTES_MAX {
        return record;
    }
    let mut packed = Vec::with_capacity(STAMPED_BYTES + 20 + LENGTH_BYTES + body.len());
    packed.extend_from_slice(stamped);
    packed.first_mut().into_iter().for_each(|version| *version = PACKED_VERSION);
    record::push_varint(&mut packed, notes as u64);
    record::push_varint(&mut packed, body.len() as u64);
    let length_at = packed.len();
    packed.resize(length_at + LENGTH_BYTES + body.len() - body.len() / SAVED_PARTS, 0);
    let Some((length, block)) = packed.get_mut(length_at..).and_then(<[u8]>::split_first_chunk_mut::<LENGTH_BYTES>)
    else {
        return record;
    };
    // an error: it does not fit
    let Ok(bytes) = compress_to_buffer(body, None, false, block) else { return record };
    *length = (bytes as u32).to_le_bytes();
    packed.truncate(length_at + LENGTH_BYTES + bytes);
    packed.shrink_to(packed.len() + OWN_OPS_BYTES);
    debug_assert!(
        unpack(&packed).is_ok_and(|unpacked| unpacked.is_some_and(|unpacked| unpacked.plain == record)),
        "a record is read as it was written"
    );
    packed
}

/// A packed record before its body is decompressed.
struct Packed<'a> {
    stamp: Stamp,
    notes: u64,
    body_bytes: usize,
    block: &'a [u8],
    own_ops: &'a [u8],
}

impl<'a> Packed<'a> {
    /// Returns `None` if the payload is not a packed record.
    fn decode(payload: &'a [u8]) -> Decoded<Option<Packed<'a>>> {
        if payload.first() != Some(&PACKED_VERSION) {
            return Ok(None);
        }
        let mut reader = Reader::new(payload);
        let (_, stamp) = reader.stamped()?;
        let (notes, body_bytes) = (reader.varint()?, reader.varint()?);
        let cut = "a packed record ends before its body";
        let (length, rest) = reader.rest().split_first_chunk::<LENGTH_BYTES>().ok_or(cut)?;
        let (block, own_ops) = rest.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or(cut)?;
        let most = (block.len().saturating_mul(EXPANSION_MAX) + EXPANSION_BYTES).min(PAYLOAD_BYTES_MAX);
        let body_bytes = usize::try_from(body_bytes).ok().filter(|bytes| *bytes <= most);
        let body_bytes = body_bytes.ok_or("the body of a packed record is longer than its block can be")?;
        Ok(Some(Packed { stamp, notes, body_bytes, block, own_ops }))
    }
}

/// A packed record after its body was decompressed.
#[derive(Debug, PartialEq)]
pub(crate) struct Unpacked {
    /// The record of version 2 for which it was written.
    pub plain: Vec<u8>,
    /// Number of notes that the plain record has.
    pub notes: u64,
}

/// Returns `None` if the payload is not packed.
pub(crate) fn unpack(payload: &[u8]) -> Decoded<Option<Unpacked>> {
    let Some(Packed { stamp, notes, body_bytes, block, own_ops }) = Packed::decode(payload)? else { return Ok(None) };
    let mut plain = Vec::with_capacity(STAMPED_BYTES + body_bytes + own_ops.len());
    plain.resize(STAMPED_BYTES + body_bytes, 0);
    let body = plain.get_mut(STAMPED_BYTES..).unwrap_or_default();
    match decompress_to_buffer(block, Some(body_bytes as i32), body) {
        Ok(bytes) if bytes == body_bytes => {}
        _ => return Err("the body of a packed record does not decompress"),
    }
    record::begin_plain(&mut plain);
    record::stamp(&mut plain, stamp);
    plain.extend_from_slice(own_ops);
    Ok(Some(Unpacked { plain, notes }))
}

/// Returns the stamp of a packed record, and its number of notes; `None` if the payload is not packed.
pub(crate) fn stamp_and_notes(payload: &[u8]) -> Decoded<Option<(Stamp, u64)>> {
    Ok(Packed::decode(payload)?.map(|packed| (packed.stamp, packed.notes)))
}

/// Returns the bytes that a payload takes once it is decompressed.
pub(crate) fn unpacked_bytes(payload: &[u8]) -> usize {
    match Packed::decode(payload) {
        Ok(Some(packed)) => STAMPED_BYTES + packed.body_bytes + packed.own_ops.len(),
        Ok(None) | Err(_) => payload.len(),
    }
}

#[cfg(test)]
mod tests {
    use arbor_base::TreeId;
    use arbor_engine::Op;

    use super::*;
    use crate::record::{Note, NoteValue, Record};

    const STAMP: Stamp = Stamp { time: 70 << 32, wall: -3 };

    fn op(n: u8, value: Vec<u8>) -> Op {
        Op::Put { tree: TreeId(20), key: vec![n], value }
    }

    /// Puts rows that repeat each other.
    fn record(rows: u8) -> Record {
        let note = |n: u8| Note { tree: TreeId(20), about: vec![n; 3], value: NoteValue::Op(n.into()) };
        Record {
            logical: vec![4; 9],
            places: vec![(TreeId(20), b"db.c".to_vec())],
            notes: (0..rows).map(note).collect(),
            ops: (0..rows).map(|n| op(n, b"{ name: a, city: b }".to_vec())).collect(),
            ..Record::default()
        }
    }

    /// Returns the record as the leader of a group appends it: packed, then stamped and completed.
    fn appended(record: &Record, own: &[Op]) -> Vec<u8> {
        let mut payload = pack(record.encode(), record.notes.len());
        record::stamp(&mut payload, STAMP);
        own.iter().for_each(|op| record::push_op(&mut payload, op));
        payload
    }

    #[test]
    fn a_packed_record_is_shorter_and_decodes_to_what_was_packed() {
        let (record, own) = (record(200), [op(250, b"of the leader".to_vec())]);
        let payload = appended(&record, &own);
        let expected = Record { stamp: STAMP, ops: [&record.ops[..], &own].concat(), ..record.clone() };
        let plain = expected.encode();
        assert_eq!(payload[0], PACKED_VERSION);
        assert!(payload.len() * 2 < plain.len(), "{} of {}", payload.len(), plain.len());
        assert_eq!(unpacked_bytes(&payload), plain.len());
        assert_eq!(unpack(&payload), Ok(Some(Unpacked { plain, notes: 200 })));
        assert_eq!(record::times_of(&payload), Ok((STAMP, expected.last_time())));
        assert_eq!(Record::decode(&payload), Ok(expected));
    }

    #[test]
    fn short_records_and_those_that_do_not_shrink_stay_as_they_are() {
        let random = |n: u16| crc32c::crc32c(&n.to_le_bytes()).to_le_bytes();
        let noise = Record { ops: vec![op(1, (0..2000).flat_map(random).collect())], ..Record::default() };
        assert!(noise.encode().len() > BODY_BYTES_MIN);
        for (record, why) in [(record(50), "short"), (noise, "noise")] {
            let plain = record.encode();
            assert_eq!(pack(plain.clone(), record.notes.len()), plain, "{why}");
            assert_eq!(unpacked_bytes(&plain), plain.len());
            assert_eq!(unpack(&plain), Ok(None));
        }
    }

    #[test]
    fn cut_and_flipped_packed_records_are_refused_or_decode_to_something() {
        let whole = appended(&record(200), &[]);
        for end in 1..whole.len() {
            assert!(Record::decode(&whole[..end]).is_err(), "cut at {end}");
        }
        for at in 1..whole.len() {
            for flip in [0x01, 0x40, 0x80, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] ^= flip;
                let _decoded = Record::decode(&bytes);
            }
        }
    }

    #[test]
    fn a_head_with_another_number_of_notes_than_the_body_is_refused() {
        let record = record(200);
        let plain = record.encode();
        assert_eq!(Record::decode(&pack(plain.clone(), 200)), Ok(record));
        assert_eq!(
            Record::decode(&pack(plain, 201)),
            Err("the head of a packed record has another number of notes than its body")
        );
    }

    #[test]
    fn a_length_beyond_what_a_block_can_hold_allocates_nothing() {
        let mut bytes = vec![0; STAMPED_BYTES];
        bytes[0] = PACKED_VERSION;
        record::push_varint(&mut bytes, 0);
        record::push_varint(&mut bytes, PAYLOAD_BYTES_MAX as u64);
        bytes.extend(3u32.to_le_bytes());
        bytes.extend([1, 2, 3]);
        assert_eq!(unpack(&bytes), Err("the body of a packed record is longer than its block can be"));
        assert_eq!(unpacked_bytes(&bytes), bytes.len());
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_refused_or_unpacked(mut bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 20..300)) {
            bytes[0] = PACKED_VERSION;
            let _any = Record::decode(&bytes);
        }
    }
}
