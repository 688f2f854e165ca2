//! The log next to an engine, as the commit path has it: a batch is appended, then applied; synced every 100 ms.

use std::path::Path;
use std::sync::Arc;

use arbor_base::Position;
use arbor_disk::RealDisk;
use arbor_engine::{Batch, Engine, Op};
use arbor_log::{Log, LogOptions};
use arbor_txn::record::{self, Record};

use super::measure::engine as engine_error;
use crate::{Error, Result};

/// Record bytes of one replayed group.
const REPLAY_BYTES: usize = 4 << 20;

pub(super) struct Journal {
    log: Arc<Log>,
}

fn log_error(error: arbor_log::Error) -> Error {
    Error::Engine(error.to_string())
}

impl Journal {
    /// Opens or creates the log in a directory; the engine then makes nothing durable before the log has.
    pub(super) fn open(directory: &Path, engine: &dyn Engine) -> Result<Journal> {
        std::fs::create_dir_all(directory).map_err(Error::file(directory))?;
        let options = LogOptions { first_position: engine.applied().next(), ..LogOptions::default() };
        let log = Arc::new(Log::open(Arc::new(RealDisk), directory, options).map_err(log_error)?);
        let behind = Arc::downgrade(&log);
        engine.set_barrier(Arc::new(move |position| match behind.upgrade() {
            Some(log) => log.wait_durable(position).map_err(|error| arbor_engine::Error::Other(error.to_string())),
            None => Ok(()),
        }));
        Ok(Journal { log })
    }

    pub(super) fn append(&self, ops: &[Op]) -> Result<Position> {
        self.log.append(&[&record::of_ops(ops)]).map_err(log_error)
    }

    /// Drops the part of the log that the engine has made durable.
    pub(super) fn trim(&self, engine: &dyn Engine) -> Result<()> {
        self.log.trim(engine.durable()).map_err(log_error)
    }

    /// Applies the operations that the engine lacks. Returns their number.
    pub(super) fn replay(&self, engine: &dyn Engine) -> Result<u64> {
        let mut reader = self.log.read(engine.applied().next());
        let (mut group, mut bytes, mut operations) = (Vec::new(), 0, 0);
        while let Some(entry) = reader.next_borrowed() {
            let (position, payload) = entry.map_err(log_error)?;
            let ops = Record::decode(payload).map_err(|reason| Error::Engine(reason.to_owned()))?.ops;
            operations += ops.len() as u64;
            bytes += payload.len();
            group.push(Batch { position, ops });
            if bytes >= REPLAY_BYTES {
                engine.apply(&group).map_err(engine_error)?;
                group.clear();
                bytes = 0;
            }
        }
        engine.apply(&group).map_err(engine_error)?;
        Ok(operations)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arbor_base::TreeId;
    use arbor_engine::TreeOptions;
    use arbor_engine::model::ModelEngine;

    #[test]
    fn what_an_engine_lost_is_replayed() {
        let directory = tempfile::tempdir().unwrap();
        let tree = TreeId(3);
        {
            let engine = ModelEngine::new();
            let journal = Journal::open(directory.path(), &engine).unwrap();
            let create = Op::CreateTree { tree, options: TreeOptions::default() };
            let put = Op::Put { tree, key: vec![1], value: vec![2] };
            for ops in [vec![create], vec![put]] {
                journal.append(&ops).unwrap();
            }
            assert_eq!(engine.applied(), Position::ZERO);
        }
        let engine = ModelEngine::new();
        let journal = Journal::open(directory.path(), &engine).unwrap();
        assert_eq!(journal.replay(&engine).unwrap(), 2);
        let value = engine.snapshot().unwrap().get(tree, &[1]).unwrap().map(|value| value.into_owned());
        assert_eq!((engine.applied(), value), (Position(2), Some(vec![2])));
    }
}
