//! `arbor backup restore`: an initial sync whose peer is a backup.

use std::path::{Path, PathBuf};
use std::time::Duration;

use arbor_base::TreeId;
use arbor_txn::fetch::{Begun, Peer, PeerError};
use parking_lot::Mutex;

use super::manifest::Manifest;
use super::rows_file::RowsReader;
use super::target::{Backup, Target};
use super::{Error, Result, io};
use crate::check;
use crate::config::Settings;
use crate::directory::Directory;
use crate::engines::{Engines, NAMES};
use crate::memory::Sizes;
use crate::storage::{Pace, Part, Storage};

pub(super) fn run(from: &Target, name: Option<&str>, dbpath: &Path) -> Result<()> {
    let (backup, manifest) = from.find(name)?;
    check_is_empty(dbpath)?;
    restore(&backup, &manifest, dbpath)?;
    println!("{} was restored into {}: {manifest}", backup.name, dbpath.display());
    Ok(())
}

/// Restores into a directory that the caller removes, and validates everything in it.
pub(super) fn trial(backup: &Backup, manifest: &Manifest, directory: &Path) -> Result<()> {
    restore(backup, manifest, directory)?;
    check::verify(directory).map_err(|failure| Error::Refused(failure.to_string()))
}

fn check_is_empty(dbpath: &Path) -> Result<()> {
    match std::fs::read_dir(dbpath) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(io("read", dbpath)(error)),
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => Err(Error::Refused(format!(
                "{} is not empty: a backup is restored into an empty directory only",
                dbpath.display()
            ))),
        },
    }
}

/// Requires that the directory is empty or missing. Ensures on `Err`: it is so again.
fn restore(backup: &Backup, manifest: &Manifest, dbpath: &Path) -> Result<()> {
    let stored = Stored { directory: backup.path.clone(), manifest: manifest.clone(), open: Mutex::default() };
    stored.check_files()?;
    let home = NAMES.iter().find(|name| **name == manifest.home);
    let home = home.ok_or_else(|| missing_engine(&manifest.home))?;
    let is_new = !dbpath.exists();
    if is_new {
        std::fs::create_dir(dbpath).map_err(io("create", dbpath))?;
    }
    let filled = fill(&stored, home, dbpath);
    if filled.is_err() {
        // What is there is no state that ever was.
        let _removed = empty(dbpath, is_new);
    }
    filled
}

fn missing_engine(name: &str) -> Error {
    Error::Refused(format!(
        "the backup needs the storage engine '{name}', which is not in this build ({})",
        NAMES.join(", ")
    ))
}

fn empty(dbpath: &Path, is_new: bool) -> std::io::Result<()> {
    if is_new {
        return std::fs::remove_dir_all(dbpath);
    }
    for entry in std::fs::read_dir(dbpath)? {
        let path = entry?.path();
        if path.is_dir() { std::fs::remove_dir_all(path)? } else { std::fs::remove_file(path)? }
    }
    Ok(())
}

fn fill(stored: &Stored, home: &str, dbpath: &Path) -> Result<()> {
    let refused = |error: &dyn std::fmt::Display| Error::Refused(format!("cannot restore: {error}"));
    let engines = Engines::of_directory(Some(home));
    let pace = Pace {
        commit_interval: Duration::from_millis(100),
        checkpoint_interval: Duration::from_secs(60),
        cache_bytes: Sizes::of(&Settings::default()).cache(),
        history: None,
    };
    let directory = Directory::open(dbpath, home).map_err(|failure| refused(&failure))?;
    let storage = Storage::open(directory, &engines, &pace, Part::OfSeveral).map_err(|failure| refused(&failure))?;
    let filled = sync(stored, &storage);
    let closed = storage.close().map_err(|failure| refused(&failure));
    filled.and(closed)
}

fn sync(stored: &Stored, storage: &Storage) -> Result<()> {
    let engine = storage.transactions.engine();
    for facts in stored.manifest.state().trees {
        // Engines join before they are to have trees; one that is not in this build is named.
        engine.check_options(&facts.options).map_err(|error| Error::Refused(format!("cannot restore: {error}")))?;
    }
    storage
        .transactions
        .sync_from(stored, &())
        .map(drop)
        .map_err(|error| Error::Refused(format!("cannot restore: {error}")))
}

/// A backup as the peer of an initial sync: each tree is read once, from its first block on.
struct Stored {
    directory: PathBuf,
    manifest: Manifest,
    open: Mutex<Option<Open>>,
}

/// The tree that is being read.
struct Open {
    tree: TreeId,
    reader: RowsReader,
    /// The key behind which the last block was asked for.
    after: Option<Vec<u8>>,
}

impl Stored {
    /// Errors: a file is missing, or has another size than the manifest says.
    fn check_files(&self) -> Result<()> {
        self.manifest.files.iter().try_for_each(|file| RowsReader::open(&self.directory, file).map(drop))
    }

    fn open(&self, tree: TreeId) -> std::result::Result<RowsReader, PeerError> {
        let file = self.manifest.files.iter().find(|file| file.tree == tree.0).ok_or(PeerError::NoTree(tree))?;
        RowsReader::open(&self.directory, file).map_err(failed)
    }
}

fn failed(error: Error) -> PeerError {
    PeerError::Failed(error.to_string())
}

impl Peer for Stored {
    fn begin(&self) -> std::result::Result<Begun, PeerError> {
        Ok(self.manifest.state())
    }

    fn block(&self, _: u64, tree: TreeId, after: Option<&[u8]>) -> std::result::Result<Vec<u8>, PeerError> {
        let mut open = self.open.lock();
        let mut own = match (after, open.take()) {
            (None, _) => Open { tree, reader: self.open(tree)?, after: None },
            // The same block again would be the next one.
            (Some(after), Some(own)) if own.tree == tree && own.after.as_deref() != Some(after) => own,
            (Some(_), _) => {
                return Err(PeerError::Failed(format!("the blocks of tree {tree} are read in order, once")));
            }
        };
        let block = own.reader.next_block().map_err(failed)?;
        own.after = after.map(<[u8]>::to_vec);
        *open = Some(own);
        Ok(block)
    }

    fn end(&self, _: u64) {}
}
