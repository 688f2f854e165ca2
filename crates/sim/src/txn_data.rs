//! A member's data in the real thing: `arbor-txn` with its log and an engine on a disk that loses and tears unsynced writes, and the
//! sessions of `arbor-session`. An operation is a transaction, whose note says which one it was; what it writes is the part of [`Rows`].
//!
//! Besides the checks of the oracle:
//! - T1: all records that were durable are there after a crash, and no record that was not written;
//! - T2: a commit that `txn` reports as done is applied, and one that it reports as unsettled is not;
//! - T3: counters agree with what was written.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use arbor_base::{Position, Random, TreeId, scatter};
use arbor_disk::FaultyDisk;
use arbor_engine::Engine;
use arbor_engine::model::ModelEngine;
use arbor_engine_set::{EngineSet, Kind, SetOptions};
use arbor_ftree::{Forest, Options as ForestOptions};
use arbor_log::{Log, LogOptions, Member};
use arbor_repl::isr::{Epochs, Found};
use arbor_repl::{Epoch, StoreId};
use arbor_session::{Intent, SessionId, Sessions};
use arbor_store::UpdateMessages;
use arbor_txn::chain::{Assembler, Part};
use arbor_txn::fetch::{Peer, Source, SyncMarker};
use arbor_txn::record::Record;
use arbor_txn::{Error, Opening, Options, Pending, Retention, Transaction, Transactions, TreeOptions, View, trees_of};
use tempfile::TempDir;
use uuid::Uuid;

use crate::data::{Data, Written};
use crate::operation::{Documents, KEYS, Operation, chain};
use crate::plan::Defect;
use crate::rows::Rows;
use crate::world::SESSIONS;

const SESSION_ROWS: TreeId = TreeId(5);

/// Small, so that a run has many segments, chains, and reads of rows in the place of remembered conflicts.
const SEGMENT_BYTES: u64 = 3_000;
const CONFLICT_KEYS: usize = 60;

pub(crate) struct TxnData<R: Rows> {
    store: StoreId,
    disk: FaultyDisk,
    roster: Option<TempDir>,
    wall: Arc<AtomicI64>,
    /// `None` only while a process ends.
    open: Option<Open<R>>,
    saved: Epoch,
    /// By position.
    records: Vec<Seen>,
    assembler: Assembler,
    shown: Shown,
    pending: Vec<(Pending, Option<R::Guards>)>,
    loads: Vec<u64>,
    full: bool,
    defect: Option<Defect>,
    catalogue_changes: u64,
}

/// A record of the log: the hash of all up to it, and what it does.
struct Seen {
    chain: u64,
    operation: Operation,
}

struct Shown {
    position: Position,
    documents: Documents,
    trees: u64,
    /// No tree is ahead.
    is_readable: bool,
}

struct Open<R> {
    engine: Engines,
    /// Before the transactions: it ends what is under way on them.
    rows: R,
    transactions: Arc<Transactions>,
    sessions: Arc<Sessions<()>>,
    member: Member,
}

enum Stored {
    Model(Arc<ModelEngine>),
    Ftree(Arc<Forest>),
}

impl Stored {
    fn engine(&self) -> Arc<dyn Engine> {
        match self {
            Stored::Model(engine) => engine.clone(),
            Stored::Ftree(forest) => forest.clone(),
        }
    }
}

/// The names of a member's engines. The second has what changes its engine (`collections`).
pub(crate) const ENGINES: [&str; 2] = ["first", "second"];

struct Engines {
    first: Stored,
    second: Arc<ModelEngine>,
    /// Both of them, or the first.
    all: Arc<dyn Engine>,
}

