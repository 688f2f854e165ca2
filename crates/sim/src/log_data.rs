//! A member's data on the real log, on a disk that loses and tears unsynced writes. The model next to it says what the log
//! must hold; each answer of the log is compared with it.

use std::path::Path;
use std::sync::Arc;

use arbor_base::{Position, Random};
use arbor_disk::FaultyDisk;
use arbor_log::{Error, Log, LogOptions, Member};
use arbor_repl::isr::Found;
use arbor_repl::{Epoch, StoreId};

use crate::data::{Data, ModelData};
use crate::operation::{Documents, Operation};

pub struct LogData {
    disk: FaultyDisk,
    /// `None` only while a crash is carried out.
    open: Option<Open>,
    model: ModelData,
    full: bool,
}

struct Open {
    log: Log,
    member: Member,
}

/// Small, so that a run has many segments.
const SEGMENT_BYTES: u64 = 2_000;

fn open(disk: &FaultyDisk) -> Open {
    let disk = Arc::new(disk.clone());
    let options = LogOptions { segment_bytes: SEGMENT_BYTES, background: false, ..LogOptions::default() };
    let log = Log::open(disk.clone(), Path::new("data/log"), options).expect("a log opens after every crash");
    let member = Member::open(disk, Path::new("data")).expect("arbor.member opens after every crash");
    Open { log, member }
}

impl LogData {
    pub fn new(store: StoreId) -> LogData {
        let disk = FaultyDisk::new();
        let open = Some(open(&disk));
        LogData { disk, open, model: ModelData::new(store), full: false }
    }

    fn open(&self) -> &Open {
        self.open.as_ref().expect("a crash opens the log again")
    }

    fn log(&self) -> &Log {
        &self.open().log
    }

    /// Compares all records of the log with those of the model, after a crash.
    fn compare(&mut self) {
        let end = self.log().appended();
        assert!(end >= self.model.durable(), "L: {:?} were durable, {end:?} are left", self.model.durable());
        assert!(end <= self.model.end(), "L: the log has records that were never written: {end:?}");
        let read = self.log().read(Position(1)).map(|record| record.expect("the log is whole"));
        let records: Vec<(Position, Vec<u8>)> = read.collect();
        assert_eq!(records.len() as u64, end.0, "L: all records are read");
        for (position, payload) in records {
            let before = Position(position.0 - 1);
            assert_eq!(self.model.read(before, position), [payload], "L: the record at {position:?}");
            assert_eq!(self.log().epoch_at(position), Some(self.model.epoch_at(position).0), "L: its epoch");
        }
        self.model.cut_to(end);
        assert_eq!(self.open().member.epoch(), self.model.found().saved.0, "M1: the saved epoch");
    }
}

impl Data for LogData {
    fn store(&self) -> StoreId {
        self.model.store()
    }

    fn found(&self) -> Found {
        let found = self.model.found();
        let begins = self.log().epochs();
        let has = |position: u64| begins.at(Position(position)) == Some(found.log.at(Position(position)).0);
        assert!((1..=found.log.end().0).all(has), "L7: {begins:?} and {found:?}");
        found
    }

    fn crash(&mut self, random: &mut Random) {
        // Before the log is dropped: the end of a process syncs nothing.
        self.disk = self.disk.crash(random.next_u64());
        self.open = None;
        self.open = Some(open(&self.disk));
        self.model.restart();
        self.compare();
    }

    fn save_epoch(&mut self, epoch: Epoch) {
        self.open().member.enter(epoch.0).expect("saved epochs ascend");
        self.model.save_epoch(epoch);
    }

    fn end(&self) -> Position {
        let end = self.log().appended();
        assert_eq!(end, self.model.end(), "L: the end of the log");
        end
    }

    fn durable(&self) -> Position {
        self.model.durable()
    }

    fn append(&mut self, epoch: Epoch, payloads: &[Vec<u8>]) -> bool {
        if self.full {
            self.disk.leave_free(20);
        }
        let parts: Vec<&[u8]> = payloads.iter().map(Vec::as_slice).collect();
        let outcome = self.log().begin_epoch(epoch.0).and_then(|()| self.log().append(&parts));
        self.disk.set_capacity(None);
        match outcome {
            Ok(end) => {
                let fits = self.model.append(epoch, payloads);
                assert!(fits && end == self.model.end(), "L: the end after an append");
                true
            }
            Err(Error::OutOfSpace { .. }) => false,
            Err(error) => panic!("an append failed: {error}"),
        }
    }

    fn read(&self, after: Position, last: Position) -> Vec<Vec<u8>> {
        let count = (last.0 - after.0) as usize;
        let read = self.log().read(after.next()).take(count);
        let payloads: Vec<Vec<u8>> = read.map(|record| record.expect("the log is whole").1).collect();
        assert_eq!(payloads, self.model.read(after, last), "L: the records after {after:?}");
        payloads
    }

    fn cut_behind(&mut self, position: Position) {
        self.log().cut_behind(position).expect("what is not committed is cut");
        self.model.cut_behind(position);
        assert_eq!(self.log().appended(), self.model.end(), "L: the end after a cut");
    }

    fn sync(&mut self, position: Position) {
        let position = position.min(self.model.end());
        self.log().wait_durable(position).expect("the disk syncs");
        if position.0.is_multiple_of(5) {
            self.log().prepare_segment().expect("there is space");
        }
        self.model.sync(self.log().durable());
    }

    fn applied(&self) -> Position {
        self.model.applied()
    }

    fn operation_at(&self, position: Position) -> Option<Operation> {
        self.model.operation_at(position)
    }

    fn apply_until(&mut self, commit: Position) -> Vec<(Position, bool)> {
        self.model.apply_until(commit)
    }

    fn checkpoint(&mut self) {
        self.model.checkpoint();
    }

    fn documents(&self) -> &Documents {
        self.model.documents()
    }

    fn set_full(&mut self, full: bool) {
        self.full = full;
    }

    fn chain_at(&self, position: Position) -> Option<u64> {
        self.model.chain_at(position)
    }

    fn add_load(&mut self, load: u64) {
        self.model.add_load(load);
    }

    fn has_load(&self, load: u64) -> bool {
        self.model.has_load(load)
    }

    fn loads(&self) -> Vec<u64> {
        self.model.loads()
    }

    fn load_missing(&self, from: Position) -> Option<Position> {
        self.model.load_missing(from)
    }
}
