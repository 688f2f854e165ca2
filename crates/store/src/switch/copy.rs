//! The rows of a snapshot on their way into the new trees.

use arbor_base::TreeId;
use arbor_txn::record::Load;
use arbor_txn::{ReadView, Transactions, View};

use crate::Result;
use crate::follow::{Pace, Phase, Throttle, Watch, bulk_load};

pub(super) struct Copy<'s> {
    view: &'s ReadView,
    /// Counts rows over all trees.
    pub pace: Pace<'s>,
    /// The trees that are filled.
    pub loads: Vec<Load>,
}

impl<'s> Copy<'s> {
    pub(super) fn new(
        transactions: &'s Transactions,
        view: &'s ReadView,
        watch: &'s dyn Watch,
        throttle: &'s mut Throttle,
        total: u64,
    ) -> Copy<'s> {
        Copy { view, pace: Pace::new(transactions, watch, throttle, Phase::Copying, total), loads: Vec::new() }
    }

    /// Returns the number of rows.
    pub(super) fn tree(&mut self, from: TreeId, to: TreeId) -> Result<u64> {
        let (transactions, before) = (self.pace.transactions, self.pace.done);
        let mut cursor = self.view.cursor(from)?;
        let mut begun = false;
        let load = bulk_load(transactions, to, || {
            let valid = if std::mem::replace(&mut begun, true) { cursor.next() } else { cursor.first() };
            if !valid? {
                return Ok(None);
            }
            let row = (cursor.key().to_vec(), cursor.value().to_vec());
            self.pace.count(row.0.len() + row.1.len() + 16)?;
            Ok(Some(row))
        })?;
        self.loads.push(load);
        self.pace.check()?;
        Ok(self.pace.done - before)
    }
}