impl Engines {
    /// `roster`: where a set of both lists its members. It is always durable.
    fn open(first: Stored, second: ModelEngine, roster: Option<&Path>) -> Engines {
        let second = Arc::new(second);
        let all: Arc<dyn Engine> = match roster {
            None => first.engine(),
            Some(directory) => {
                let opened: [Arc<dyn Engine>; 2] = [first.engine(), second.clone()];
                let kinds = ENGINES.into_iter().zip(opened).map(|(name, engine)| {
                    Kind::new(name, move |directory| {
                        std::fs::create_dir_all(directory).expect("a directory is made");
                        Ok(engine.clone())
                    })
                });
                let set = EngineSet::open(directory, kinds.collect(), ENGINES[0], ENGINES[0]);
                let options =
                    SetOptions { adapts: true, updates: Some(Arc::new(UpdateMessages)), ..SetOptions::default() };
                Arc::new(set.and_then(|set| set.with_options(options)).expect("engines open after every crash"))
            }
        };
        Engines { first, second, all }
    }
}

fn open_forest(disk: &FaultyDisk) -> Stored {
    let options = ForestOptions {
        threads: 0,
        memtable_bytes: 2_000,
        checkpoint_interval_ms: 0,
        updates: Some(Arc::new(UpdateMessages)),
        ..ForestOptions::new(Arc::new(disk.clone()), 8 << 20)
    };
    Stored::Ftree(Arc::new(Forest::open(Path::new("data/ftree"), options).expect("ftree opens after every crash")))
}

fn open<R: Rows>(disk: &FaultyDisk, engine: Engines, wall: &Arc<AtomicI64>, defect: Option<Defect>) -> Open<R> {
    let log = LogOptions { segment_bytes: SEGMENT_BYTES, background: false, ..LogOptions::default() };
    let log = Log::open(Arc::new(disk.clone()), Path::new("data/log"), log).expect("a log opens after every crash");
    let member = Member::open(Arc::new(disk.clone()), Path::new("data")).expect("arbor.member opens after every crash");
    let wall = wall.clone();
    let options = Options {
        checkpoint_thread: false,
        in_flight_wait: Duration::ZERO,
        apply_wait: Duration::ZERO,
        record_bytes_max: R::RECORD_BYTES,
        conflict_keys_max: CONFLICT_KEYS,
        // No log is trimmed: a member that needs more than there is would have to begin again.
        sync_marker: (defect != Some(Defect::AheadForgotten))
            .then(|| SyncMarker::new(Arc::new(disk.clone()), Path::new("data"))),
        history: Some(Retention { bytes: u64::MAX, time: Duration::from_secs(1 << 30) }),
        clock: Some(Arc::new(move || wall.load(Ordering::Relaxed))),
        updates: Some(Arc::new(UpdateMessages)),
        ..Options::default()
    };
    let transactions = Transactions::open_as(Opening::Follower, log, engine.all.clone(), options);
    let transactions = transactions.expect("the log fits the engine after every crash");
    let sessions = Arc::new(Sessions::new(transactions.clone()));
    let rows = R::open(transactions.clone(), defect);
    Open { engine, rows, transactions, sessions, member }
}

impl<R: Rows> TxnData<R> {
    /// On the reference engine.
    pub(crate) fn on_model(store: StoreId) -> TxnData<R> {
        TxnData::new(store, false)
    }

    /// On the fractal tree.
    pub(crate) fn on_ftree(store: StoreId) -> TxnData<R> {
        TxnData::new(store, true)
    }

    fn new(store: StoreId, on_ftree: bool) -> TxnData<R> {
        let disk = FaultyDisk::new();
        let wall = Arc::new(AtomicI64::new(0));
        let first = if on_ftree { open_forest(&disk) } else { Stored::Model(Arc::default()) };
        let roster = R::HAVE_TREES.then(|| tempfile::tempdir().expect("a directory is made"));
        let engines = Engines::open(first, ModelEngine::new(), roster.as_ref().map(TempDir::path));
        let open = Some(open(&disk, engines, &wall, None));
        let shown = Shown { position: Position::ZERO, documents: Documents::default(), trees: 0, is_readable: true };
        let mut data = TxnData {
            store,
            disk,
            roster,
            wall,
            open,
            saved: Epoch(0),
            records: Vec::new(),
            assembler: Assembler::default(),
            shown,
            pending: Vec::new(),
            loads: Vec::new(),
            full: false,
            defect: None,
            catalogue_changes: 0,
        };
        data.show();
        data
    }

