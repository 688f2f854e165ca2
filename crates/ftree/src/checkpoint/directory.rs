//! The directory of a forest: its owner, and how its data file comes into being.
//!
//! | file | what |
//! |---|---|
//! | `ftree.lock` | locked while a forest has the directory open |
//! | `ftree.data` | superblocks and extents; exists only with superblocks in it |
//! | `ftree.new` | a data file that is being made; renamed when its superblocks are durable |

use std::path::Path;

use arbor_disk::{Disk, Lock, OpenMode};

use super::superblock::{SLOT_OFFSETS, Superblock};
use crate::io::DATA_FILE;
use crate::space::DATA_BEGIN;
use crate::{Error, Options, Result};

const LOCK_FILE: &str = "ftree.lock";
const NEW_FILE: &str = "ftree.new";

/// Takes the directory, and makes a data file if there is none. A file that is there is not touched.
pub(super) fn take(options: &Options, dir: &Path) -> Result<Box<dyn Lock>> {
    let disk = &*options.disk;
    disk.create_dir_all(dir).map_err(|error| failed(dir, error))?;
    let lock = disk.lock(&dir.join(LOCK_FILE)).map_err(|error| failed(dir, error))?;
    // The text is for people; a full disk need not keep a forest from being read.
    let _ = lock.write(&std::process::id().to_string());
    create_missing(disk, dir).map_err(|error| failed(dir, error))?;
    Ok(lock)
}

/// Locks a directory that has a data file, for tools that only read it.
pub(super) fn take_existing(disk: &dyn Disk, dir: &Path) -> Result<Box<dyn Lock>> {
    let path = dir.join(DATA_FILE);
    if !disk.exists(&path).map_err(|error| failed(dir, error))? {
        return Err(Error::CannotOpen { path: path.display().to_string(), reason: "there is no such file".to_owned() });
    }
    disk.lock(&dir.join(LOCK_FILE)).map_err(|error| failed(dir, error))
}

fn create_missing(disk: &dyn Disk, dir: &Path) -> arbor_disk::Result<()> {
    let (path, new) = (dir.join(DATA_FILE), dir.join(NEW_FILE));
    if !disk.exists(&path)? {
        let file = disk.open(&new, OpenMode::Create)?;
        file.set_len(0)?;
        file.set_len(DATA_BEGIN)?;
        for offset in SLOT_OFFSETS {
            file.write_at(&Superblock { file_bytes: DATA_BEGIN, ..Superblock::default() }.encode(), offset)?;
        }
        file.sync_data()?;
        disk.rename(&new, &path)?;
    }
    // Also of a file that a dead process made and did not come to sync the name of.
    disk.sync_dir(dir)
}

fn failed(dir: &Path, error: arbor_disk::Error) -> Error {
    let path = dir.display().to_string();
    match error {
        arbor_disk::Error::Locked { .. } => {
            Error::CannotOpen { path, reason: "in use by another process, or by another engine in this one".to_owned() }
        }
        error if error.is_out_of_space() => Error::OutOfSpace { context: error.to_string() },
        error => Error::CannotOpen { path, reason: error.to_string() },
    }
}
