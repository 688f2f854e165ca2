//! One table: everything its bytes can show.

use std::sync::Arc;

use super::Report;
use crate::blob::{self, BlobPointer};
use crate::block::Block;
use crate::filter;
use crate::io::Io;
use crate::table::{HEADER_BYTES, Table, TableBody, TableMeta};
use crate::{Kind, Seq};

/// Reads the whole table, its blobs included, and compares it with its meta, index and filter.
pub(super) fn check(io: &Io, table: &Arc<Table>, report: &mut Report) {
    let place = format!("{} at {}", io.file.path().display(), table.meta.offset);
    let body = match table.body(io) {
        Ok(body) => body,
        Err(error) => return report.find_error(place, &error),
    };
    check_header(io, table, &place, report);
    let mut seen = Seen::default();
    for number in 0..body.block_count() {
        report.blocks += 1;
        match body.read(number, io) {
            Ok(block) => check_block(io, table, &body, number, &block, &mut seen, report),
            Err(error) => report.find_error(&place, &error),
        }
    }
    for tombstone in body.tombstones() {
        seen.seq(tombstone.seq);
    }
    report.entries += seen.entries;
    compare(table, &body, &seen, &place, report);
}

/// Only salvage needs it.
fn check_header(io: &Io, table: &Table, place: &str, report: &mut Report) {
    let meta = &table.meta;
    let header = io.file.read(meta.offset, HEADER_BYTES as u64);
    let header = header.ok().and_then(|header| TableMeta::from_header(meta.offset, &header));
    let same = |header: &TableMeta| {
        (header.tree, header.level, header.index_offset, header.index_checksum)
            == (meta.tree, meta.level, meta.index_offset, meta.index_checksum)
    };
    if !header.as_ref().is_some_and(same) {
        report.find(place, "the header of the table is damaged");
    }
}

/// Contents of the blocks of a table.
struct Seen {
    entries: u64,
    first: Option<Vec<u8>>,
    last: Option<(Vec<u8>, Seq)>,
    min_seq: Seq,
    max_seq: Seq,
}

impl Default for Seen {
    fn default() -> Seen {
        Seen { entries: 0, first: None, last: None, min_seq: Seq(u64::MAX), max_seq: Seq::ZERO }
    }
}

impl Seen {
    fn seq(&mut self, seq: Seq) {
        self.min_seq = self.min_seq.min(seq);
        self.max_seq = self.max_seq.max(seq);
    }
}

fn check_block(
    io: &Io,
    table: &Table,
    body: &TableBody,
    number: usize,
    block: &Block,
    seen: &mut Seen,
    report: &mut Report,
) {
    let place = format!("{} at {}, block {number}", io.file.path().display(), table.meta.offset);
    let (from, to) = body.block_bounds(number);
    if block.is_empty() || !block.is_ordered() {
        report.find(&place, "E1: a block without rows, or rows out of order");
    }
    for at in 0..block.len() {
        let entry = block.entry(at);
        let rises = seen
            .last
            .as_ref()
            .is_none_or(|(key, seq)| key.as_slice() < entry.key || (key.as_slice() == entry.key && *seq >= entry.seq));
        if !rises && at == 0 {
            report.find(&place, "E1: rows out of order between blocks");
        }
        if entry.key < from || to.is_some_and(|to| entry.key > to) {
            report.find(&place, "a key outside of what the index says of the block");
        }
        if !body.may_contain(filter::hash(entry.key)) {
            report.find(&place, "a key that the filter denies");
        }
        if entry.kind == Kind::PutBlob {
            check_blob(io, table, entry.value, &place, report);
        }
        seen.seq(entry.seq);
        seen.entries += 1;
        if at + 1 == block.len() {
            seen.last = Some((entry.key.to_vec(), entry.seq));
        }
        if seen.first.is_none() {
            seen.first = Some(entry.key.to_vec());
        }
    }
}

fn check_blob(io: &Io, table: &Table, value: &[u8], place: &str, report: &mut Report) {
    report.blobs += 1;
    let Some(pointer) = BlobPointer::decode(value) else {
        return report.find(place, "a pointer to a blob that is none");
    };
    if !table.meta.blobs.iter().any(|(offset, _)| *offset == pointer.offset) {
        report.find(place, format!("the table does not hold the extent of its blob at {}", pointer.offset));
    }
    if let Err(error) = blob::read(io, &pointer) {
        report.find_error(place, &error);
    }
}

fn compare(table: &Table, body: &TableBody, seen: &Seen, place: &str, report: &mut Report) {
    let meta = &table.meta;
    if meta.rows != seen.entries {
        report.find(place, format!("{} rows, the meta says {}", seen.entries, meta.rows));
    }
    let keys = (seen.first.as_deref().unwrap_or_default(), seen.last.as_ref().map_or(&[][..], |(key, _)| key));
    if seen.entries > 0 && keys != (&meta.first_key, &meta.last_key) {
        report.find(place, "first and last key are not those of the meta");
    }
    // A merge keeps fewer entries than it read: the range in the meta may be wider, never narrower.
    if seen.entries > 0 && seen.min_seq != Seq::ZERO && (seen.min_seq < meta.min_seq || seen.max_seq > meta.max_seq) {
        let range =
            format!("{:?}..{:?}, the meta says {:?}..{:?}", seen.min_seq, seen.max_seq, meta.min_seq, meta.max_seq);
        report.find(place, format!("sequence numbers {range}"));
    }
    if meta.has_tombstones == body.tombstones().is_empty() {
        report.find(place, "range tombstones are not as the meta says");
    }
}