    fn open(&self) -> &Open<R> {
        self.open.as_ref().expect("the end of a process opens the data again")
    }

    fn transactions(&self) -> &Transactions {
        &self.open().transactions
    }

    fn log(&self) -> &Log {
        self.transactions().log()
    }

    /// Works with what space the disk has now.
    fn with_space<T>(&self, work: impl FnOnce(&Transactions) -> T) -> T {
        self.limit_space();
        let outcome = work(self.transactions());
        self.disk.set_capacity(None);
        outcome
    }

    fn limit_space(&self) {
        if self.full {
            self.disk.leave_free(20);
        }
    }

    /// Works on the rows with what space the disk has now, and lets a change of the catalogue proceed.
    fn with_rows<T>(&mut self, work: impl FnOnce(&mut R) -> T) -> T {
        self.limit_space();
        let open = self.open.as_mut().expect("the end of a process opens the data again");
        let outcome = work(&mut open.rows);
        open.rows.proceed(self.pending.iter().filter_map(|(_, held)| held.as_ref()));
        self.catalogue_changes += open.rows.take_done();
        self.disk.set_capacity(None);
        self.take_note();
        outcome
    }

    /// Takes note of the records that the log has got.
    fn take_note(&mut self) {
        let log = self.open().transactions.log().clone();
        let mut reader = log.read(Position(self.records.len() as u64 + 1));
        while let Some(read) = reader.next() {
            let (position, payload) = read.expect("the log is whole");
            assert_eq!(position.0, self.records.len() as u64 + 1, "T1: positions are consecutive");
            let before = self.records.last().map_or(0, |record| record.chain);
            let chain = chain(before, reader.epoch(), &payload);
            let part = self.assembler.take(&payload).expect("records are read as they were written");
            let operation = match part {
                Part::Record(record) => operation_of(&record, R::NOTES),
                Part::Link | Part::Inside(_) => Operation::Nothing,
            };
            self.records.push(Seen { chain, operation });
        }
    }

    /// Reads the log again: its end was cut off.
    fn note_cut(&mut self) {
        self.records.clear();
        self.assembler.reset();
        self.take_note();
    }

    fn show_more(&mut self) {
        if self.open().engine.all.applied() > self.shown.position {
            self.show();
        }
    }

    /// Reads what readers see.
    fn show(&mut self) {
        let open = self.open();
        let engine = open.engine.all.clone();
        let view = open.transactions.read().expect("the engine reads");
        let position = view.position();
        let documents = self.open().rows.documents(&view);
        let mut trees = trees_of(&*engine).expect("the ledger reads");
        trees.extend([TreeId(1)]);
        trees.sort_unstable();
        trees.dedup();
        let unfinished = open.rows.unfinished_trees(&view);
        trees.retain(|tree| !unfinished.contains(tree));
        let mut hash = 1;
        for tree in trees {
            let Ok(mut cursor) = view.cursor(tree) else { continue };
            let mut valid = cursor.first().expect("the engine reads");
            while valid {
                hash = chain(chain(hash, tree.0, cursor.key()), cursor.value().len() as u64, cursor.value());
                valid = cursor.next().expect("the engine reads");
            }
        }
        let is_readable = self.transactions().loads().unreadable_until().is_none();
        self.shown = Shown { position, documents, trees: scatter(hash), is_readable };
    }

    fn seen(&self, position: Position) -> Option<&Seen> {
        self.records.get((position.0 as usize).checked_sub(1)?)
    }

    /// T3
    fn check_rows(&self) {
        if !self.shown.is_readable {
            return;
        }
        let mut writes = [0; KEYS as usize];
        for record in self.records.iter().take(self.shown.position.0 as usize) {
            if let Operation::Put { key, .. } | Operation::CompareAndSet { key, .. } = record.operation
                && let Some(written) = writes.get_mut(key as usize)
            {
                *written += 1;
            }
        }
        self.open().rows.check((self.shown.position, &self.shown.documents), &writes);
    }

