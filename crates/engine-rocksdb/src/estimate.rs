//! Rough sizes of ranges.
//!
//! Small ranges are counted. A larger one is a share of its tree, whose counts are exact: the share of the tree's file
//! bytes if it has files, else the share of its keys read as numbers (a tree that is in memory only).

use arbor_base::TreeId;
use arbor_engine::{Error, RangeEstimate, Result};

use crate::raw::{RawSnapshot, Rows};
use crate::records::{self, Tree};

/// Rows that are counted before anything is guessed.
const COUNTED_ROWS: u64 = 200;

pub fn of_range(snapshot: &RawSnapshot, tree: TreeId, from: &[u8], to: Option<&[u8]>) -> Result<RangeEstimate> {
    let record = records::tree(&snapshot.db, snapshot, tree)?.ok_or(Error::UnknownTree(tree))?;
    let mut rows = snapshot.db.rows(record.content, Some(snapshot))?;
    let mut estimate = RangeEstimate::default();
    let mut more = rows.seek(from)?;
    while more && to.is_none_or(|to| rows.key() < to) {
        if estimate.keys == COUNTED_ROWS {
            return guess(snapshot, &record, &mut rows, from, to, estimate);
        }
        estimate.keys += 1;
        estimate.bytes += (rows.key().len() + rows.value().len()) as u64;
        more = rows.next()?;
    }
    Ok(estimate)
}

/// Between what was counted and the whole tree.
fn guess(
    snapshot: &RawSnapshot,
    tree: &Tree,
    rows: &mut Rows<'_>,
    from: &[u8],
    to: Option<&[u8]>,
    counted: RangeEstimate,
) -> Result<RangeEstimate> {
    let (begin, end) = (tree.content.prefix(), tree.content.end());
    let whole = snapshot.db.file_bytes(&begin, &end)?;
    let share = match whole {
        0 => share_of_keys(rows, from, to)?,
        _ => {
            let to = to.map_or(end.to_vec(), |to| tree.content.row(to));
            snapshot.db.file_bytes(&tree.content.row(from), &to)? as f64 / whole as f64
        }
    };
    let part = |all: u64, least: u64| ((all as f64 * share.min(1.0)) as u64).max(least).min(all.max(least));
    Ok(RangeEstimate { keys: part(tree.keys, counted.keys), bytes: part(tree.bytes, counted.bytes) })
}

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
    Ok(if whole > 0.0 { part / whole } else { 1.0 })
}
