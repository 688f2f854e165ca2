//! The log's records on their way into the engine, in groups of bounded size. Large records are chains of links, which are
//! applied link by link (C4 of [`chain`](crate::chain)).

use arbor_base::Position;
use arbor_engine::{Batch, Op};
use arbor_log::Log;

use crate::chain::Link;
use crate::error::log_error;
use crate::packed::unpacked_bytes;
use crate::record::{Decoded, Record};
use crate::record_stream::RecordStream;
use crate::{Error, Result};

/// Record bytes that one group holds at most, beyond its last record.
const GROUP_BYTES: usize = 4 << 20;
const GROUP_BATCHES: usize = 4096;

/// Takes a group; an engine skips the batches that it has.
type Apply<'l> = &'l mut dyn FnMut(&[Batch]) -> arbor_engine::Result<()>;

pub(crate) struct Replay<'l> {
    log: &'l Log,
    apply: Apply<'l>,
    group: Vec<Batch>,
    /// Bytes of the group's records.
    bytes: usize,
}

/// A chain that has its last link.
struct Chain {
    last: Position,
    stream: RecordStream,
}

impl<'l> Replay<'l> {
    pub(crate) fn new(log: &'l Log, apply: Apply<'l>) -> Replay<'l> {
        Replay { log, apply, group: Vec::new(), bytes: 0 }
    }

    /// Applies all records after `applied`. Errors: `LogGap`, `CorruptRecord`.
    pub(crate) fn run(self, applied: Position) -> Result<()> {
        let last = self.log.appended();
        self.run_until(applied, last)
    }

    /// Applies the records after `applied` up to `last`, which ends a record.
    pub(crate) fn run_until(mut self, applied: Position, last: Position) -> Result<()> {
        let mut reader = self.log.read(self.begin(applied.next())?);
        let (mut chain, mut following): (Option<Chain>, _) = (None, 0);
        while reader.position() <= last
            && let Some(entry) = reader.next_borrowed()
        {
            let (position, payload) = entry.map_err(log_error)?;
            let Some(link) = decoded(position, Link::decode(payload))? else {
                let record = decoded(position, Record::decode(payload))?;
                self.push(position, record.ops, unpacked_bytes(payload))?;
                following = 0;
                continue;
            };
            if link.number != 0 && link.number != following {
                return decoded(position, Err("a link of a chain without the links before it"));
            }
            following = link.number + 1;
            if link.number == 0 {
                chain = self.last_link(position)?.map(|last| Chain { last, stream: RecordStream::default() });
            }
            // Without its last link the chain is void (C3).
            if let Some(chain) = chain.as_mut().filter(|chain| position <= chain.last) {
                let ops = decoded(position, chain.stream.take(link.piece, link.is_last))?;
                self.push(position, ops, payload.len())?;
            }
        }
        // Void links at the log's end have positions as well.
        self.push(last, Vec::new(), 0)?;
        self.apply_group()
    }

    /// Returns the position at which reading begins so that `next` is read with all of its chain.
    fn begin(&self, next: Position) -> Result<Position> {
        let mut reader = self.log.read(next);
        let Some(entry) = reader.next_borrowed() else { return Ok(next) };
        let (position, payload) = entry.map_err(log_error)?;
        let before = decoded(position, Link::decode(payload))?.map_or(0, |link| u64::from(link.number));
        let (begin, first) = (Position(position.0.saturating_sub(before)), self.log.first());
        match begin < first {
            true => {
                let missing = (begin, Position(first.0 - 1));
                Err(Error::LogGap { missing, first, last: self.log.appended() })
            }
            false => Ok(begin),
        }
    }

    /// The last link of the chain that begins at `first`; `None`: it has none.
    fn last_link(&self, first: Position) -> Result<Option<Position>> {
        let mut reader = self.log.read(first);
        for number in 0.. {
            let Some(entry) = reader.next_borrowed() else { break };
            let (position, payload) = entry.map_err(log_error)?;
            match decoded(position, Link::decode(payload))? {
                Some(link) if link.number == number && link.is_last => return Ok(Some(position)),
                Some(link) if link.number == number => {}
                _ => break,
            }
        }
        Ok(None)
    }

    fn push(&mut self, position: Position, ops: Vec<Op>, bytes: usize) -> Result<()> {
        if self.group.last().is_some_and(|batch| batch.position == position) {
            return Ok(());
        }
        self.group.push(Batch { position, ops });
        self.bytes += bytes;
        if self.bytes >= GROUP_BYTES || self.group.len() >= GROUP_BATCHES { self.apply_group() } else { Ok(()) }
    }

    fn apply_group(&mut self) -> Result<()> {
        (self.apply)(&self.group)?;
        self.group.clear();
        self.bytes = 0;
        Ok(())
    }
}

