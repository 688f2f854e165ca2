//! Opening: the engine catches up with the log, then the ledger is read.
//!
//! After a crash the engine reopens at the state of some prefix of the batches ([`Engine::applied`]); the records after
//! it are applied again in groups ([`replay`](crate::replay)). Operations are idempotent and counters absolute, so a replay that is cut short by
//! another crash does no harm.
//!
//! - R1: the log has every record from the one after the engine's state up to where any engine is. The barrier makes the
//!   log durable before an engine's state, and the log is trimmed up to a durable state only, so no crash breaks this:
//!   a log that begins later or ends earlier was damaged, and acknowledged commits may be lost. It is refused.

use std::collections::HashSet;
use std::sync::Arc;

use arbor_base::{Position, TreeId};
use arbor_engine::Engine;
use arbor_log::Log;
use hashbrown::HashMap;

use crate::chain;
use crate::commit::CommitPath;
use crate::error::log_error;
use crate::fetch::loads::Loads;
use crate::fetch::marker::Syncing;
use crate::group::Committed;
use crate::ledger::{self, COUNTER_PREFIX, CounterId, FIXED_TREES, LEDGER, NEXT_TREE_KEY, TREE_PREFIX};
use crate::record::Record;
use crate::replay::Replay;
use crate::write_set::WriteSet;
use crate::{Error, Opening, Options, ReadView, Result, View};

pub(crate) fn open(opening: Opening, log: Arc<Log>, engine: Arc<dyn Engine>, options: Options) -> Result<CommitPath> {
    let syncing = sync_found(opening, &options)?;
    if opening == Opening::Own {
        begin_new_log(&log, &*engine)?;
    }
    install_log_barrier(&log, &*engine);
    let loads = match syncing {
        Syncing::No => Loads::open_ahead(options.sync_marker.as_ref(), &*engine)?,
        _ => Loads::default(),
    };
    if syncing == Syncing::No {
        replay(opening, &log, &*engine, &loads)?;
    }
    let ledger = read_ledger(&*engine)?;
    let known = ledger.is_some();
    let fresh = || Committed::new(HashMap::new(), HashSet::new(), FIXED_TREES.end);
    let last = last_time_until(&log, engine.applied())?;
    let committed = Committed { last_time: last, ..ledger.unwrap_or_else(fresh) };
    let path = CommitPath::new(log, engine, options, committed, loads);
    path.clock().advance(last);
    if opening == Opening::Follower {
        let mut committed = path.lock();
        committed.syncing = syncing;
        path.join_set(&mut committed);
        path.follow_from_now(&mut committed);
        if syncing == Syncing::No {
            path.loads().scan(&**path.engine(), path.log(), path.published())?;
        }
    } else if !known {
        let mut writes = WriteSet::default();
        writes.create_tree(LEDGER, Default::default());
        let ticket = path.register();
        path.commit(writes, Position::ZERO, ticket)?;
    }
    if opening == Opening::Own {
        path.load_prepared()?;
    }
    path.hold_state();
    Ok(path)
}

