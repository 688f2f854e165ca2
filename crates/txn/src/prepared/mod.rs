//! Prepared transactions: parts of a transaction over several servers that have promised to commit, or to abort, as a coordinator decides.
//!
//! ```text
//! prepare ── a record puts the row: operations, notes, changes of counters ── decision of the coordinator ──┬─ commit_prepared: one
//!                                                                                                             │  record with the operations,
//!                                                                                                             │  which deletes the row
//!                                                                                                             └─ abort_prepared deletes the row
//! commit_deciding: the record of the coordinator's own part puts the decision too
//! ```
//!
//! All of it is rows of one fixed tree, so that followers, recovery and initial sync need nothing more.
//!
//! | key | value |
//! |---|---|
//! | `p`, id, piece (4 bytes, big-endian) | a piece of: version, 1; varint length and bytes of what the caller says about it; varint number of counters, of each the id and the delta as 8 bytes, little-endian; a record as in `record.rs` |
//! | `d`, id | the time of the decision to commit, 8 bytes, little-endian; what the caller says about it |
//!
//! - P1: keys that a prepared transaction writes are written by no other one until it has ended.
//! - P2: a state at a time shows a transaction if that is not before its commit time, the same on all servers. The record of a commit that was
//!   prepared has a later stamp, so its operations are laid over the states between the two times; who wants a state of a time at which
//!   something was prepared waits for the decision.
//! - P3: before the state of a time is shown, the log durably has a record of that time or a later one ([`CommitPath::seal`]). So after a
//!   crash, and on another leader, no record gets a stamp of before what was shown.

pub(crate) mod table;

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use arbor_base::{Position, sometimes};
use arbor_engine::{Engine, Op, Snapshot, TreeOptions};

pub use table::{PendingLock, PreparedInfo, TransactionId};

use crate::chain::{Assembler, Part};
use crate::commit::CommitPath;
use crate::conflict::Footprint;
use crate::error::log_error;
use crate::group::Request;
use crate::ledger::{self, LEDGER};
use crate::overlay::Overlay;
use crate::past::overlay_op;
use crate::record::{self, Reader, Record};
use crate::write_set::{Changes, WriteSet};
use crate::written::{CounterChange, Entry};
use crate::{CounterId, Durability, Error, Patience, ReadView, Result, Transaction, Transactions, View};

use table::{DECISION_PATIENCE, DECISION_PREFIX, Late, PREPARED, PREPARED_PREFIX, Preparing, Settling, Special};

const VERSION: u8 = 1;

/// Bytes of a row; a larger transaction has several.
const ROW_BYTES: usize = 4 << 20;

const COMMIT_PATIENCE: Duration = Duration::from_secs(5);

/// A decision to commit that not all participants are known to have carried out.
#[derive(Clone, Debug)]
pub struct Decision {
    pub id: TransactionId,
    /// Commit time of all parts.
    pub time: u64,
    pub about: Vec<u8>,
}

impl CommitPath {
    /// Reads what is prepared from the engine's state, which is all that was logged.
    pub(crate) fn load_prepared(&self) -> Result<()> {
        self.prepared().clear();
        let snapshot = self.engine().snapshot()?;
        let mut ids = Vec::new();
        {
            let mut cursor = match snapshot.cursor(PREPARED) {
                Err(arbor_engine::Error::UnknownTree(_)) => return Ok(()),
                cursor => cursor?,
            };
            let mut valid = cursor.seek(&[PREPARED_PREFIX])?;
            while valid && let Some((id, piece)) = TransactionId::of_key(PREPARED_PREFIX, cursor.key()) {
                if piece == [0; 4] {
                    ids.push(id);
                }
                valid = cursor.next()?;
            }
        }
        // the commit times of what other leaders have logged are not known here
        self.forget_states();
        for id in ids {
            let (prepared, _) = read_prepared(&*snapshot, &id)?;
            let footprint = Footprint::of(self.hasher(), &prepared.record.ops);
            self.prepared().add(id, prepared.about, 0, footprint, &prepared.record.ops);
        }
        Ok(())
    }

