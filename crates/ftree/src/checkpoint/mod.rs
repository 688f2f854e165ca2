//! Checkpoints: making a state survive a crash.
//!
//! - [`superblock`]: which state is the durable one; [`catalog`]: its trees; [`node_block`]: their inner nodes
//! - `write`: the way of a captured state to the disk; `nodes`: its nodes' way
//! - [`recover`]: opening the newest durable state; `lost`: the placeholder for a damaged node
//! - `directory`: lock and creation

pub(crate) mod catalog;
mod directory;
mod lost;
pub(crate) mod node_block;
mod nodes;
pub(crate) mod recover;
pub(crate) mod superblock;
mod write;

use std::path::Path;
use std::sync::Arc;

use arbor_disk::Lock;

pub use node_block::{NodeOnDisk, NodePointer};
pub use recover::Recovered;
pub use write::{Captured, CapturedTree, Checkpoints};

use crate::io::Io;
use crate::{Options, Result};

/// A directory that is ours, its file and its durable state.
pub struct Opened {
    /// Dropped last (field order matters).
    pub lock: Box<dyn Lock>,
    pub io: Arc<Io>,
    pub recovered: Recovered,
}

/// Opens the forest in a directory, making a new one if there is none.
pub fn open(options: &Options, dir: &Path) -> Result<Opened> {
    let lock = directory::take(options, dir)?;
    let io = Io::open(options, dir)?;
    // What a process that was killed had written and not synced is shown, and not durable: a power cut might still take back
    // the superblock that is found now.
    io.file.sync()?;
    let recovered = recover::recover(&io)?;
    Ok(Opened { lock, io, recovered })
}

/// Opens the forest in a directory for reading. Nothing is written.
pub fn open_existing(options: &Options, dir: &Path) -> Result<Opened> {
    let lock = directory::take_existing(&*options.disk, dir)?;
    let io = Io::open_to_read(&options.disk, dir, options.memory_bytes_max)?;
    let recovered = recover::recover(&io)?;
    Ok(Opened { lock, io, recovered })
}

/// The file of a forest that recovery may refuse.
pub fn open_damaged(options: &Options, dir: &Path) -> Result<(Box<dyn Lock>, Arc<Io>)> {
    let lock = directory::take_existing(&*options.disk, dir)?;
    Ok((lock, Io::open_to_read(&options.disk, dir, options.memory_bytes_max)?))
}

#[cfg(test)]
mod tests;
