//! The data of a member: its log, its documents, the epoch that it saved.

use arbor_base::{Position, Random};
use arbor_repl::isr::{Epochs, Found};
use arbor_repl::{Epoch, StoreId};
use arbor_txn::fetch::Peer;

use crate::operation::{Documents, Operation, chain};
use crate::plan::Defect;

/// Outcome of a client's write at a primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// It is in the log, up to this position.
    Logged(Position),
    /// An earlier request of the same write did it.
    Before,
    /// Nothing was written; the same request may succeed later.
    Refused,
    /// Nothing was written, and never will be.
    Never,
}

/// The data of one member on its disk and in its memory.
pub trait Data {
    /// Writes whose outcome is not known are requested again: they take effect once.
    const RETRIES: bool = false;

    /// Clients change the catalogue.
    const HAVE_CATALOGUE: bool = false;

    /// Asks the primary's data for a change of the catalogue.
    fn change(&mut self, _choice: u64) {}

    /// Changes of the catalogue that were done by this member.
    fn catalogue_changes(&self) -> u64 {
        0
    }

    /// Loads are trees that builds and changes of engines fill, instead of numbers.
    const HAVE_TREES: bool = false;

    /// Loads that the other members should get.
    fn open_loads(&self) -> Vec<u64> {
        Vec::new()
    }

    /// Every member that is waited for has the load.
    fn set_everywhere(&mut self, _load: u64) {}

    /// Serves trees to another member.
    fn peer(&self) -> Option<Box<dyn Peer>> {
        None
    }

    /// Fetches loads that are offered, and those that the log refers to.
    fn fetch(&mut self, _offered: &[u64], _from: &dyn Peer) {}

    /// False: a tree is ahead of what is applied, so that what is here is no state of the set.
    fn is_readable(&self) -> bool {
        true
    }

    /// Builds a defect in.
    fn set_defect(&mut self, _defect: Option<Defect>) {}

    /// Sets the system's clock, which may go back.
    fn set_wall(&mut self, _ms: i64) {}

    /// Ends the process and opens the data again.
    fn end_process(&mut self) {}

    /// Begins an epoch with an empty record. False: there is no space.
    fn lead(&mut self, epoch: Epoch) -> bool {
        self.append(epoch, &[Operation::Nothing.encode()])
    }

    /// Commits are refused while this member hands over.
    fn set_paused(&mut self, _paused: bool) {}

    /// Another member leads, or none.
    fn stop_leading(&mut self) {}

    /// Appends a client's operation, by the primary.
    fn write(&mut self, epoch: Epoch, operation: Operation) -> Written {
        match self.append(epoch, &[operation.encode()]) {
            true => Written::Logged(self.end()),
            false => Written::Refused,
        }
    }

    /// The operation of a record in the log.
    fn operation_at(&self, position: Position) -> Option<Operation>;

    /// Applies the records up to a position, as far as there is space; returns their positions, and whether they took effect.
    fn apply_until(&mut self, commit: Position) -> Vec<(Position, bool)>;

    /// Hash of everything that readers see, where the oracle has no copy of it.
    fn trees(&self) -> Option<u64> {
        None
    }

    fn store(&self) -> StoreId;

    /// Returns what a start finds.
    fn found(&self) -> Found;

    /// Loses what a power failure loses: all that is durable stays, and some first part of what is not.
    fn crash(&mut self, random: &mut Random);

    fn save_epoch(&mut self, epoch: Epoch);

    fn end(&self) -> Position;

    fn durable(&self) -> Position;

    /// Appends records, all or none. False: there is no space.
    fn append(&mut self, epoch: Epoch, payloads: &[Vec<u8>]) -> bool;

    fn read(&self, after: Position, last: Position) -> Vec<Vec<u8>>;

    fn cut_behind(&mut self, position: Position);

    /// Makes the log durable up to a position, as far as it still has it.
    fn sync(&mut self, position: Position);

    fn applied(&self) -> Position;

    /// Makes the applied state durable.
    fn checkpoint(&mut self);

    fn documents(&self) -> &Documents;

    fn set_full(&mut self, full: bool);

    /// Hash of all records up to a position of the log.
    fn chain_at(&self, position: Position) -> Option<u64>;

    fn add_load(&mut self, load: u64);

    fn has_load(&self, load: u64) -> bool;

    fn loads(&self) -> Vec<u64>;

    /// The first record after `from` that refers to a load which is not here.
    fn load_missing(&self, from: Position) -> Option<Position>;
}

/// A log and documents in memory.
#[derive(Clone, Debug)]
pub struct ModelData {
    store: StoreId,
    saved: Epoch,
    records: Vec<Record>,
    durable: Position,
    applied: Position,
    documents: Documents,
    checkpoint: (Position, Documents),
    loads: Vec<u64>,
    full: bool,
}

