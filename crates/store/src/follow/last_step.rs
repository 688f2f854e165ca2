//! The last step: the rest of the log under the collection's latch, and the change of the catalogue in the same transaction.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arbor_base::Position;
use arbor_txn::{ReadView, Transaction, View};

use super::catch_up::{Carry, CatchUp};
use super::{Throttle, Watch};
use crate::latch::ExclusiveGuard;
use crate::{Collection, Error, Namespace, Result, Store};

/// How long the latch is waited for at first: new writers wait as well while somebody wants it.
const PATIENCE: Duration = Duration::from_millis(10);
const PATIENCE_MAX: Duration = Duration::from_secs(2);
/// How long a commit may stand in the log before the engine shows it, while writers are kept out.
const VISIBLE_WITHIN: Duration = Duration::from_secs(1);

/// What the last step is done with: the carrying over, the collection as it is now, a view that shows all of it, and the
/// transaction that carries over the last of it and is still to be committed.
pub(crate) struct LastStep<'c, C> {
    pub carry: &'c mut C,
    pub now: Arc<Collection>,
    pub view: ReadView,
    pub txn: Transaction,
}

impl<C: Carry> CatchUp<'_, C> {
    /// Waits for the latch, catching up in between, and ends with `last`, which commits. Answers how long the latch was
    /// held.
    ///
    /// Errors: `NamespaceNotFound` when the collection is gone.
    pub fn finish(
        &mut self,
        store: &Store,
        old: &Collection,
        watch: &dyn Watch,
        throttle: &mut Throttle,
        last: impl FnOnce(LastStep<'_, C>) -> Result<()>,
    ) -> Result<Duration> {
        let patience = Patience::default();
        loop {
            if let Some((now, _latch)) = store.hold_exclusive_within(&old.namespace, patience.next())? {
                if now.uuid != old.uuid {
                    return Err(Error::NamespaceNotFound(old.namespace.clone()));
                }
                let began = Instant::now();
                let end = self.follower.end();
                if let Some(view) = store.view_of(end)? {
                    let txn = self.rest(end, &view)?;
                    last(LastStep { carry: &mut self.carry, now, view, txn })?;
                    return Ok(began.elapsed());
                }
            }
            self.round(watch, throttle)?;
            if watch.is_stopped() {
                return Err(Error::Interrupted);
            }
        }
    }
}

impl Store {
    /// A view that shows everything up to `end`. `None`: something in the log is not visible and stays so.
    fn view_of(&self, end: Position) -> Result<Option<ReadView>> {
        let until = Instant::now() + VISIBLE_WITHIN;
        loop {
            let view = self.transactions.read()?;
            if view.position() >= end {
                return Ok(Some(view));
            }
            if Instant::now() >= until {
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The collection with its latch held exclusively, by who does not keep new writers waiting behind a long statement.
    pub(crate) fn hold_exclusive_watched(
        &self,
        name: &Namespace,
        watch: &dyn Watch,
    ) -> Result<(Arc<Collection>, ExclusiveGuard)> {
        let patience = Patience::default();
        loop {
            if let Some(held) = self.hold_exclusive_within(name, patience.next())? {
                return Ok(held);
            }
            if watch.is_stopped() {
                return Err(Error::Interrupted);
            }
        }
    }
}

/// How long to wait for the latch, longer each time.
#[derive(Default)]
struct Patience(std::cell::Cell<u32>);

impl Patience {
    pub fn next(&self) -> Duration {
        let times = self.0.get();
        self.0.set(times + 1);
        PATIENCE.saturating_mul(1 << times.min(8)).min(PATIENCE_MAX)
    }
}