fn decoded<T>(position: Position, decoded: Decoded<T>) -> Result<T> {
    decoded.map_err(|reason| Error::CorruptRecord { position, reason })
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use arbor_base::TreeId;
    use arbor_disk::FaultyDisk;
    use arbor_engine::Engine;
    use arbor_engine::model::ModelEngine;
    use arbor_log::LogOptions;

    use super::*;
    use crate::Stamp;
    use crate::chain::ChainWriter;
    use crate::record;

    const TREE: TreeId = TreeId(20);

    type Row = (Vec<u8>, Vec<u8>);

    fn log() -> Log {
        Log::open(Arc::new(FaultyDisk::new()), Path::new("log"), LogOptions::default()).unwrap()
    }

    fn append(log: &Log, ops: &[Op]) {
        log.append(&[&record::of_ops(ops)]).unwrap();
    }

    fn put(key: usize, value_bytes: usize) -> Op {
        Op::Put { tree: TREE, key: key.to_be_bytes().to_vec(), value: vec![key as u8; value_bytes] }
    }

    fn append_chain(log: &Log, ops: &[Op], piece_bytes: usize) -> Position {
        let begun = record::begin(&[], &[], &[], 0);
        ChainWriter::new(log, Stamp::default(), 0, piece_bytes).write(&begun, ops).unwrap().0
    }

    fn batches(log: &Log, applied: Position) -> Vec<Vec<Batch>> {
        let mut groups = Vec::new();
        let mut apply = |group: &[Batch]| {
            groups.push(group.to_vec());
            Ok(())
        };
        Replay::new(log, &mut apply).run(applied).unwrap();
        groups
    }

    /// After the replay into an engine that has these batches.
    fn state(log: &Log, parts: &[Batch]) -> (Position, Vec<Row>) {
        let engine = ModelEngine::new();
        engine.apply(parts).unwrap();
        Replay::new(log, &mut |group| engine.apply(group)).run(engine.applied()).unwrap();
        let snapshot = engine.snapshot().unwrap();
        let mut cursor = snapshot.cursor(TREE).unwrap();
        let (mut rows, mut more) = (Vec::new(), cursor.first().unwrap());
        while more {
            rows.push((cursor.key().to_vec(), cursor.value().to_vec()));
            more = cursor.next().unwrap();
        }
        (engine.applied(), rows)
    }

    /// Deletes and ranges depend on what came before them in the chain.
    fn mixed() -> Vec<Op> {
        let from = |key: usize| key.to_be_bytes().to_vec();
        let range = |key: usize| Op::DeleteRange { tree: TREE, from: from(key), to: Some(from(key + 3)) };
        let group = |key: usize| [put(key, 50), put(key + 1, 9), range(key), put(key, 70)];
        (0..20).flat_map(|n| group(n * 2)).collect()
    }

    #[test]
    fn an_engine_inside_of_a_chain_goes_on_behind_its_link() {
        let log = log();
        append(&log, &[Op::CreateTree { tree: TREE, options: Default::default() }, put(500, 3)]);
        let last = append_chain(&log, &mixed(), 100);
        append(&log, &[put(600, 3)]);
        let all: Vec<Batch> = batches(&log, Position::ZERO).concat();
        assert!(all.len() > 20 && all.iter().any(|batch| batch.position == last));
        let whole = state(&log, &[]);
        assert_eq!(whole.0, log.appended());
        for parts in 1..all.len() {
            assert_eq!(state(&log, &all[..parts]), whole, "{parts} parts");
        }
    }

    /// The memory of the replay does not grow with the chain.
    #[test]
    fn a_chain_is_applied_in_parts() {
        let log = log();
        append(&log, &[Op::CreateTree { tree: TREE, options: Default::default() }]);
        let ops: Vec<Op> = (0..40).map(|key| put(key, 1 << 20)).collect();
        append_chain(&log, &ops, 2 << 20);
        let puts = |batch: &Batch| batch.ops.iter().filter(|op| matches!(op, Op::Put { .. })).count();
        let bytes = |group: &Vec<Batch>| group.iter().map(puts).sum::<usize>() << 20;
        let groups = batches(&log, Position::ZERO);
        assert_eq!(groups.iter().map(bytes).sum::<usize>(), 40 << 20);
        assert!(groups.iter().map(bytes).max() <= Some(GROUP_BYTES + (3 << 20)));
    }

    #[test]
    fn void_links_are_passed_over() {
        let (whole, log) = (log(), log());
        append_chain(&whole, &mixed(), 100);
        let mut reader = whole.read(Position(1));
        for _ in 0..5 {
            let link = reader.next_borrowed().unwrap().unwrap().1.to_vec();
            log.append(&[&link]).unwrap();
        }
        append(&log, &[Op::CreateTree { tree: TREE, options: Default::default() }, put(1, 1)]);
        append_chain(&log, &mixed(), 100);
        assert_eq!(batches(&log, Position::ZERO).concat()[0].position, Position(6));
        assert_eq!(state(&log, &[]).1.len(), 20);
    }
}