    /// Waits, after a commit hit a prepared key, until that transaction has ended, for a while.
    pub(crate) fn wait_for_owner(&self, id: TransactionId) {
        sometimes!("txn: a commit waits for a prepared key");
        let _ended = self.prepared().wait_ended(id, Instant::now() + COMMIT_PATIENCE);
    }

    pub(crate) fn owner_of(&self, request: &Request) -> Option<TransactionId> {
        match &request.special {
            Special::Settle(_) => None,
            Special::Prepare(preparing) => self.prepared().owner_of(&preparing.footprint, &preparing.ops),
            Special::None | Special::Decide(..) => self.prepared().owner_of(&request.footprint, &request.ops),
        }
    }

    /// Waits for the decisions that a state at `time` depends on.
    pub(crate) fn wait_decided(&self, time: u64) -> Result<()> {
        // what has a stamp of before is in the table when the lock is free
        drop(self.lock());
        match self.prepared().wait_decided(time, Instant::now() + DECISION_PATIENCE) {
            true => Ok(()),
            false => Err(Error::SnapshotTooOld { time }),
        }
    }

    /// Ensures P3 for a time that the clock has reached.
    pub(crate) fn seal(&self, time: u64) -> Result<()> {
        if self.prepared().sealed.load(Ordering::Acquire) >= time {
            return Ok(());
        }
        self.clock().advance(time);
        self.commit_nothing()?;
        assert!(self.clock().last() > time, "P3: the record that seals a time has a later stamp");
        self.prepared().sealed.fetch_max(time, Ordering::AcqRel);
        Ok(())
    }

    fn commit_nothing(&self) -> Result<()> {
        let request = Request::new(&**self.engine(), no_changes()?, Position(u64::MAX), self.hasher(), 0, false)?;
        self.commit_request(request, Durability::Journaled).map(drop)
    }

    /// Lays the commits over a state whose records have later stamps (P2).
    pub(crate) fn with_late(&self, view: ReadView, time: u64) -> Result<ReadView> {
        let mut late = self.prepared().late_at(time);
        if late.is_empty() {
            return Ok(view);
        }
        sometimes!("txn: a commit is laid over a state of before its record");
        late.sort_by_key(|late| late.position);
        let position = view.position();
        assert!(
            late.iter().all(|late| late.position > position),
            "P2: the state at {position} has a late commit already"
        );
        let (snapshot, mut written) = view.into_parts();
        for Late { position, counters, .. } in late {
            let record = self.record_at(position).map_err(|error| match error {
                Error::Log(arbor_log::Error::Trimmed { .. }) => Error::SnapshotTooOld { time },
                error => error,
            })?;
            for op in record.ops.into_iter().filter(|op| op.tree() != LEDGER) {
                overlay_op(&mut written, &*snapshot, self.options().updates.as_deref(), op)?;
            }
            for (id, delta) in counters {
                let before = Overlay { snapshot: &*snapshot, written: &written }.counter(id)?;
                let value = before.wrapping_add(delta).to_le_bytes().to_vec();
                written.tree_mut(LEDGER).entries.insert(ledger::counter_key(id), Entry::of(Some(value.into())));
            }
        }
        Ok(ReadView::replayed(snapshot, written, position))
    }

    /// Returns the record that ends at a position.
    fn record_at(&self, position: Position) -> Result<Record> {
        let corrupt = |reason| Error::CorruptRecord { position, reason };
        let (mut from, mut assembler) = (position, Assembler::default());
        loop {
            let mut reader = self.log().read(from);
            let mut begins_before = None;
            while reader.position() <= position {
                let Some(read) = reader.next_borrowed() else { break };
                let (at, payload) = read.map_err(log_error)?;
                match assembler.take(payload).map_err(corrupt)? {
                    Part::Record(record) if at == position => return Ok(record),
                    Part::Record(_) | Part::Link => {}
                    Part::Inside(links) => {
                        begins_before = Some(Position(at.0.saturating_sub(links.into())));
                        break;
                    }
                }
            }
            match begins_before.filter(|begin| *begin < from) {
                Some(begin) => (from, assembler) = (begin, Assembler::default()),
                None => return Err(corrupt("no record ends here")),
            }
        }
    }

