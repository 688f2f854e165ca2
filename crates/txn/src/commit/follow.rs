//! Applying the log of another leader, as far as the set has committed it.

use std::sync::atomic::Ordering;

use arbor_base::Position;
use arbor_engine::Batch;

use super::CommitPath;
use crate::group::{Committed, Lead};
use crate::record::Record;
use crate::{ReadView, Result};

impl CommitPath {
    /// Applies what another leader has logged, up to the limit. `Ok`: the engine had space for all of it.
    pub(crate) fn apply_log(&self, committed: &mut Committed) -> Result<()> {
        let limit = self.apply_limit(committed);
        loop {
            let (Lead::Other(applier) | Lead::Begins { applier, .. }) = &mut committed.lead else { return Ok(()) };
            if !applier.fill(self.log(), limit, |waiting| self.has_loads(waiting))? {
                break;
            }
            let last_time = self.apply_group(&mut applier.group)?;
            applier.group.clear();
            committed.last_time = committed.last_time.max(last_time);
        }
        self.begin_if_visible(committed)
    }

    /// Applies and publishes a group. Returns the time of its last note. After an error the group is as it was.
    fn apply_group(&self, group: &mut [(Position, Record)]) -> Result<u64> {
        let Some(last) = group.last().map(|(position, _)| *position) else { return Ok(0) };
        let published = self.published();
        assert!(group.iter().all(|(position, _)| *position > published), "a record is applied again after {published}");
        debug_assert!(group.is_sorted_by(|(one, _), (next, _)| one < next), "records come in the order of the log");
        let observer = self.observer();
        let batch = |(position, record): &mut (Position, Record)| {
            let ops = std::mem::take(&mut record.ops);
            observer.iter().for_each(|observer| observer.before(&ops));
            Batch { position: *position, ops }
        };
        let batches: Vec<Batch> = group.iter_mut().map(batch).collect();
        let rest = self.loads().without_passed(&batches);
        let applied = self.apply_with_reserve(rest.as_deref().unwrap_or(&batches));
        if applied.is_ok() {
            self.loads().applied(&batches);
        }
        for ((_, record), batch) in group.iter_mut().zip(batches) {
            record.ops = batch.ops;
        }
        applied?;
        assert!(self.engine().applied() >= last, "{last:?} was applied and the engine has less");
        let last_time = group.iter().map(|(_, record)| record.last_time()).max().unwrap_or(0);
        self.clock().advance(last_time);
        self.advance_logged(last);
        self.publish(last);
        if let Some(observer) = observer {
            observer.after(group, &ReadView::new(self.engine().snapshot()?));
        }
        self.count_applied(group);
        Ok(last_time)
    }

    /// G1: a record that refers to a load is applied with the load.
    fn has_loads(&self, (position, record): &(Position, Record)) -> Result<bool> {
        for load in &record.loads {
            self.loads().check(*position, load)?;
            if !self.loads().has(&**self.engine(), load)? {
                return Ok(false);
            }
        }
        record.loads.iter().for_each(|load| self.loads().is_here(load));
        Ok(true)
    }

    /// Bytes of log for the next checkpoint, as a leader counts them.
    fn count_applied(&self, group: &[(Position, Record)]) {
        let bytes = group.iter().flat_map(|(_, record)| &record.ops).map(|op| op.bytes() as u64).sum();
        self.log_bytes().fetch_add(bytes, Ordering::Relaxed);
    }
}