    /// T2
    fn settle(&mut self) {
        self.transactions().validate();
        let applied = self.applied();
        self.pending.retain(|(pending, _)| match pending.outcome() {
            None => {
                assert!(pending.position() > applied, "T2: {:?} is applied and not settled", pending.position());
                true
            }
            Some(Ok(position)) => {
                assert!(position <= applied, "T2: {position:?} is done, and {applied:?} is applied");
                false
            }
            Some(Err(Error::Unsettled { position })) => {
                assert!(position > applied, "T2: {position:?} is not settled, and {applied:?} is applied");
                false
            }
            Some(Err(error)) => panic!("T2: {error}"),
        });
    }

    /// Opens what a crash left, and compares it with what was there.
    fn reopen(&mut self, disk: FaultyDisk, engine: impl Fn(&ModelEngine) -> ModelEngine) {
        let durable = self.log().durable();
        self.disk = disk;
        let before = &self.open().engine;
        let first = match &before.first {
            Stored::Model(model) => Stored::Model(Arc::new(engine(model))),
            Stored::Ftree(_) => open_forest(&self.disk),
        };
        let engine = Engines::open(first, engine(&before.second), self.roster.as_ref().map(TempDir::path));
        // The old one goes after the new one is there: its end syncs nothing.
        let old = self.open.replace(open(&self.disk, engine, &self.wall, self.defect));
        self.pending.clear();
        drop(old);
        let before: Vec<u64> = self.records.iter().map(|record| record.chain).collect();
        self.note_cut();
        assert!(self.end() >= durable, "T1: {durable:?} was durable, {:?} is left", self.end());
        let same = self.records.iter().map(|record| record.chain).eq(before.into_iter().take(self.records.len()));
        assert!(same, "T1: the log has records that were never written");
        assert_eq!(self.open().member.epoch(), self.saved.0, "M1: the saved epoch");
        assert_eq!(self.log().durable(), self.end(), "what a start finds is durable");
        self.show();
    }

    /// Begins the trees that all operations need. True: they are there already.
    fn has_trees(&mut self) -> bool {
        let mut txn = self.transactions().begin().expect("the engine reads");
        let fixed = R::TREES.iter().copied().chain([SESSION_ROWS]);
        let missing: Vec<TreeId> = fixed.filter(|tree| txn.cursor(*tree).is_err()).collect();
        if missing.is_empty() {
            return self.with_rows(R::is_ready);
        }
        if self.pending.is_empty() {
            for tree in missing {
                txn.create_fixed_tree(tree, TreeOptions::default()).expect("the engine reads");
            }
            self.commit((txn, None));
        }
        false
    }

    fn commit(&mut self, (txn, held): (Transaction, Option<R::Guards>)) -> Written {
        let written = match self.with_space(|_| txn.commit_begin()) {
            Ok(pending) => {
                let position = pending.position();
                self.pending.push((pending, held));
                Written::Logged(position)
            }
            Err(Error::Conflict | Error::OutOfSpace { .. } | Error::NotLeading | Error::Refused { .. }) => {
                Written::Refused
            }
            Err(error) => panic!("a commit failed: {error}"),
        };
        self.take_note();
        written
    }
}

fn operation_of(record: &Record, notes: TreeId) -> Operation {
    let note = record.notes.iter().find(|note| note.tree == notes);
    note.map_or(Operation::Nothing, |note| Operation::decode(&note.about).expect("notes are operations"))
}

impl<R: Rows> Data for TxnData<R> {
    const RETRIES: bool = true;

    const HAVE_CATALOGUE: bool = R::HAVE_CATALOGUE;

    const HAVE_TREES: bool = R::HAVE_TREES;

    fn set_defect(&mut self, defect: Option<Defect>) {
        self.defect = defect;
    }

