//! The directory of an engine: whose it is.
//!
//! | file | what |
//! |---|---|
//! | `ARBOR_ENGINE` | `rocksdb 2`: the directory is Arbor's, and the version of [`records`](crate::records) |
//! | `LOAD_*.sst` | files of a bulk load before RocksDB takes them over; left ones are removed at open |
//! | all others | RocksDB's own: `CURRENT`, `MANIFEST-*`, `*.sst`, `LOCK`, `LOG` ... |

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use arbor_engine::{DirectoryMarker, Error, FoundDirectory, Result};

const MARKER: DirectoryMarker = DirectoryMarker { library: "RocksDB", version: "rocksdb 2" };
const LOAD_PREFIX: &str = "LOAD_";

/// Makes the directory or finds that it is Arbor's.
pub(crate) fn prepare(path: &Path) -> Result<()> {
    match MARKER.prepare(path)? {
        FoundDirectory::New => Ok(()),
        FoundDirectory::Marked => check_current(path),
    }
}

/// RocksDB would make a new database where `CURRENT` is missing.
fn check_current(path: &Path) -> Result<()> {
    let fails = |e: io::Error| Error::cannot_open(path, e.to_string());
    if path.join("CURRENT").try_exists().map_err(fails)? {
        return Ok(());
    }
    for entry in fs::read_dir(path).map_err(fails)? {
        if entry.map_err(fails)?.path().extension().is_some_and(|end| end == "sst") {
            return Err(Error::cannot_open(path, "the file CURRENT is missing next to RocksDB's tables"));
        }
    }
    Ok(())
}

/// Returns the path of file `number` of a content's bulk load.
pub(crate) fn load_file(dir: &Path, content: u64, number: usize) -> PathBuf {
    dir.join(format!("{LOAD_PREFIX}{content}_{number}.sst"))
}

/// Removes what unfinished bulk loads left. Requires: the engine owns the directory.
pub(crate) fn remove_load_files(dir: &Path) -> Result<()> {
    let fails = |source| Error::Io { context: "remove the files of a bulk load".to_owned(), source };
    for entry in fs::read_dir(dir).map_err(fails)? {
        let entry = entry.map_err(fails)?;
        if entry.file_name().to_string_lossy().starts_with(LOAD_PREFIX) {
            fs::remove_file(entry.path()).map_err(fails)?;
        }
    }
    Ok(())
}
