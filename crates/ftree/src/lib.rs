//! The fractal tree: a forest of write-optimised search trees in one data file, under one memory budget.
//!
//! - `Forest`: open, apply, snapshot, checkpoint (the engine trait)
//! - `memtable`: what was applied and not absorbed yet
//! - `table`: immutable sorted tables in extents; leaves and runs are tables ([`block`], [`filter`], [`key_index`])
//! - `tree`: inner nodes with their slots, versions, installing changes
//! - `flush`: moving entries down: absorb, push, leaf rewrites, splits; [`merge`]: what meets when they move
//! - `read`: point reads and cursors
//! - `work`: background threads, planning, pacing
//! - `compact`: draining, merging and moving what a tree holds, so that the file gets short
//! - `checkpoint`: superblocks, node blocks, recovery
//! - `io`, [`space`], [`cache`]: the data file, who owns which part of it, the memory budget
//! - `check`: verify, inspect, salvage

mod apply;
pub mod blob;
pub mod block;
pub mod bulk;
pub mod cache;
pub mod check;
pub mod checkpoint;
pub mod codec;
mod compact;
pub mod counters;
mod entry;
pub mod file;
pub mod filter;
pub mod flush;
pub mod forest;
pub mod health;
pub mod io;
pub mod key_index;
pub mod memtable;
pub mod merge;
mod options;
pub mod packed;
pub mod read;
mod seq;
pub mod settings;
pub mod snapshots;
pub mod space;
pub mod table;
pub mod tree;
pub mod trees;
pub mod update;
pub mod work;

pub use cache::{Cache, Cell, Charge, Evictable, Evicted};
pub use counters::{Counter, Counters};
pub use entry::{Entry, Kind, RangeTombstone};
pub use file::DataFile;
pub use forest::Forest;
pub use io::Io;
pub use options::{Codec, Options, TreeSettings};
pub use seq::Seq;
pub use space::{Extent, Space, UNIT};

pub type Result<T> = arbor_engine::Result<T>;
pub use arbor_engine::Error;
