//! The marker of a directory that a library keeps its files in: whose the directory is, before the library sees it.
//!
//! The marker is written before the library makes its first file, so a directory with files and without it is not Arbor's, and
//! the library does not get to write to it.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use arbor_disk::{Disk, RealDisk};

use crate::{Error, Result};

const FILE: &str = "ARBOR_ENGINE";

/// Creates the directory of an engine, and those above it that are missing. They are durable when this returns: what is
/// durable in a directory whose name is not would be gone with it.
pub fn create_directory(path: &Path) -> Result<()> {
    RealDisk.create_dir_all(path).map_err(|error| Error::cannot_open(path, error.to_string()))
}

/// Contents of the file `ARBOR_ENGINE` in the directories of one engine.
pub struct DirectoryMarker {
    /// As people call it.
    pub library: &'static str,
    /// The engine and the version of what it keeps there: `rocksdb 2`.
    pub version: &'static str,
}

/// State of a directory before it was claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundDirectory {
    /// Empty, or its making was cut short before anything was in it.
    New,
    /// This version's.
    Marked,
}

impl DirectoryMarker {
    /// Makes the directory, or finds that it is Arbor's. Errors: `CannotOpen` for one of another version or owner.
    pub fn prepare(&self, path: &Path) -> Result<FoundDirectory> {
        let fails = |e: io::Error| Error::cannot_open(path, e.to_string());
        let content = format!("{}\n", self.version);
        create_directory(path)?;
        match fs::read_to_string(path.join(FILE)) {
            Ok(text) if text == content => Ok(FoundDirectory::Marked),
            // A crash while the marker was written: nothing else can be there.
            Ok(text) if content.starts_with(&text) => self.mark(path, &content),
            Ok(text) => {
                let reason = format!("{FILE} says '{}', this build reads '{}'", text.trim(), self.version);
                Err(Error::cannot_open(path, reason))
            }
            Err(e) if e.kind() == ErrorKind::NotFound => self.mark(path, &content),
            Err(e) => Err(fails(e)),
        }
    }

    fn mark(&self, path: &Path, content: &str) -> Result<FoundDirectory> {
        let fails = |e: io::Error| Error::cannot_open(path, e.to_string());
        for entry in fs::read_dir(path).map_err(fails)? {
            let name = entry.map_err(fails)?.file_name();
            if name != FILE && name != "lost+found" {
                let reason = format!("it holds {} and is not a {} directory of Arbor", name.display(), self.library);
                return Err(Error::cannot_open(path, reason));
            }
        }
        let mut file = File::create(path.join(FILE)).map_err(fails)?;
        file.write_all(content.as_bytes()).and_then(|()| file.sync_all()).map_err(fails)?;
        File::open(path).and_then(|dir| dir.sync_all()).map_err(fails)?;
        Ok(FoundDirectory::New)
    }
}