    /// Commits a request that has no transaction.
    fn commit_request(&self, request: Request, durability: Durability) -> Result<Position> {
        // its outcome has to be known
        let _without_deadline = Patience::until(None);
        let position = self.submit_and_settle(request)?;
        self.reach(position, durability)?;
        Ok(position)
    }

    fn settle_prepared(&self, id: &TransactionId, commit_time: Option<u64>) -> Result<Position> {
        if let Some(time) = commit_time {
            self.clock().advance(time);
        }
        let snapshot = self.engine().snapshot()?;
        if !self.prepared().has(id) {
            return Err(Error::NotPrepared);
        }
        let (prepared, pieces) = read_prepared(&*snapshot, id)?;
        drop(snapshot);
        let deletes = (0..pieces).map(|piece| Op::Delete { tree: PREPARED, key: id.row(piece) });
        let (changes, counters) = match commit_time {
            None => (Changes { ops: deletes.collect(), ..no_changes()? }, Vec::new()),
            Some(_) => {
                let Record { logical, places, notes, mut ops, .. } = prepared.record;
                ops.extend(deletes);
                let counters = prepared.counters.iter().map(|(id, delta)| (*id, CounterChange::Add(*delta)));
                let changes = Changes { ops, counters: counters.collect(), logical, places, notes, ..no_changes()? };
                (changes, prepared.counters)
            }
        };
        let special = Special::Settle(Box::new(Settling { id: *id, commit_time, counters }));
        let request = self.special_request(changes, Position(u64::MAX), special)?;
        self.commit_request(request, Durability::Journaled)
    }

    fn special_request(&self, changes: Changes, snapshot: Position, special: Special) -> Result<Request> {
        let noted: usize = changes.notes.iter().map(|note| note.about.len() + 64).sum();
        let bytes = changes.ops.iter().map(Op::bytes).sum::<usize>() + noted + changes.logical.len();
        let chained = bytes > self.options().record_bytes_max;
        let mut request = Request::new(&**self.engine(), changes, snapshot, self.hasher(), bytes, chained)?;
        if self.options().compress_records {
            request.compress();
        }
        Ok(Request { special, ..request })
    }

    fn has_prepared_tree(&self) -> bool {
        self.lock().trees.contains(&PREPARED)
    }
}

fn no_changes() -> Result<Changes> {
    WriteSet::default().into_changes()
}

/// The contents of the rows of a prepared transaction.
struct Prepared {
    about: Vec<u8>,
    counters: Vec<(CounterId, i64)>,
    record: Record,
}

fn encode(about: &[u8], counters: &[(CounterId, i64)], record: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(32 + about.len() + counters.len() * 16 + record.len());
    out.push(VERSION);
    record::push_bytes(&mut out, about);
    record::push_varint(&mut out, counters.len() as u64);
    for (id, delta) in counters {
        out.extend(id.0.to_le_bytes());
        out.extend(delta.to_le_bytes());
    }
    out.extend(record);
    out
}

fn decode(bytes: &[u8]) -> record::Decoded<Prepared> {
    let (version, rest) = bytes.split_first().ok_or("an empty row")?;
    if *version != VERSION {
        return Err("unknown version of a prepared transaction");
    }
    let mut reader = Reader::new(rest);
    let about = reader.bytes()?.to_vec();
    let count = reader.varint()?;
    let mut rest = reader.rest();
    let mut counters = Vec::new();
    for _ in 0..count {
        let (id, after) = rest.split_first_chunk().ok_or("a row ends early")?;
        let (delta, after) = after.split_first_chunk().ok_or("a row ends early")?;
        counters.push((CounterId(u64::from_le_bytes(*id)), i64::from_le_bytes(*delta)));
        rest = after;
    }
    Ok(Prepared { about, counters, record: Record::decode(rest)? })
}

