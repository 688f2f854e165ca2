//! Rough sizes of ranges.
//!
//! Small ranges are counted. Of a larger one the bytes are what RocksDB says of its files, times what compression saves
//! on the whole, and the range's share of the tree's rows in memory; the keys follow from the size of the rows counted.

use std::sync::atomic::{AtomicU64, Ordering};

use arbor_engine::{RangeEstimate, Result};

use crate::raw::{Db, RawSnapshot, Rows};
use crate::records::Tree;

/// Rows that are counted before anything is guessed.
const COUNTED_ROWS: u64 = 200;
/// Bytes of a row in a file besides key and value: the content, RocksDB's sequence number, the last byte of the value.
const ROW_OVERHEAD_BYTES: f64 = 17.0;

/// Bytes of rows for each byte of a file, over all files. Looked up when files were written.
#[derive(Debug)]
pub(crate) struct Expansion(AtomicU64);

impl Expansion {
    pub(crate) fn of(db: &Db) -> Expansion {
        let expansion = Expansion(AtomicU64::new(1f64.to_bits()));
        expansion.refresh(db);
        expansion
    }

    pub(crate) fn refresh(&self, db: &Db) {
        let (rows, files) = (row_bytes_in(&db.report(c"rocksdb.aggregated-table-properties")), file_bytes(db));
        if rows > 0 && files > 0 {
            self.0.store((rows as f64 / files as f64).to_bits(), Ordering::Relaxed);
        }
    }

    fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }
}

/// Indexes and filters included, as in what RocksDB says of a range.
fn file_bytes(db: &Db) -> u64 {
    db.property(c"rocksdb.live-sst-files-size")
}

/// From RocksDB's report `...; raw key size=1; ... raw value size=2; ...`.
fn row_bytes_in(report: &str) -> u64 {
    let size = |name: &str| {
        let text = report.split(';').find_map(|part| part.trim().strip_prefix(name)?.strip_prefix('='));
        text.and_then(|text| text.trim().parse::<u64>().ok()).unwrap_or(0)
    };
    size("raw key size") + size("raw value size")
}

pub(crate) fn of_range(
    snapshot: &RawSnapshot,
    expansion: &Expansion,
    tree: &Tree,
    from: &[u8],
    to: Option<&[u8]>,
) -> Result<RangeEstimate> {
    let mut rows = snapshot.db.rows(tree.content, Some(snapshot))?;
    let mut counted = RangeEstimate::default();
    let mut more = rows.seek(from)?;
    while more && to.is_none_or(|to| rows.key() < to) {
        if counted.keys == COUNTED_ROWS {
            return guess(snapshot, expansion, tree, &mut rows, from, to, counted);
        }
        counted.keys += 1;
        counted.bytes += (rows.key().len() + rows.value().len()) as u64;
        more = rows.next()?;
    }
    Ok(counted)
}

fn guess(
    snapshot: &RawSnapshot,
    expansion: &Expansion,
    tree: &Tree,
    rows: &mut Rows<'_>,
    from: &[u8],
    to: Option<&[u8]>,
    counted: RangeEstimate,
) -> Result<RangeEstimate> {
    let row_bytes = counted.bytes as f64 / counted.keys as f64;
    let end = to.map_or(tree.content.end().to_vec(), |to| tree.content.row(to));
    let in_files = snapshot.db.file_bytes(&tree.content.row(from), &end)? as f64 * expansion.get();
    let mut keys = in_files / (row_bytes + ROW_OVERHEAD_BYTES);
    let in_memory = tree.bytes_in_memory();
    if in_memory > 0 {
        keys += in_memory as f64 * share_of_keys(rows, from, to)? / row_bytes.max(1.0);
    }
    let keys = (keys as u64).max(counted.keys);
    Ok(RangeEstimate { keys, bytes: ((keys as f64 * row_bytes) as u64).max(counted.bytes) })
}

/// The share that a range has of the tree, with keys read as numbers.
fn share_of_keys(rows: &mut Rows<'_>, from: &[u8], to: Option<&[u8]>) -> Result<f64> {
    if !rows.seek(b"")? {
        return Ok(0.0);
    }
    let first = rows.key().to_vec();
    if !rows.last()? {
        return Ok(0.0);
    }
    let last = rows.key().to_vec();
    let common = first.iter().zip(&last).take_while(|(a, b)| a == b).count();
    let place = |key: &[u8]| {
        let key = key.clamp(first.as_slice(), last.as_slice());
        let digits = key.iter().skip(common).chain(std::iter::repeat(&0)).take(7);
        digits.fold(0.0, |number, digit| number * 256.0 + f64::from(*digit))
    };
    let whole = place(&last) - place(&first);
    let part = to.map_or(place(&last), place) - place(from);
    Ok(if whole > 0.0 { (part / whole).clamp(0.0, 1.0) } else { 1.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_is_read() {
        let report = "# data blocks=5; # entries=10; raw key size=100; raw average key size=10.000000; raw value size=300; \
            raw average value size=30.000000; data block size=200; index block size=7";
        assert_eq!(row_bytes_in(report), 400);
        assert_eq!(row_bytes_in(""), 0);
    }
}
