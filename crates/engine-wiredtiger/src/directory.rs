//! The directory of an engine: whose it is.
//!
//! | file | what |
//! |---|---|
//! | `ARBOR_ENGINE` | `wiredTiger 1`: the directory is Arbor's, and the version of [`records`](crate::records) |
//! | `t*.wt` | a table each; `t0.wt` is the catalogue |
//! | all others | WiredTiger's own: `WiredTiger`, `WiredTiger.wt`, `WiredTiger.turtle`, `WiredTigerLAS.wt`, `WiredTiger.lock` |

use std::fs;
use std::io;
use std::path::Path;

use arbor_engine::{DirectoryMarker, Error, FoundDirectory, Result};

const MARKER: DirectoryMarker = DirectoryMarker { library: "WiredTiger", version: "wiredTiger 1" };

/// WiredTiger would make a new database where one of these is missing.
const NEEDED: [&str; 3] = ["WiredTiger", "WiredTiger.wt", "WiredTiger.turtle"];

/// Makes the directory or finds that it is Arbor's.
pub(crate) fn prepare(path: &Path) -> Result<()> {
    match MARKER.prepare(path)? {
        FoundDirectory::New => Ok(()),
        FoundDirectory::Marked => check_files(path),
    }
}

/// Checks that tables come with the files of a database: WiredTiger makes those before the first table.
fn check_files(path: &Path) -> Result<()> {
    let fails = |e: io::Error| Error::cannot_open(path, e.to_string());
    let mut tables = false;
    for entry in fs::read_dir(path).map_err(fails)? {
        let name = entry.map_err(fails)?.file_name();
        tables |= is_table(&name.to_string_lossy());
    }
    let missing = NEEDED.iter().find(|name| !path.join(name).exists());
    match missing {
        Some(missing) if tables => {
            Err(Error::cannot_open(path, format!("the file {missing} is missing next to WiredTiger's tables")))
        }
        _ => Ok(()),
    }
}

fn is_table(name: &str) -> bool {
    let number = name.strip_prefix('t').and_then(|name| name.strip_suffix(".wt"));
    number.is_some_and(|number| number.parse::<u64>().is_ok())
}

/// Bytes of all files of WiredTiger.
pub(crate) fn disk_bytes(path: &Path) -> Result<u64> {
    let fails = |source| Error::Io { context: "list the files of WiredTiger".to_owned(), source };
    let mut bytes = 0;
    for entry in fs::read_dir(path).map_err(fails)? {
        // Dropped meanwhile: no bytes.
        bytes += entry.map_err(fails)?.metadata().map_or(0, |data| data.len());
    }
    Ok(bytes)
}
