//! State of the commit path that only a member of a set has.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arbor_base::Position;
use arbor_engine::Batch;

use super::{AppendListener, CommitPath, Outcome};
use crate::applier::Applied;
use crate::fetch::Loads;
use crate::group::Committed;
use crate::write_set::WriteSet;
use crate::{Error, Result};

impl CommitPath {
    pub(crate) fn is_of_set(&self) -> &AtomicBool {
        &self.is_of_set
    }

    pub(crate) fn observer(&self) -> Option<&Arc<dyn Applied>> {
        self.observer.get()
    }

    pub(crate) fn set_observer(&self, observer: Arc<dyn Applied>) {
        let _only_the_first = self.observer.set(observer);
    }

    pub(crate) fn loads(&self) -> &Loads {
        &self.loads
    }

    pub(crate) fn set_append_listener(&self, listener: AppendListener) {
        let _only_the_first = self.appended.set(listener);
    }

    pub(crate) fn set_durable_listener(&self, listener: AppendListener) {
        let _only_the_first = self.durable.set(listener);
    }

    pub(crate) fn notify_appended(&self, last: Position) {
        self.appended.get().iter().for_each(|listener| listener(last));
    }

    /// Position from which on transactions of the present term read.
    pub(crate) fn term_floor(&self) -> Position {
        Position(self.term_floor.load(Ordering::Acquire))
    }

    /// A term begins: its transactions read at `noop` or later, and its trees have ids from `next_tree` on.
    pub(crate) fn begin_at(&self, noop: Position, next_tree: u64) {
        self.term_floor.store(noop.0, Ordering::Release);
        self.conflict_floor.store(noop.0, Ordering::Release);
        self.next_tree.fetch_max(next_tree, Ordering::AcqRel);
    }

    /// Logs the first commit of a term, by a thread that holds the commit lock.
    pub(crate) fn log_first(&self, committed: &mut Committed, writes: WriteSet, snapshot: Position) -> Result<()> {
        let request = self.request(writes, snapshot)?;
        match self.process(committed, vec![request]).pop() {
            Some(Outcome::Failed(error)) => Err(error),
            _ => Ok(()),
        }
    }

    /// Has all committers that wait look again at what they wait for.
    pub(crate) fn interrupt(&self) {
        self.waiters.interrupt();
        self.flow.notify_all();
    }

    /// The log was cut.
    pub(crate) fn cut_to(&self, position: Position) {
        self.waiters.lower(position);
        self.loads.cut_to(position);
    }

    /// The log begins again behind `position`.
    pub(crate) fn begins_behind(&self, position: Position) {
        let _no_waiters = self.waiters.synced(position);
    }

    /// Sets the end of the log that counts: later records may be cut off.
    pub(crate) fn set_logged(&self, position: Position) {
        self.logged.store(position.0, Ordering::Release);
    }

    pub(crate) fn advance_logged(&self, position: Position) {
        self.logged.fetch_max(position.0, Ordering::AcqRel);
    }

    pub(crate) fn apply_with_reserve(&self, batches: &[Batch]) -> Result<()> {
        match self.apply(batches) {
            Err(Error::OutOfSpace { .. }) if self.space_exhausted() => self.apply(batches),
            outcome => outcome,
        }
    }
}
