//! The directory of an engine: its owner, and how it comes into being.
//!
//! | file | what |
//! |---|---|
//! | `LOCK` | locked while an engine has the directory open |
//! | `CREATING` | the directory is being made: whatever else is there is not yet an engine and is made again |
//! | `data.mdb` | LMDB's pages |
//! | `lock.mdb` | LMDB's table of readers; recreated at each open, so that no slot of a dead process stays |
//! | `checkpoint.meta` | the state that survives a crash, see [`checkpoint`](crate::checkpoint) |

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arbor_engine::{Error, Result, create_directory};

use crate::files::{self, CHECKPOINT_FILE, DATA_FILE};

const CREATING: &str = "CREATING";

pub(crate) struct Directory {
    pub path: PathBuf,
    /// The lock ends with the last handle; LMDB's environment holds one as well, since snapshots may outlive the engine.
    pub lock: Arc<File>,
    /// The directory itself, so that syncing it needs no descriptor when there may be none left.
    handle: File,
}

/// State of the directory.
#[derive(PartialEq, Debug)]
pub(crate) enum Found {
    New,
    Engine,
}

fn io_error(context: &'static str) -> impl Fn(io::Error) -> Error {
    move |source| files::io_error(context, source)
}

impl Directory {
    pub(crate) fn open(path: &Path) -> Result<Directory> {
        let cannot = |reason: String| Error::CannotOpen { path: path.display().to_string(), reason };
        create_directory(path)?;
        let lock = File::create(path.join("LOCK")).map_err(|e| cannot(e.to_string()))?;
        match lock.try_lock() {
            Ok(()) => {
                let handle = File::open(path).map_err(|e| cannot(e.to_string()))?;
                Ok(Directory { path: path.to_owned(), lock: Arc::new(lock), handle })
            }
            Err(TryLockError::WouldBlock) => Err(cannot("in use by another engine or process".to_owned())),
            Err(TryLockError::Error(e)) => Err(cannot(e.to_string())),
        }
    }

    /// Looks what is there and makes way for LMDB: an unfinished creation is removed, and so is the table of readers.
    pub(crate) fn prepare(&self) -> Result<Found> {
        let cannot =
            |reason: &str| Err(Error::CannotOpen { path: self.path.display().to_string(), reason: reason.to_owned() });
        let creating = self.has(CREATING)?;
        self.remove("lock.mdb")?;
        match (creating, self.has(DATA_FILE)?, self.has(CHECKPOINT_FILE)?) {
            (false, true, true) => return Ok(Found::Engine),
            (false, true, false) => return cannot("checkpoint.meta is missing, data.mdb is there"),
            (false, false, true) => return cannot("data.mdb is missing, checkpoint.meta is there"),
            (true, ..) | (false, false, false) => {}
        }
        let marker = File::create(self.path.join(CREATING)).map_err(io_error("create marker"))?;
        marker.sync_all().and_then(|()| self.sync()).map_err(io_error("sync marker"))?;
        self.remove(DATA_FILE)?;
        self.remove(CHECKPOINT_FILE)?;
        Ok(Found::New)
    }

    /// The creation is complete: the first checkpoint is durable.
    pub(crate) fn created(&self) -> Result<()> {
        self.remove(CREATING)?;
        self.sync().map_err(io_error("sync the directory"))
    }

    /// Makes the names in the directory durable.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.handle.sync_all()
    }

    fn has(&self, name: &str) -> Result<bool> {
        self.path.join(name).try_exists().map_err(io_error("look into the directory"))
    }

    fn remove(&self, name: &str) -> Result<()> {
        match fs::remove_file(self.path.join(name)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(io_error("remove a file")(e)),
            _ => Ok(()),
        }
    }
}
