//! The rows of a snapshot on their way into the new trees.

use std::sync::Arc;

use arbor_base::TreeId;
use arbor_engine::Engine;
use arbor_txn::{ReadView, View};

use crate::Result;
use crate::follow::{Pace, Phase, Throttle, Watch, bulk_load};

pub(super) struct Copy<'s> {
    view: &'s ReadView,
    /// Counts rows over all trees.
    pub pace: Pace<'s>,
}

impl<'s> Copy<'s> {
    pub fn new(
        engine: &'s Arc<dyn Engine>,
        view: &'s ReadView,
        watch: &'s dyn Watch,
        throttle: &'s mut Throttle,
        total: u64,
    ) -> Copy<'s> {
        Copy { view, pace: Pace::new(engine, watch, throttle, Phase::Copying, total) }
    }

    /// Answers the number of rows.
    pub fn tree(&mut self, from: TreeId, to: TreeId) -> Result<u64> {
        let (engine, before) = (self.pace.engine, self.pace.done);
        let mut cursor = self.view.cursor(from)?;
        let mut begun = false;
        bulk_load(&**engine, to, || {
            let stands = if std::mem::replace(&mut begun, true) { cursor.next() } else { cursor.first() };
            if !stands? {
                return Ok(None);
            }
            let row = (cursor.key().to_vec(), cursor.value().to_vec());
            self.pace.count(row.0.len() + row.1.len() + 16)?;
            Ok(Some(row))
        })?;
        self.pace.look_up()?;
        Ok(self.pace.done - before)
    }
}