#[derive(Clone, Debug)]
struct Record {
    epoch: Epoch,
    payload: Vec<u8>,
    chain: u64,
}

impl ModelData {
    pub fn new(store: StoreId) -> ModelData {
        ModelData {
            store,
            saved: Epoch(0),
            records: Vec::new(),
            durable: Position::ZERO,
            applied: Position::ZERO,
            documents: Documents::default(),
            checkpoint: (Position::ZERO, Documents::default()),
            loads: Vec::new(),
            full: false,
        }
    }

    /// Ends the log at what a crash left.
    pub fn cut_to(&mut self, end: Position) {
        self.records.truncate(end.0 as usize);
        self.durable = end;
    }

    /// Continues with the documents of the last checkpoint.
    pub fn restart(&mut self) {
        (self.applied, self.documents) = self.checkpoint;
    }

    pub fn epoch_at(&self, position: Position) -> Epoch {
        self.record(position).map_or(Epoch(0), |record| record.epoch)
    }

    fn record(&self, position: Position) -> Option<&Record> {
        self.records.get((position.0 as usize).checked_sub(1)?)
    }
}

impl Data for ModelData {
    fn store(&self) -> StoreId {
        self.store
    }

    fn found(&self) -> Found {
        let mut begins: Vec<(Epoch, Position)> = Vec::new();
        for (index, record) in self.records.iter().enumerate() {
            if begins.last().is_none_or(|(epoch, _)| *epoch < record.epoch) {
                begins.push((record.epoch, Position(index as u64 + 1)));
            }
        }
        let log = Epochs::new(begins, self.end());
        Found { saved: self.saved, log, first: Position(1), applied: self.applied }
    }

    fn crash(&mut self, random: &mut Random) {
        let unsynced = self.end().0 - self.durable.0;
        self.cut_to(Position(self.durable.0 + random.below(unsynced + 1)));
        self.restart();
    }

    fn save_epoch(&mut self, epoch: Epoch) {
        self.saved = epoch;
    }

    fn end(&self) -> Position {
        Position(self.records.len() as u64)
    }

    fn durable(&self) -> Position {
        self.durable
    }

    fn append(&mut self, epoch: Epoch, payloads: &[Vec<u8>]) -> bool {
        if self.full {
            return false;
        }
        for payload in payloads {
            let before = self.records.last().map_or(0, |record| record.chain);
            let chain = chain(before, epoch.0, payload);
            self.records.push(Record { epoch, payload: payload.clone(), chain });
        }
        true
    }

    fn read(&self, after: Position, last: Position) -> Vec<Vec<u8>> {
        let records = self.records.get(after.0 as usize..last.0 as usize).unwrap_or_default();
        records.iter().map(|record| record.payload.clone()).collect()
    }

    fn cut_behind(&mut self, position: Position) {
        self.records.truncate(position.0 as usize);
        self.durable = self.durable.min(position);
    }

    fn sync(&mut self, position: Position) {
        self.durable = self.durable.max(position.min(self.end()));
    }

    fn applied(&self) -> Position {
        self.applied
    }

    fn operation_at(&self, position: Position) -> Option<Operation> {
        Operation::decode(&self.record(position)?.payload)
    }

    fn apply_until(&mut self, commit: Position) -> Vec<(Position, bool)> {
        let mut applied = Vec::new();
        while self.applied < commit.min(self.end()) {
            self.applied = self.applied.next();
            let operation = self.operation_at(self.applied).expect("the log has operations only");
            applied.push((self.applied, self.documents.apply(operation)));
        }
        applied
    }

    fn checkpoint(&mut self) {
        if self.applied <= self.durable {
            self.checkpoint = (self.applied, self.documents);
        }
    }

    fn documents(&self) -> &Documents {
        &self.documents
    }

    fn set_full(&mut self, full: bool) {
        self.full = full;
    }

    fn chain_at(&self, position: Position) -> Option<u64> {
        if position == Position::ZERO {
            return Some(0);
        }
        self.record(position).map(|record| record.chain)
    }

    fn add_load(&mut self, load: u64) {
        if !self.loads.contains(&load) {
            self.loads.push(load);
        }
    }

    fn has_load(&self, load: u64) -> bool {
        self.loads.contains(&load)
    }

    fn loads(&self) -> Vec<u64> {
        self.loads.clone()
    }

    fn load_missing(&self, from: Position) -> Option<Position> {
        let later = self.records.iter().enumerate().skip(from.0 as usize);
        let missing = |payload: &[u8]| match Operation::decode(payload) {
            Some(Operation::Loaded { load }) => !self.has_load(load),
            _ => false,
        };
        let mut found = later.filter(|(_, record)| missing(&record.payload));
        found.next().map(|(index, _)| Position(index as u64 + 1))
    }
}
