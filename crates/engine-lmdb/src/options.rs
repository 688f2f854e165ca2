//! Options of the engine.

use std::sync::Arc;

use arbor_engine::UpdateFunction;

#[derive(Clone, Debug)]
pub struct LmdbOptions {
    /// Address space reserved for the data file, the bound of its size; halved while the process may not reserve it.
    pub map_bytes: usize,
    /// Read transactions that may be open or resting at a time, at 64 bytes of `lock.mdb` each. The sum of what holds
    /// snapshots has to stay below (`crates/arbor/src/engines.rs`).
    pub readers_max: u32,
    /// Pages that are verified before LMDB opens them, from the roots down. Deeper pages are trusted: a damaged one
    /// may end the process.
    pub verified_pages_max: u64,
    /// True if the kernel reads ahead around a page fault. Off: point reads of a file larger than memory would read
    /// 32 pages for one; scans pay with a fault per page.
    pub readahead: bool,
    /// A checkpoint begins by itself when this much, and an eighth of the file, was freed since the last one: it cannot
    /// be used again before. So the file settles at some quarter more than its rows need, or twice this much more.
    pub freed_bytes_max: u64,
    /// True if a thread sweeps dropped trees and makes the checkpoints of `freed_bytes_max`. Tests that count system
    /// calls run without it and call [`sweep`](crate::LmdbEngine::sweep).
    pub background: bool,
    /// Resolves update messages, as they are applied.
    pub updates: Option<Arc<dyn UpdateFunction>>,
}

/// A file of 256 MB, or the upper levels of one of 50 GB and more: reading them takes a second or two from a slow disk.
const VERIFIED_PAGES_MAX: u64 = 65_536;

/// Most read transactions of an engine with default options.
pub const READERS_MAX: u32 = 32768;

impl Default for LmdbOptions {
    fn default() -> LmdbOptions {
        LmdbOptions {
            map_bytes: 1 << 40,
            readers_max: READERS_MAX,
            verified_pages_max: VERIFIED_PAGES_MAX,
            readahead: false,
            freed_bytes_max: 64 << 20,
            background: true,
            updates: None,
        }
    }
}
