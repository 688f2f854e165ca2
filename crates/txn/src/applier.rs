//! The log of another leader on its way into the engine of this member, as far as the set has committed it.
//!
//! Unlike recovery it has concurrent readers: a chain is applied as one batch. Records are read from the log, not kept in memory: a member
//! that falls behind its commit point holds one group of them.

use std::sync::atomic::Ordering;

use arbor_base::Position;
use arbor_engine::{Batch, Op};
use arbor_log::{Log, Reader};

use crate::chain::{Assembler, Part};
use crate::commit::{CommitPath, log_error};
use crate::group::{Committed, Lead};
use crate::record::Record;
use crate::{Error, ReadView, Result};

/// Bytes of operations that are applied together, about.
const GROUP_BYTES: usize = 1 << 20;
const GROUP_RECORDS: usize = 256;

/// Keeps the memory of the layers above in step with records that another member has committed. Its calls come in the order of the log,
/// with the commit lock held: it must not commit.
pub trait Applied: Send + Sync {
    /// These operations are going to be visible.
    fn before(&self, ops: &[Op]);

    /// These records are visible; the view shows them and nothing later.
    fn after(&self, records: &[(Position, Record)], view: &ReadView);

    /// An initial sync has ended: the view shows another state.
    fn replaced(&self, _: &ReadView) {}
}

pub(crate) struct Applier {
    reader: Reader,
    assembler: Assembler,
    /// Read and not applied: the engine had no space.
    group: Vec<(Position, Record)>,
    /// Read, and it refers to a load that is not here.
    waiting: Option<(Position, Record)>,
    /// The reader began inside a chain and went to its beginning.
    went_back: bool,
}

impl Applier {
    pub(crate) fn new(log: &Log, applied: Position) -> Applier {
        let reader = log.read(applied.next());
        Applier { reader, assembler: Assembler::default(), group: Vec::new(), waiting: None, went_back: false }
    }

    /// Makes sure that there is a group, of records up to `limit`. Returns true if there is.
    fn fill(&mut self, log: &Log, limit: Position, has: impl Fn(&(Position, Record)) -> Result<bool>) -> Result<bool> {
        let mut bytes = 0;
        if let Some(waiting) = self.waiting.take() {
            // Behind everything before it, which may create the tree.
            if !self.group.is_empty() || !has(&waiting)? {
                self.waiting = Some(waiting);
                return Ok(!self.group.is_empty());
            }
            self.group.push(waiting);
        }
        while self.group.len() < GROUP_RECORDS && bytes < GROUP_BYTES && self.reader.position() <= limit {
            let Some(read) = self.reader.next_borrowed() else { break };
            let (position, payload) = read.map_err(log_error)?;
            bytes += payload.len();
            let corrupt = |reason| Error::CorruptRecord { position, reason };
            match self.assembler.take(payload).map_err(corrupt)? {
                Part::Record(record) if record.loads.is_empty() => self.group.push((position, record)),
                Part::Record(record) => {
                    let waiting = (position, record);
                    if !self.group.is_empty() || !has(&waiting)? {
                        self.waiting = Some(waiting);
                        break;
                    }
                    self.group.push(waiting);
                }
                Part::Link => {}
                Part::Inside(_) if self.went_back => return Err(corrupt("a chain without its first link")),
                Part::Inside(links) => {
                    self.went_back = true;
                    self.reader = log.read(Position(position.0.saturating_sub(links.into())));
                }
            }
        }
        Ok(!self.group.is_empty())
    }
}

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
        Ok(true)
    }

    /// Bytes of log for the next checkpoint, as a leader counts them.
    fn count_applied(&self, group: &[(Position, Record)]) {
        let bytes = group.iter().flat_map(|(_, record)| &record.ops).map(|op| op.bytes() as u64).sum();
        self.log_bytes().fetch_add(bytes, Ordering::Relaxed);
    }
}
