//! Moving a table elsewhere in the file.

use std::sync::Arc;

use arbor_base::sometimes;

use super::{HEADER_BYTES, Table, TableMeta, corrupt_at};
use crate::Result;
use crate::cache::Cell;
use crate::counters::Counter;
use crate::io::Io;
use crate::space::Extent;

/// A multiple of the file's unit.
const PIECE: u64 = 1 << 20;

impl Table {
    /// Copies what is stored to an extent of the same length; of the blocks nothing changes, so their checksums go along. Nothing of
    /// it is in memory.
    pub fn moved_to(&self, extent: Extent, io: &Io) -> Result<Arc<Table>> {
        let old = &self.meta;
        if extent.bytes() != old.bytes || old.is_elsewhere() {
            return Err(corrupt_at(io, old.offset, "a table does not fit to where it is to move"));
        }
        let offset = extent.offset();
        assert!(offset + extent.bytes() <= old.offset, "a table moves to the front of the file, and not over itself");
        sometimes!("ftree: a table moves to the front of the file");
        let index_offset = offset + (old.index_offset - old.offset);
        let meta = TableMeta { offset, index_offset, ..old.clone() };
        for begin in (0..old.bytes).step_by(PIECE as usize) {
            let bytes = PIECE.min(old.bytes - begin);
            let mut piece = io.file.read(old.offset + begin, bytes)?;
            io.counters.add(Counter::ScanBytesRead, bytes);
            if begin == 0
                && let Some(header) = piece.first_chunk_mut::<HEADER_BYTES>()
            {
                *header = meta.header();
            }
            io.file.write(offset + begin, &piece)?;
            io.counters.add(Counter::LeafBytesWritten, bytes);
        }
        Ok(Arc::new(Table {
            meta,
            extent: Arc::new(extent),
            blobs: self.blobs.clone(),
            body: Cell::default(),
            charge: self.charge.again(),
        }))
    }
}
