//! Compaction: WiredTiger moves the blocks at the end of a file into its gaps and cuts the file.

use arbor_base::TreeId;
use arbor_engine::{Error, Result};

use crate::core::Core;
use crate::raw::Table;

/// WiredTiger does not ask whether to continue, so it is called for short times.
const SECONDS: u64 = 2;

impl Core {
    pub(crate) fn compact(&self, tree: TreeId, stop: &dyn Fn() -> bool) -> Result<u64> {
        let table = self.table_of(tree)?;
        let before = self.file_bytes(table);
        let mut session = self.connection.session()?;
        // A file is cut by the checkpoint after the one that emptied its end.
        while !stop() {
            let result = {
                // WiredTiger makes checkpoints of its own in there.
                let _one_at_a_time = self.flushing.lock();
                session.compact(table, SECONDS)
            };
            match result {
                Ok(()) => break,
                Err(fault) if fault.is_timeout() => {}
                // The cache is under pressure, or the table is in use: as far as it came.
                Err(fault) if fault.is_rollback() || fault.is_busy() => break,
                Err(fault) => return Err(fault.into()),
            }
        }
        Ok(before.saturating_sub(self.file_bytes(table)))
    }

    pub(crate) fn table_of(&self, tree: TreeId) -> Result<Table> {
        self.lock_writer().trees.get(&tree).map(|record| record.table).ok_or(Error::UnknownTree(tree))
    }

    pub(crate) fn file_bytes(&self, table: Table) -> u64 {
        std::fs::metadata(self.connection.dir().join(table.file())).map_or(0, |data| data.len())
    }
}
