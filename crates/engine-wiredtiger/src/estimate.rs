//! Rough sizes of ranges.
//!
//! Small ranges are counted. A larger one is a share of its tree, whose rows are about known: the share of a sample of the
//! tree's keys that is in the range. A table's sample is taken when it is first asked for, and again when the tree has
//! grown or shrunk by a half since.

use std::collections::HashMap;
use std::sync::Arc;

use arbor_engine::RangeEstimate;
use parking_lot::Mutex;

use crate::raw::{Called, RowCursor, Session, Table};
use crate::records::Tree;

/// Rows that are counted before anything is guessed.
const COUNTED_ROWS: u64 = 200;

/// Keys of a sample. WiredTiger reads a leaf for each.
const SAMPLE_KEYS: usize = 200;

#[derive(Default)]
pub(crate) struct Samples {
    tables: Mutex<HashMap<Table, Arc<Sample>>>,
}

struct Sample {
    keys: Vec<Vec<u8>>,
    /// Rows of the tree when it was taken.
    rows: u64,
}

impl Samples {
    pub(crate) fn forget(&self, table: Table) {
        self.tables.lock().remove(&table);
    }

    fn of(&self, session: &mut Session, tree: &Tree) -> Called<Arc<Sample>> {
        let known = self.tables.lock().get(&tree.table).cloned();
        if let Some(known) = known.filter(|known| tree.keys.abs_diff(known.rows) <= known.rows / 2) {
            return Ok(known);
        }
        let sample = Arc::new(Sample { keys: take(session, tree.table)?, rows: tree.keys });
        self.tables.lock().insert(tree.table, sample.clone());
        Ok(sample)
    }
}

fn take(session: &mut Session, table: Table) -> Called<Vec<Vec<u8>>> {
    let mut cursor = session.samples(table, SAMPLE_KEYS)?;
    let keys = sampled(session, &mut cursor);
    cursor.close(session)?;
    keys
}

/// Returns sampled keys in order.
fn sampled(session: &mut Session, cursor: &mut RowCursor) -> Called<Vec<Vec<u8>>> {
    let mut keys = Vec::with_capacity(SAMPLE_KEYS);
    while keys.len() < SAMPLE_KEYS && cursor.sample(session)? {
        keys.push(cursor.key().to_vec());
    }
    keys.sort();
    Ok(keys)
}

pub(crate) fn of_range(
    samples: &Samples,
    session: &mut Session,
    tree: &Tree,
    from: &[u8],
    to: Option<&[u8]>,
) -> Called<RangeEstimate> {
    let mut rows = session.rows(tree.table)?;
    let counted = count(session, &mut rows, from, to);
    rows.close(session)?;
    match counted? {
        (estimate, true) => Ok(estimate),
        (least, false) => guess(samples, session, tree, from, to, least),
    }
}

/// Counts rows of a range; the second value is true if that is all of them.
fn count(session: &mut Session, rows: &mut RowCursor, from: &[u8], to: Option<&[u8]>) -> Called<(RangeEstimate, bool)> {
    let mut estimate = RangeEstimate::default();
    let mut more = rows.seek(session, from)?;
    while more && to.is_none_or(|to| rows.key() < to) {
        if estimate.keys == COUNTED_ROWS {
            return Ok((estimate, false));
        }
        estimate.keys += 1;
        estimate.bytes += (rows.key().len() + rows.value().len()) as u64;
        more = rows.next(session)?;
    }
    Ok((estimate, true))
}

/// Between what was counted and the whole tree.
fn guess(
    samples: &Samples,
    session: &mut Session,
    tree: &Tree,
    from: &[u8],
    to: Option<&[u8]>,
    counted: RangeEstimate,
) -> Called<RangeEstimate> {
    let share = match (from, to) {
        (b"", None) => 1.0,
        _ => share(&samples.of(session, tree)?.keys, from, to),
    };
    let part = |all: u64, least: u64| ((all as f64 * share) as u64).max(least).min(all.max(least));
    Ok(RangeEstimate { keys: part(tree.keys, counted.keys), bytes: part(tree.bytes, counted.bytes) })
}

fn share(keys: &[Vec<u8>], from: &[u8], to: Option<&[u8]>) -> f64 {
    let below = |bound: &[u8]| keys.partition_point(|key| key.as_slice() < bound);
    let end = to.map_or(keys.len(), below);
    end.saturating_sub(below(from)) as f64 / keys.len().max(1) as f64
}
