//! What the user of the engine may choose.

use std::sync::Arc;

use arbor_engine::UpdateFunction;

#[derive(Clone, Debug)]
pub struct LmdbOptions {
    /// Address space reserved for the data file, the bound of its size; halved while the process may not have so much.
    pub map_bytes: usize,
    /// Read transactions that may be open or resting at a time.
    pub readers_max: u32,
    /// Whether the kernel reads ahead around a page fault. Off: point reads of a file larger than memory would read
    /// 32 pages for one; scans pay with a fault per page.
    pub readahead: bool,
    /// A checkpoint begins by itself when this much, and an eighth of the file, was freed since the last one: it cannot
    /// be used again before. So the file settles at some quarter more than its rows need, or twice this much more.
    pub freed_bytes_max: u64,
    /// Whether a thread sweeps dropped trees and makes the checkpoints of `freed_bytes_max`. Tests that count system
    /// calls run without it and call [`sweep`](crate::LmdbEngine::sweep).
    pub background: bool,
    /// Resolves update messages, as they are applied.
    pub updates: Option<Arc<dyn UpdateFunction>>,
}

impl Default for LmdbOptions {
    fn default() -> LmdbOptions {
        LmdbOptions {
            map_bytes: 1 << 40,
            readers_max: 16384,
            readahead: false,
            freed_bytes_max: 64 << 20,
            background: true,
            updates: None,
        }
    }
}
