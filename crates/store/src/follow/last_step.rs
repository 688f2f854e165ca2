//! The last step: the rest of the log under the collection's latch, and the change of the catalogue in the same transaction.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arbor_base::Position;
use arbor_txn::{ReadView, Transaction, View};

use super::catch_up::{Carry, CatchUp};
use super::{Throttle, Watch};
use crate::latch::ExclusiveGuard;
use crate::{Collection, Error, Namespace, Result, Store};

/// First timeout of the wait for the latch: new writers are blocked while a thread waits for it.
const LATCH_TIMEOUT: Duration = Duration::from_millis(10);
const LATCH_TIMEOUT_MAX: Duration = Duration::from_secs(2);
const _: () = assert!(LATCH_TIMEOUT.as_millis() < LATCH_TIMEOUT_MAX.as_millis());
/// Maximum time between the append of a commit and its visibility in the engine, while writers are kept out.
const VISIBLE_WITHIN: Duration = Duration::from_secs(1);

/// The state for the last step: the carrying over, the collection as it is now, a view that shows all of it, and the
/// transaction that carries over the last of it and is still to be committed.
pub(crate) struct LastStep<'c, C> {
    pub carry: &'c mut C,
    pub now: Arc<Collection>,
    pub view: ReadView,
    pub txn: Transaction,
}

impl<C: Carry> CatchUp<'_, C> {
    /// Waits for the latch, catching up in between, and ends with `last`, which commits. Returns the time for which the latch was
    /// held.
    ///
    /// Errors: `NamespaceNotFound` when the collection is gone.
    pub(crate) fn finish(
        &mut self,
        store: &Store,
        old: &Collection,
        watch: &dyn Watch,
        throttle: &mut Throttle,
        last: impl FnOnce(LastStep<'_, C>) -> Result<()>,
    ) -> Result<Duration> {
        let timeouts = LatchTimeouts::default();
        loop {
            if let Some((now, _latch)) = store.hold_exclusive_within(&old.namespace, timeouts.next())? {
                if now.uuid != old.uuid {
                    return Err(Error::NamespaceNotFound(old.namespace.clone()));
                }
                let began = Instant::now();
                debug_assert!(now.latch.is_held_exclusively(), "F1: what comes after the end is of no writer");
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

    /// Returns the collection with its latch held exclusively, without blocking new writers while a long statement runs.
    pub(crate) fn hold_exclusive_watched(
        &self,
        name: &Namespace,
        watch: &dyn Watch,
    ) -> Result<(Arc<Collection>, ExclusiveGuard)> {
        let timeouts = LatchTimeouts::default();
        loop {
            if let Some(held) = self.hold_exclusive_within(name, timeouts.next())? {
                return Ok(held);
            }
            if watch.is_stopped() {
                return Err(Error::Interrupted);
            }
        }
    }
}

/// Timeouts of the wait for the latch, longer each time.
#[derive(Default)]
struct LatchTimeouts(std::cell::Cell<u32>);

impl LatchTimeouts {
    pub(crate) fn next(&self) -> Duration {
        let times = self.0.get();
        self.0.set(times + 1);
        LATCH_TIMEOUT.saturating_mul(1 << times.min(8)).min(LATCH_TIMEOUT_MAX)
    }
}
