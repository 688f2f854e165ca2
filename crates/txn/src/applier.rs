//! The log of another leader on its way into the engine of this member, as far as the set has committed it.
//!
//! Unlike recovery it has concurrent readers: a chain is applied as one batch. Records are read from the log, not kept in memory: a member
//! that falls behind its commit point holds one group of them.

use arbor_base::Position;
use arbor_engine::Op;
use arbor_log::{Log, Reader};

use crate::chain::{Assembler, Part};
use crate::error::log_error;
use crate::packed::unpacked_bytes;
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
    pub group: Vec<(Position, Record)>,
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
    pub(crate) fn fill(
        &mut self,
        log: &Log,
        limit: Position,
        has: impl Fn(&(Position, Record)) -> Result<bool>,
    ) -> Result<bool> {
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
            bytes += unpacked_bytes(payload);
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
