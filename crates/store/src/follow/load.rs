//! `bulk_load` from rows that may fail.

use arbor_base::TreeId;
use arbor_txn::Transactions;
use arbor_txn::fetch::RowsChecksum;
use arbor_txn::record::Load;

use super::{Phase, Watch};

use crate::sort::sorter::Row;
use crate::{Error, Result};

/// Fills an empty tree with what `next` returns until `None`; an error of it ends the load and is returned.
pub(crate) fn bulk_load(
    transactions: &Transactions,
    tree: TreeId,
    next: impl FnMut() -> Result<Option<Row>>,
) -> Result<Load> {
    let mut rows = Rows { next, error: None, checksum: RowsChecksum::default() };
    let loaded = transactions.bulk_load(tree, &mut rows);
    let RowsChecksum { rows: count, crc } = rows.checksum;
    match rows.error {
        Some(error) => Err(error),
        None => Ok(loaded.map(|()| Load { tree, rows: count, checksum: crc })?),
    }
}

/// Makes filled trees durable, then part of the log: the other members of a set fetch them before any record changes them.
pub(crate) fn publish(transactions: &Transactions, loads: &[Load], watch: &dyn Watch) -> Result<()> {
    transactions.checkpoint_now()?;
    let rows = loads.iter().map(|load| load.rows).sum();
    watch.progress(Phase::AwaitingMembers, 0, rows);
    let published = transactions.publish_loads(loads, &|| watch.is_stopped());
    match published {
        Err(arbor_txn::Error::Refused { .. }) if watch.is_stopped() => Err(Error::Interrupted),
        published => Ok(published.map(drop)?),
    }
}

struct Rows<F> {
    next: F,
    error: Option<Error>,
    checksum: RowsChecksum,
}

impl<F: FnMut() -> Result<Option<Row>>> Iterator for Rows<F> {
    type Item = Row;

    fn next(&mut self) -> Option<Row> {
        if self.error.is_some() {
            return None;
        }
        let row = (self.next)().unwrap_or_else(|error| {
            self.error = Some(error);
            None
        });
        row.iter().for_each(|(key, value)| self.checksum.add(key, value));
        row
    }
}
