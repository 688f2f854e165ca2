//! Opening: the engine catches up with the log, then the ledger is read.
//!
//! After a crash the engine reopens at the state of some prefix of the batches ([`Engine::applied`]); the records behind
//! it are applied again in groups. Operations are idempotent and counters absolute, so a replay that is cut short by
//! another crash does no harm.

use std::collections::HashSet;
use std::sync::Arc;

use arbor_base::{Position, TreeId};
use arbor_engine::{Batch, Engine};
use arbor_log::Log;
use hashbrown::HashMap;

use crate::chain::{self, Assembler, Part};
use crate::commit::{CommitPath, log_error};
use crate::group::Committed;
use crate::ledger::{self, COUNTER_PREFIX, CounterId, FIXED_TREES, LEDGER, NEXT_TREE_KEY, TREE_PREFIX};
use crate::record::Record;
use crate::write_set::WriteSet;
use crate::{Error, Options, Result};

/// Record bytes that one replayed group holds at most, beyond its last record.
const REPLAY_GROUP_BYTES: usize = 4 << 20;
const REPLAY_GROUP_BATCHES: usize = 4096;

pub(crate) fn open(log: Arc<Log>, engine: Arc<dyn Engine>, options: Options) -> Result<CommitPath> {
    begin_new_log(&log, &*engine)?;
    hold_back(&log, &*engine);
    replay(&log, &*engine)?;
    let ledger = read_ledger(&*engine)?;
    let known = ledger.is_some();
    let fresh = || Committed::new(HashMap::new(), HashSet::new(), FIXED_TREES.end);
    let last = last_time(&log)?;
    let committed = Committed { last_time: last, ..ledger.unwrap_or_else(fresh) };
    let path = CommitPath::new(log, engine, options, committed);
    path.clock().advance(last);
    if !known {
        let mut writes = WriteSet::default();
        writes.create_tree(LEDGER, Default::default());
        let ticket = path.register();
        path.commit(writes, Position::ZERO, ticket)?;
    }
    path.hold_state();
    Ok(path)
}

/// An empty record becomes durable before the engine applies anything. So an engine with content and a log without
/// records never come from a crash: the log was taken away, which `replay` refuses.
fn begin_new_log(log: &Log, engine: &dyn Engine) -> Result<()> {
    let empty = log.appended() < log.first();
    if empty && engine.applied_in_part().next() == log.first() {
        let position = log.append(&[&Record::default().encode()]).map_err(log_error)?;
        log.wait_durable(position).map_err(log_error)?;
    }
    Ok(())
}

/// The engine makes nothing durable that the log has not, also in checkpoints of its own.
fn hold_back(log: &Arc<Log>, engine: &dyn Engine) {
    let log = Arc::downgrade(log);
    engine.set_barrier(Arc::new(move |position| match log.upgrade() {
        Some(log) => log.wait_durable(position).map_err(|error| arbor_engine::Error::Other(error.to_string())),
        None => Ok(()),
    }));
}

fn replay(log: &Log, engine: &dyn Engine) -> Result<()> {
    let (applied, first, last) = (engine.applied(), log.first(), log.appended());
    let ahead = engine.applied_in_part();
    if ahead > last && applied < ahead {
        // Several engines, and some lack what others have of these records: no whole state can be made of them.
        return Err(Error::LogGap { applied: ahead, first, last });
    }
    if applied > last && last >= first {
        return fill(log, applied);
    }
    if applied > last || (first > applied.next() && last >= first) {
        return Err(Error::LogGap { applied, first, last });
    }
    let mut group = Vec::new();
    let mut bytes = 0;
    let mut reader = log.read(applied.next());
    let mut assembler = Assembler::default();
    while let Some(entry) = reader.next_borrowed() {
        let (position, payload) = entry.map_err(log_error)?;
        let corrupt = |reason| Error::CorruptRecord { position, reason };
        bytes += payload.len();
        match assembler.take(payload).map_err(corrupt)? {
            Part::Record(record) => group.push(Batch { position, ops: record.ops }),
            Part::Link => continue,
            Part::Inside(_) => return Err(corrupt("its chain begins before what the engine lacks")),
        }
        if bytes >= REPLAY_GROUP_BYTES || group.len() >= REPLAY_GROUP_BATCHES {
            engine.apply(&group)?;
            group.clear();
            bytes = 0;
        }
    }
    if assembler.is_inside() {
        // The crash came before the chain's last link: it never was.
        group.push(Batch { position: last, ops: Vec::new() });
    }
    if !group.is_empty() {
        engine.apply(&group)?;
    }
    match engine.applied() {
        reached if reached == last => Ok(()),
        reached => Err(Error::LogGap { applied: reached, first, last }),
    }
}

/// The last time that the log knows of: of its last record that has one.
fn last_time(log: &Log) -> Result<u64> {
    let mut position = log.appended();
    while position >= log.first() && position > Position::ZERO {
        let mut reader = log.read(position);
        let Some(read) = reader.next_borrowed() else { break };
        let (position_read, payload) = read.map_err(log_error)?;
        let (stamp, last_time) =
            chain::times_of(payload).map_err(|reason| Error::CorruptRecord { position: position_read, reason })?;
        if stamp.time > 0 {
            return Ok(last_time);
        }
        position = Position(position.0 - 1);
    }
    Ok(0)
}

/// A power failure during a checkpoint may leave the engine ahead: it made batches durable whose records were not yet
/// (and which nobody was told are). Their content is safe in the engine; empty records take their positions in the log.
fn fill(log: &Log, applied: Position) -> Result<()> {
    let empty = Record::default().encode();
    while log.appended() < applied {
        let missing = (applied.0 - log.appended().0).min(REPLAY_GROUP_BATCHES as u64);
        let payloads = vec![empty.as_slice(); missing as usize];
        log.append(&payloads).map_err(log_error)?;
    }
    log.wait_durable(applied).map_err(log_error)
}

/// The trees that the ledger in an engine names.
pub fn trees_of(engine: &dyn Engine) -> arbor_engine::Result<Vec<TreeId>> {
    let ledger = read_ledger(engine).map_err(|error| arbor_engine::Error::Other(error.to_string()))?;
    Ok(ledger.into_iter().flat_map(|ledger| ledger.trees).collect())
}

/// `None` when there is no ledger yet.
fn read_ledger(engine: &dyn Engine) -> Result<Option<Committed>> {
    let snapshot = engine.snapshot()?;
    let mut cursor = match snapshot.cursor(LEDGER) {
        Ok(cursor) => cursor,
        Err(arbor_engine::Error::UnknownTree(_)) => return Ok(None),
        Err(other) => return Err(other.into()),
    };
    let mut counters = HashMap::new();
    let mut trees = HashSet::new();
    let mut next_tree = FIXED_TREES.end;
    let mut stands = cursor.first()?;
    while stands {
        let (key, value) = (cursor.key(), cursor.value());
        if key == NEXT_TREE_KEY {
            next_tree = ledger::number_in(value).unwrap_or(next_tree);
        } else if let Some(tree) = ledger::number_of(TREE_PREFIX, key) {
            trees.insert(TreeId(tree));
        } else if let (Some(id), Some(n)) = (ledger::number_of(COUNTER_PREFIX, key), ledger::number_in(value)) {
            counters.insert(CounterId(id), n as i64);
        }
        stands = cursor.next()?;
    }
    Ok(Some(Committed::new(counters, trees, next_tree)))
}