/// Returns the state of a directory that is opened, by its marker. Errors: only a follower may have one.
fn sync_found(opening: Opening, options: &Options) -> Result<Syncing> {
    let Some(marker) = &options.sync_marker else { return Ok(Syncing::No) };
    match (marker.read()?, opening) {
        (None, _) => Ok(Syncing::No),
        (Some(_), Opening::Follower) => Ok(Syncing::Needed),
        (Some(_), Opening::Own) => Err(Error::NotSynced {
            reason: "an initial sync of this directory was interrupted (arbor.syncing), so it holds no state that ever was. Start it \
                     as a member of its set, which continues it, or with an empty directory"
                .into(),
        }),
    }
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

/// The engine makes nothing durable that the log has not, also in checkpoints of its own; once the log is gone, nothing.
fn install_log_barrier(log: &Arc<Log>, engine: &dyn Engine) {
    let log = Arc::downgrade(log);
    engine.set_barrier(Arc::new(move |position| match log.upgrade() {
        Some(log) => log.wait_durable(position).map_err(|error| arbor_engine::Error::Other(error.to_string())),
        None => Err(arbor_engine::Error::Other(format!("the log is closed: batch {position} may not be in it"))),
    }));
}

/// A follower takes no record that no engine has had: it may not be what the set has committed.
fn replay(opening: Opening, log: &Log, engine: &dyn Engine, loads: &Loads) -> Result<()> {
    let (applied, first, last) = (engine.applied(), log.first(), log.appended());
    // Of several engines each begins where it is.
    let newest = engine.applied_in_part();
    if newest > last {
        return Err(Error::LogGap { missing: (last.next(), newest), first, last });
    }
    if first > applied.next() {
        return Err(Error::LogGap { missing: (applied.next(), Position(first.0 - 1)), first, last });
    }
    let mut apply = |group: &[arbor_engine::Batch]| {
        engine.apply(loads.without_passed(group).as_deref().unwrap_or(group))?;
        loads.applied(group);
        Ok(())
    };
    let replay = Replay::new(log, &mut apply);
    if opening == Opening::Follower {
        return if applied < newest { replay.run_until(applied, newest) } else { Ok(()) };
    }
    replay.run(applied)?;
    let reached = engine.applied();
    assert_eq!(reached, last, "R1: an engine without an error has applied all batches up to the last one");
    Ok(())
}

/// The last time that the log knows of: of its last record that has one.
pub(crate) fn last_time(log: &Log) -> Result<u64> {
    last_time_until(log, log.appended())
}

/// The last time in the records up to a position.
pub(crate) fn last_time_until(log: &Log, mut position: Position) -> Result<u64> {
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

/// The trees that the ledger in a view names, in order.
pub(crate) fn trees_in(view: &ReadView) -> Result<Vec<TreeId>> {
    let mut cursor = view.cursor(LEDGER)?;
    let (mut trees, mut valid) = (Vec::new(), cursor.seek(&[TREE_PREFIX])?);
    while valid && let Some(tree) = ledger::number_of(TREE_PREFIX, cursor.key()) {
        trees.push(TreeId(tree));
        valid = cursor.next()?;
    }
    Ok(trees)
}

/// The trees that the ledger in an engine names.
pub fn trees_of(engine: &dyn Engine) -> arbor_engine::Result<Vec<TreeId>> {
    let ledger = read_ledger(engine).map_err(|error| arbor_engine::Error::Other(error.to_string()))?;
    Ok(ledger.into_iter().flat_map(|ledger| ledger.trees).collect())
}

/// `None` when there is no ledger yet.
pub(crate) fn read_ledger(engine: &dyn Engine) -> Result<Option<Committed>> {
    let snapshot = engine.snapshot()?;
    let mut cursor = match snapshot.cursor(LEDGER) {
        Ok(cursor) => cursor,
        Err(arbor_engine::Error::UnknownTree(_)) => return Ok(None),
        Err(other) => return Err(other.into()),
    };
    let mut counters = HashMap::new();
    let mut trees = HashSet::new();
    let mut next_tree = FIXED_TREES.end;
    let mut valid = cursor.first()?;
    while valid {
        let (key, value) = (cursor.key(), cursor.value());
        if key == NEXT_TREE_KEY {
            next_tree = ledger::number_in(value).unwrap_or(next_tree);
        } else if let Some(tree) = ledger::number_of(TREE_PREFIX, key) {
            trees.insert(TreeId(tree));
        } else if let (Some(id), Some(n)) = (ledger::number_of(COUNTER_PREFIX, key), ledger::number_in(value)) {
            counters.insert(CounterId(id), n as i64);
        }
        valid = cursor.next()?;
    }
    Ok(Some(Committed::new(counters, trees, next_tree)))
}