/// Returns a prepared transaction and the number of its rows.
fn read_prepared(snapshot: &dyn Snapshot, id: &TransactionId) -> Result<(Prepared, u32)> {
    let (mut bytes, mut pieces) = (Vec::new(), 0);
    while let Some(row) = snapshot.get(PREPARED, &id.row(pieces))? {
        bytes.extend_from_slice(&row);
        pieces += 1;
    }
    if pieces == 0 {
        return Err(Error::NotPrepared);
    }
    let position = snapshot.position();
    let prepared = decode(&bytes).map_err(|reason| Error::CorruptRecord { position, reason })?;
    Ok((prepared, pieces))
}

impl Transactions {
    /// The transactions that are prepared here.
    pub fn prepared(&self) -> Vec<PreparedInfo> {
        self.path.prepared().infos()
    }

    /// The commits that wait for keys of prepared transactions.
    pub fn pending_locks(&self) -> Vec<PendingLock> {
        self.path.prepared().pending_locks()
    }

    /// Returns true if the transaction is prepared here and has not ended.
    pub fn is_prepared(&self, id: &TransactionId) -> bool {
        self.path.prepared().has(id)
    }

    /// Commits a prepared transaction, as its coordinator has decided. Ensures on `Ok`: it is durable, also in the set.
    ///
    /// Errors: `NotPrepared` when it is not prepared here, or has ended.
    pub fn commit_prepared(&self, id: &TransactionId, commit_time: u64) -> Result<Position> {
        self.path.settle_prepared(id, Some(commit_time))
    }

    /// Aborts a prepared transaction.
    pub fn abort_prepared(&self, id: &TransactionId) -> Result<Position> {
        self.path.settle_prepared(id, None)
    }

    /// Ensures on `Ok`: this server leads, and all that it has logged by now is visible and durable, also in the set.
    pub fn confirm(&self) -> Result<()> {
        self.path.commit_nothing()
    }

    /// Creates the tree of prepared transactions if it is not there.
    pub fn make_prepared_tree(&self) -> Result<()> {
        if !self.path.has_prepared_tree() {
            let make = |txn: &mut Transaction| txn.create_fixed_tree(PREPARED, TreeOptions::default());
            self.retry::<_, Error>(Durability::Applied, make)?;
        }
        Ok(())
    }

