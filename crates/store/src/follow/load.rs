//! `bulk_load` from rows that may fail.

use arbor_base::TreeId;
use arbor_txn::Transactions;

use crate::sort::sorter::Row;
use crate::{Error, Result};

/// Fills an empty tree with what `next` returns until `None`; an error of it ends the load and is returned.
pub(crate) fn bulk_load(
    transactions: &Transactions,
    tree: TreeId,
    next: impl FnMut() -> Result<Option<Row>>,
) -> Result<()> {
    let mut rows = Rows { next, error: None };
    let loaded = transactions.bulk_load(tree, &mut rows);
    match rows.error {
        Some(error) => Err(error),
        None => Ok(loaded?),
    }
}

struct Rows<F> {
    next: F,
    error: Option<Error>,
}

impl<F: FnMut() -> Result<Option<Row>>> Iterator for Rows<F> {
    type Item = Row;

    fn next(&mut self) -> Option<Row> {
        if self.error.is_some() {
            return None;
        }
        (self.next)().unwrap_or_else(|error| {
            self.error = Some(error);
            None
        })
    }
}
