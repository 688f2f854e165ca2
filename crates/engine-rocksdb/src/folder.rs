//! The folder of an engine: whose it is.
//!
//! | file | what |
//! |---|---|
//! | `ARBOR_ENGINE` | `rocksdb 2`: the folder is Arbor's, and the version of [`records`](crate::records) |
//! | `LOAD_*.sst` | files of a bulk load before RocksDB takes them over; left ones are removed at open |
//! | all others | RocksDB's own: `CURRENT`, `MANIFEST-*`, `*.sst`, `LOCK`, `LOG` ... |
//!
//! The marker is written before RocksDB makes its first file, so a folder with files and without it is not Arbor's, and
//! RocksDB does not get to see it (it would write to it).

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use arbor_engine::{Error, Result};

const MARKER: &str = "ARBOR_ENGINE";
const CONTENT: &str = "rocksdb 2\n";
const LOAD_PREFIX: &str = "LOAD_";

fn cannot(path: &Path, reason: impl Into<String>) -> Error {
    Error::CannotOpen { path: path.display().to_string(), reason: reason.into() }
}

/// Makes the folder or finds that it is Arbor's.
pub fn prepare(path: &Path) -> Result<()> {
    let fails = |e: io::Error| cannot(path, e.to_string());
    fs::create_dir_all(path).map_err(fails)?;
    match fs::read_to_string(path.join(MARKER)) {
        Ok(text) if text == CONTENT => check_current(path),
        // A crash while the marker was written: nothing else can be there.
        Ok(text) if CONTENT.starts_with(&text) => mark(path),
        Ok(text) => Err(cannot(path, format!("{MARKER} says '{}', this build reads 'rocksdb 2'", text.trim()))),
        Err(e) if e.kind() == io::ErrorKind::NotFound => mark(path),
        Err(e) => Err(fails(e)),
    }
}

/// RocksDB would make a new database where `CURRENT` is missing.
fn check_current(path: &Path) -> Result<()> {
    let fails = |e: io::Error| cannot(path, e.to_string());
    if path.join("CURRENT").try_exists().map_err(fails)? {
        return Ok(());
    }
    for entry in fs::read_dir(path).map_err(fails)? {
        if entry.map_err(fails)?.path().extension().is_some_and(|end| end == "sst") {
            return Err(cannot(path, "the file CURRENT is missing beside RocksDB's tables"));
        }
    }
    Ok(())
}

fn mark(path: &Path) -> Result<()> {
    let fails = |e: io::Error| cannot(path, e.to_string());
    for entry in fs::read_dir(path).map_err(fails)? {
        let name = entry.map_err(fails)?.file_name();
        if name != MARKER && name != "lost+found" {
            return Err(cannot(path, format!("it holds {} and is not a RocksDB folder of Arbor", name.display())));
        }
    }
    let mut file = File::create(path.join(MARKER)).map_err(fails)?;
    file.write_all(CONTENT.as_bytes()).and_then(|()| file.sync_all()).map_err(fails)?;
    File::open(path).and_then(|dir| dir.sync_all()).map_err(fails)
}

/// Where a bulk load writes its file `number` of a content.
pub fn load_file(dir: &Path, content: u64, number: usize) -> PathBuf {
    dir.join(format!("{LOAD_PREFIX}{content}_{number}.sst"))
}

/// Removes what unfinished bulk loads left. Requires: the engine owns the folder.
pub fn remove_load_files(dir: &Path) -> Result<()> {
    let fails = |source| Error::Io { context: "remove the files of a bulk load".to_owned(), source };
    for entry in fs::read_dir(dir).map_err(fails)? {
        let entry = entry.map_err(fails)?;
        if entry.file_name().to_string_lossy().starts_with(LOAD_PREFIX) {
            fs::remove_file(entry.path()).map_err(fails)?;
        }
    }
    Ok(())
}