    fn set_wall(&mut self, ms: i64) {
        self.wall.store(ms, Ordering::Relaxed);
    }

    fn store(&self) -> StoreId {
        self.store
    }

    fn found(&self) -> Found {
        let (log, end) = (self.log(), self.end());
        let epochs = log.epochs();
        // The newest epoch may have no record yet.
        let with_records = epochs.begins().iter().filter(|(_, first)| *first <= end);
        let begins = with_records.map(|(epoch, first)| (Epoch(*epoch), *first)).collect();
        Found { saved: self.saved, log: Epochs::new(begins, end), first: log.first(), applied: self.applied() }
    }

    fn crash(&mut self, random: &mut Random) {
        let (killed, seed) = (random.one_in(4), random.next_u64());
        let disk = if killed { self.disk.kill_process() } else { self.disk.crash(seed) };
        self.reopen(disk, |engine| if killed { engine.kill_process() } else { engine.crash() });
    }

    fn end_process(&mut self) {
        self.reopen(self.disk.kill_process(), ModelEngine::kill_process);
    }

    fn save_epoch(&mut self, epoch: Epoch) {
        self.open().member.enter(epoch.0).expect("saved epochs ascend");
        self.saved = epoch;
    }

    fn end(&self) -> Position {
        let end = self.log().appended();
        assert_eq!(end.0, self.records.len() as u64, "all records of the log were noted");
        end
    }

    fn durable(&self) -> Position {
        self.log().durable()
    }

