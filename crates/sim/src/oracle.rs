//! Checks O1 to O8: what the members do, compared with one history.

use std::collections::{BTreeMap, BTreeSet};

use arbor_base::Position;
use arbor_repl::{Epoch, MemberId};

use crate::data::Data;
use crate::operation::{Documents, Operation};

/// The history that commit points extend.
#[derive(Default)]
pub struct Oracle {
    committed: Vec<Committed>,
    documents: Documents,
    loads: Vec<u64>,
    /// Values that committed operations have written: each is written once.
    values: BTreeSet<u64>,
    /// Hash of the trees that the first member which applied a position showed there.
    trees: BTreeMap<Position, u64>,
    /// No completed operation has shown a position after this one.
    shown: Position,
    pub acknowledged: u64,
    pub reads: u64,
}

struct Committed {
    chain: u64,
    documents: u64,
    epoch: Epoch,
    operation: Operation,
    took_effect: bool,
    /// The document of the operation's key, after it.
    after: Documents,
}

pub(crate) type Finding = String;

impl Oracle {
    pub fn end(&self) -> Position {
        Position(self.committed.len() as u64)
    }

    fn at(&self, position: Position) -> Option<&Committed> {
        self.committed.get((position.0 as usize).checked_sub(1)?)
    }

    fn chain_at(&self, position: Position) -> u64 {
        self.at(position).map_or(0, |record| record.chain)
    }

    /// O1: a primary's commit point extends the one history.
    pub fn commits(
        &mut self,
        member: MemberId,
        epoch: Epoch,
        data: &impl Data,
        commit: Position,
    ) -> Result<(), Finding> {
        let known = self.end().min(commit);
        if data.chain_at(known) != Some(self.chain_at(known)) {
            return Err(format!(
                "O1: {member:?} commits {commit:?} in {epoch:?}, and its log differs from the history"
            ));
        }
        for position in (known.0 + 1..=commit.min(data.end()).0).map(Position) {
            let operation = data.operation_at(position).ok_or("a record is no operation")?;
            match operation {
                Operation::Nothing => {}
                Operation::Loaded { load } => self.loads.push(load),
                Operation::Put { value, .. } | Operation::CompareAndSet { value, .. } => {
                    if !self.values.insert(value) {
                        return Err(format!("O8: the write of {value} is done again at {position:?}"));
                    }
                }
            }
            let took_effect = self.documents.apply(operation);
            let chain = data.chain_at(position).ok_or("O1: a committed record is not in the log")?;
            let (documents, after) = (self.documents.hash(), self.documents);
            self.committed.push(Committed { chain, documents, epoch, operation, took_effect, after });
        }
        match self.end() >= commit {
            true => Ok(()),
            false => Err(format!("O1: {member:?} commits {commit:?}, which is not in its log")),
        }
    }

    /// O2: a member that is recorded as in sync holds the history on its disk.
    pub fn holds(&self, member: MemberId, data: &impl Data) -> Result<(), Finding> {
        let end = self.end();
        if data.durable() >= end && data.chain_at(end) == Some(self.chain_at(end)) {
            return Ok(());
        }
        Err(format!("O2: {member:?} is in sync and does not have {end:?} on its disk, which has {:?}", data.durable()))
    }

    /// R10: a member that is recorded as in sync has every load to which committed records refer.
    pub fn has_loads(&self, member: MemberId, data: &impl Data) -> Result<(), Finding> {
        if let Some(at) = data.load_missing(data.applied()).filter(|at| *at <= self.end()) {
            return Err(format!("R10: {member:?} is in sync and does not have a load to which {at:?} refers"));
        }
        match self.loads.iter().find(|load| !data.has_load(**load)) {
            None => Ok(()),
            Some(load) => Err(format!("R10: {member:?} is in sync and does not have load {load}")),
        }
    }

    /// Returns true if a member has the history on its disk.
    pub fn is_held_by(&self, data: &impl Data, position: Position) -> bool {
        data.durable() >= position && data.chain_at(position) == Some(self.chain_at(position))
    }

    /// O3: what is applied is committed and is in the log.
    pub fn applied(&self, member: MemberId, data: &impl Data) -> Result<(), Finding> {
        let applied = data.applied();
        if applied <= self.end() && data.chain_at(applied) == Some(self.chain_at(applied)) {
            return Ok(());
        }
        let end = self.end();
        Err(format!("O3: {member:?} has applied {applied:?}, which is not committed ({end:?}) or not in its log"))
    }

    /// O4: equal positions, equal documents.
    pub fn equal(&mut self, member: MemberId, data: &impl Data) -> Result<(), Finding> {
        let applied = data.applied();
        if !data.is_readable() {
            return Ok(());
        }
        if let Some(trees) = data.trees()
            && *self.trees.entry(applied).or_insert(trees) != trees
        {
            return Err(format!("O4: the trees of {member:?} at {applied:?} are not those that another member showed"));
        }
        let expected = self.at(applied).map_or_else(|| Documents::default().hash(), |record| record.documents);
        match data.documents().hash() == expected {
            true => Ok(()),
            false => Err(format!("O4: the documents of {member:?} at {applied:?} are not those of the history")),
        }
    }

    /// The position that an operation which begins now must follow.
    pub fn floor(&self) -> Position {
        self.shown
    }

    /// O5: a write was acknowledged at a position.
    pub fn wrote(
        &mut self,
        floor: Position,
        position: Position,
        requested: Operation,
        done: bool,
    ) -> Result<(), Finding> {
        let record = self.at(position).ok_or_else(|| format!("O5: {position:?} is acknowledged and not committed"))?;
        if record.operation != requested || record.took_effect != done {
            return Err(format!("O5: {position:?} is {:?}, acknowledged was {requested:?}", record.operation));
        }
        if position <= floor {
            return Err(format!("O5: a write at {position:?} began after {floor:?} was shown"));
        }
        self.shown = self.shown.max(position);
        self.acknowledged += 1;
        Ok(())
    }

    /// O8: a write that was requested again had been done before.
    pub fn was_done(&self, requested: Operation) -> Result<(), Finding> {
        match self.committed.iter().any(|record| record.operation == requested) {
            true => Ok(()),
            false => Err(format!("O8: {requested:?} is said to have been done before, and is not committed")),
        }
    }

    /// O5: a read showed a document in the state of a position.
    pub fn read(&mut self, floor: Position, position: Position, key: u64, value: u64) -> Result<(), Finding> {
        if position < floor {
            return Err(format!("O5: a read showed the state at {position:?}, and {floor:?} had been shown before it"));
        }
        let expected = self.at(position).map_or(0, |record| record.after.get(key));
        if value != expected {
            return Err(format!("O5: a read at {position:?} showed {value} for key {key}, not {expected}"));
        }
        self.shown = self.shown.max(position);
        self.reads += 1;
        Ok(())
    }

    /// Returns the epoch of the newest committed record.
    pub fn epoch(&self) -> Epoch {
        self.committed.last().map_or(Epoch(0), |record| record.epoch)
    }
}
