//! The fractal tree: a forest of write-optimised search trees in one data file, under one memory budget.
//!
//! - `Forest`: open, apply, snapshot, checkpoint (the engine trait)
//! - `core`: what all threads and snapshots of a forest share
//! - `memtable`: what was applied and not absorbed yet
//! - `table`: immutable sorted tables in extents; leaves and runs are tables ([`block`], [`filter`], [`key_index`])
//! - `tree`: inner nodes with their slots, versions, installing changes
//! - `flush`: moving entries down: absorb, push, leaf rewrites, splits; [`merge`]: merging during flushes
//! - `read`: point reads and cursors
//! - `work`: background threads, planning, pacing
//! - `compact`: draining, merging and moving what a tree holds, so that the file gets short
//! - `checkpoint`: superblocks, node blocks, recovery
//! - `io`, [`space`], [`cache`]: the data file, ownership of its parts, the memory budget
//! - `check`: verify, inspect, salvage; `validate`: the rules that hold in memory at any moment
//!
//! An embedded store: the log makes a write durable, the forest keeps it in order, and what the log has past the forest's last
//! checkpoint is applied again at the opening. (One thread writes; for several, and for transactions, there is the crate `txn`.)
//!
//! ```
//! use std::{error::Error, path::Path, sync::Arc};
//!
//! use arbor_base::{Position, TreeId};
//! use arbor_disk::RealDisk;
//! use arbor_engine::{Batch, Engine, Op, TreeOptions};
//! use arbor_ftree::{Forest, Options};
//! use arbor_log::{Log, LogOptions};
//!
//! struct Store { log: Arc<Log>, forest: Forest }
//! const TREE: TreeId = TreeId(1);
//!
//! impl Store {
//!     fn open(dir: &Path) -> Result<Store, Box<dyn Error>> {
//!         let disk = Arc::new(RealDisk);
//!         let log = Arc::new(Log::open(disk.clone(), &dir.join("log"), LogOptions::default())?);
//!         let forest = Forest::open(&dir.join("data"), Options::new(disk, 64 << 20))?;
//!         let durable = log.clone();
//!         forest.set_barrier(Arc::new(move |position| {
//!             durable.wait_durable(position).map_err(|error| arbor_engine::Error::Other(error.to_string()))
//!         }));
//!         for record in log.read(forest.applied().next()) {
//!             let (position, record) = record?;
//!             forest.apply(&[batch(position, &record)])?;
//!         }
//!         Ok(Store { log, forest })
//!     }
//!
//!     fn put(&self, key: &str, value: &str) -> Result<(), Box<dyn Error>> {
//!         let record = format!("{key}={value}").into_bytes();
//!         let position = self.log.append(&[&record])?;
//!         self.forest.apply(&[batch(position, &record)])?;
//!         Ok(self.log.wait_durable(position)?)
//!     }
//!
//!     fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Box<dyn Error>> {
//!         Ok(self.forest.snapshot()?.get(TREE, key.as_bytes())?.map(|value| value.into_owned()))
//!     }
//! }
//!
//! fn batch(position: Position, record: &[u8]) -> Batch {
//!     let at = record.iter().position(|byte| *byte == b'=').expect("`put` wrote one");
//!     let (key, value) = (record[..at].to_vec(), record[at + 1..].to_vec());
//!     let ops = vec![Op::CreateTree { tree: TREE, options: TreeOptions::default() }, Op::Put { tree: TREE, key, value }];
//!     Batch { position, ops }
//! }
//!
//! # let dir = tempfile::tempdir()?;
//! # let dir = dir.path();
//! let store = Store::open(dir)?;
//! store.put("Emma", "1815")?;
//! store.put("Dune", "1965")?;
//! drop(store); // without a checkpoint, as a crash would
//!
//! let store = Store::open(dir)?;
//! assert_eq!(store.get("Emma")?.as_deref(), Some(&b"1815"[..]));
//! assert_eq!(store.get("Ivanhoe")?, None);
//! # Ok::<(), Box<dyn Error>>(())
//! ```

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

mod apply;
pub mod blob;
pub mod block;
pub mod bulk;
pub mod cache;
pub mod check;
pub mod checkpoint;
pub mod codec;
mod compact;
pub mod core;
pub mod counters;
mod entry;
pub mod file;
pub mod filter;
pub mod flush;
pub mod forest;
mod generation;
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
mod validate;
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