    /// Returns the decision about a transaction that this server coordinates, while it is kept.
    pub fn decision(&self, id: &TransactionId) -> Result<Option<Decision>> {
        match self.read()?.get(PREPARED, &id.key(DECISION_PREFIX)) {
            Ok(row) => Ok(row.and_then(|row| decision_of(*id, &row))),
            Err(Error::UnknownTree(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The decisions that are kept.
    pub fn decisions(&self) -> Result<Vec<Decision>> {
        let view = self.read()?;
        let mut cursor = match view.cursor(PREPARED) {
            Err(Error::UnknownTree(_)) => return Ok(Vec::new()),
            cursor => cursor?,
        };
        let (mut decisions, mut valid) = (Vec::new(), cursor.seek(&[DECISION_PREFIX])?);
        while valid && let Some((id, _)) = TransactionId::of_key(DECISION_PREFIX, cursor.key()) {
            decisions.extend(decision_of(id, cursor.value()));
            valid = cursor.next()?;
        }
        Ok(decisions)
    }

    /// Forgets decisions that all participants have carried out.
    pub fn forget_decisions(&self, ids: &[TransactionId]) -> Result<()> {
        let forget = |txn: &mut Transaction| {
            ids.iter().for_each(|id| txn.delete(PREPARED, id.key(DECISION_PREFIX)));
            Ok(())
        };
        self.retry::<_, Error>(Durability::Applied, forget).map(drop)
    }

    /// Begins a transaction of several statements at the state of a time; the state is the same on all servers whose clocks were advanced to
    /// that time before (P2, P3).
    pub fn begin_open_at(&self, time: u64) -> Result<Transaction> {
        Transaction::begin_open_at(self.path.clone(), time)
    }

    /// The state of a time that other servers are read at too.
    pub fn view_sealed_at(&self, time: u64) -> Result<ReadView> {
        self.path.seal(time)?;
        self.path.view_at(time)
    }
}

fn decision_of(id: TransactionId, row: &[u8]) -> Option<Decision> {
    let (time, about) = row.split_first_chunk()?;
    Some(Decision { id, time: u64::from_le_bytes(*time), about: about.to_vec() })
}

impl Transaction {
    /// Promises to commit when the coordinator decides so. `about` is kept with it. Ensures on `Ok`: the promise is durable, also in the set.
    /// Returns a time from which on the transaction may be committed.
    ///
    /// Requires that the tree of prepared transactions exists, and that the caller keeps the definitions of what it writes to.
    /// Errors: as a commit; `CreatesTrees` when it creates or drops some.
    pub fn prepare(self, id: TransactionId, about: &[u8]) -> Result<u64> {
        let (path, snapshot, writes, ticket, _claims) = self.into_parts();
        let position = path.caught_up(&*snapshot.0, &writes, snapshot.1)?;
        drop(snapshot);
        path.check_size(&writes)?;
        let Changes { ops, counters, logical, places, notes, loads } = writes.into_changes()?;
        let drops = |(_, change): &(CounterId, CounterChange)| matches!(change, CounterChange::Drop);
        let of_trees = |op: &Op| matches!(op, Op::CreateTree { .. } | Op::DropTree { .. });
        if ops.iter().any(of_trees) || counters.iter().any(drops) || !loads.is_empty() {
            return Err(Error::CreatesTrees);
        }
        let delta = |(id, change): &(CounterId, CounterChange)| match change {
            CounterChange::Add(delta) => Some((*id, *delta)),
            CounterChange::Drop => None,
        };
        let counters: Vec<(CounterId, i64)> = counters.iter().filter_map(delta).collect();
        let mut record = record::begin(&logical, &places, &notes, 0);
        ops.iter().for_each(|op| record::push_op(&mut record, op));
        crate::group::check_ops(&**path.engine(), &ops)?;
        let rows = encode(about, &counters, &record);
        drop((record, notes, places));
        let puts = rows.chunks(ROW_BYTES).zip(0..);
        let put =
            |(piece, number): (&[u8], u32)| Op::Put { tree: PREPARED, key: id.row(number), value: piece.to_vec() };
        let changes = Changes { ops: puts.map(put).collect(), ..no_changes()? };
        drop(rows);
        let footprint = Footprint::of(path.hasher(), &ops);
        let special = Special::Prepare(Box::new(Preparing { id, about: about.to_vec(), footprint, ops }));
        let request = path.special_request(changes, position, special)?;
        let position = path.commit_request(request, Durability::Journaled)?;
        drop(ticket);
        assert!(path.published() >= position, "what is prepared is visible");
        Ok(path.clock().last())
    }

    /// Commits the coordinator's part of a transaction, and decides with it that all parts are committed. Returns the position, and the commit
    /// time of all parts.
    pub fn commit_deciding(self, id: TransactionId, about: &[u8]) -> Result<(Position, u64)> {
        let (path, snapshot, writes, ticket, _claims) = self.into_parts();
        let position = path.caught_up(&*snapshot.0, &writes, snapshot.1)?;
        drop(snapshot);
        path.check_size(&writes)?;
        let special = Special::Decide(id.key(DECISION_PREFIX), about.to_vec());
        let request = path.special_request(writes.into_changes()?, position, special)?;
        let position = path.commit_request(request, Durability::Journaled)?;
        drop(ticket);
        let row = path.engine().snapshot()?.get(PREPARED, &id.key(DECISION_PREFIX))?.map(|row| row.into_owned());
        let decision = row.and_then(|row| decision_of(id, &row));
        let unknown = Error::CorruptRecord { position, reason: "a decision is not there" };
        Ok((position, decision.ok_or(unknown)?.time))
    }
}