    fn append(&mut self, epoch: Epoch, payloads: &[Vec<u8>]) -> bool {
        let (after, parts) = (self.end(), payloads.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let outcome = self.with_space(|transactions| transactions.receive(epoch.0, after, &parts));
        self.take_note();
        match outcome {
            Ok(end) => {
                assert_eq!(end, self.end(), "the end after an append");
                true
            }
            Err(Error::OutOfSpace { .. }) => false,
            Err(error) => panic!("an append failed: {error}"),
        }
    }

    fn lead(&mut self, epoch: Epoch) -> bool {
        self.stop_leading();
        let outcome = self.with_space(|transactions| transactions.lead(epoch.0));
        self.take_note();
        match outcome {
            Ok(pending) => {
                self.pending.push((pending, None));
                true
            }
            Err(Error::OutOfSpace { .. }) => false,
            Err(error) => panic!("an epoch does not begin: {error}"),
        }
    }

    fn set_paused(&mut self, paused: bool) {
        match paused {
            true => drop(self.transactions().pause_commits()),
            false => self.transactions().resume_commits(),
        }
    }

    fn stop_leading(&mut self) {
        self.transactions().stop_leading();
        if self.defect != Some(Defect::SessionsKept) {
            self.open().sessions.forget_terms();
        }
        self.with_rows(R::stop_leading);
        self.show_more();
        self.settle();
        assert!(self.pending.is_empty(), "T2: all commits of a term that has ended are settled");
    }

    fn write(&mut self, _epoch: Epoch, operation: Operation) -> Written {
        if !self.has_trees() {
            return Written::Refused;
        }
        let Some(value) = operation.value() else {
            return match self.open().rows.begin(operation) {
                Ok((txn, held)) => self.commit((txn, Some(held))),
                Err(written) => written,
            };
        };
        let id = SessionId { id: Uuid::from_u128(u128::from(value % SESSIONS) + 1), user: [0; 32] };
        let sessions = self.open().sessions.clone();
        let number = (value / SESSIONS) as i64;
        // Refused: a later write of the session came before.
        let Ok(session) = sessions.check_out(id, number, Intent::Write, 0, &|| false) else { return Written::Never };
        if session.journal().executed(0).expect("the rows read").is_some() {
            return Written::Before;
        }
        let (mut txn, held) = match self.open().rows.begin(operation) {
            Ok(begun) => begun,
            Err(written) => return written,
        };
        session.journal().record(&mut txn, [(0, b"".as_slice())]).expect("the rows read");
        self.commit((txn, Some(held)))
    }

    fn operation_at(&self, position: Position) -> Option<Operation> {
        self.seen(position).map(|record| record.operation)
    }

    fn apply_until(&mut self, commit: Position) -> Vec<(Position, bool)> {
        let before = self.applied();
        match self.with_space(|transactions| transactions.set_matched_commit_point(commit)) {
            Ok(_) | Err(Error::OutOfSpace { .. }) => {}
            Err(error) => panic!("what is committed is not applied: {error}"),
        }
        self.with_rows(|_| ());
        self.show_more();
        let applied = self.applied();
        if applied > before {
            self.check_rows();
            self.settle();
            self.with_rows(|_| ());
        }
        (before.0 + 1..=applied.0).map(|position| (Position(position), true)).collect()
    }

    fn change(&mut self, choice: u64) {
        self.with_rows(|rows| rows.change(choice));
    }

    fn catalogue_changes(&self) -> u64 {
        self.catalogue_changes
    }

    fn trees(&self) -> Option<u64> {
        Some(self.shown.trees)
    }

    fn read(&self, after: Position, last: Position) -> Vec<Vec<u8>> {
        let read = self.log().read(after.next()).take((last.0 - after.0) as usize);
        read.map(|record| record.expect("the log is whole").1).collect()
    }

    fn cut_behind(&mut self, position: Position) {
        self.transactions().cut_behind(position).expect("what is not committed is cut");
        self.note_cut();
        assert_eq!(self.end(), position, "the end after a cut");
    }

    fn sync(&mut self, position: Position) {
        let position = position.min(self.end());
        self.log().wait_durable(position).expect("the disk syncs");
        if position.0.is_multiple_of(5) {
            self.log().prepare_segment().expect("there is space");
        }
    }

    /// The position that was last shown: a write after a full disk applies what was in flight, and the next call reports it.
    fn applied(&self) -> Position {
        self.shown.position
    }

    fn checkpoint(&mut self) {
        match self.with_space(Transactions::checkpoint_now) {
            Ok(_) | Err(Error::OutOfSpace { .. }) => {}
            Err(error) => panic!("a checkpoint failed: {error}"),
        }
    }

    fn documents(&self) -> &Documents {
        &self.shown.documents
    }

    fn set_full(&mut self, full: bool) {
        self.full = full;
    }

    fn chain_at(&self, position: Position) -> Option<u64> {
        if position == Position::ZERO { Some(0) } else { self.seen(position).map(|record| record.chain) }
    }

    fn open_loads(&self) -> Vec<u64> {
        self.transactions().loads().open()
    }

    fn set_everywhere(&mut self, load: u64) {
        self.transactions().loads().set_everywhere(load);
        self.with_rows(|_| ());
    }

    fn peer(&self) -> Option<Box<dyn Peer>> {
        Some(Box::new(Source::new(self.open().transactions.clone())))
    }

    fn fetch(&mut self, offered: &[u64], from: &dyn Peer) {
        let fetched = self.with_space(|transactions| {
            transactions.fetch_offered(offered, from, &|| false)?;
            transactions.fetch_missing(from, &|| false)
        });
        match fetched {
            // A peer that has restarted may not have come so far again.
            Ok(_) | Err(Error::OutOfSpace { .. } | Error::Peer { .. }) => {}
            Err(error) => panic!("a load is not fetched: {error}"),
        }
        self.show_more();
    }

    fn is_readable(&self) -> bool {
        self.shown.is_readable
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
        if R::HAVE_TREES { self.transactions().loads().own() } else { self.loads.clone() }
    }

    fn load_missing(&self, from: Position) -> Option<Position> {
        if R::HAVE_TREES {
            return self.transactions().loads().missing();
        }
        let missing = |record: &Seen| matches!(record.operation, Operation::Loaded { load } if !self.has_load(load));
        let at = self.records.iter().skip(from.0 as usize).position(missing)?;
        Some(Position(from.0 + at as u64 + 1))
    }
}
