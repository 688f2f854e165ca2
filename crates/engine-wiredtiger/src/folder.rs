//! The folder of an engine: whose it is.
//!
//! | file | what |
//! |---|---|
//! | `ARBOR_ENGINE` | `wiredTiger 1`: the folder is Arbor's, and the version of [`records`](crate::records) |
//! | `t*.wt` | a table each; `t0.wt` is the catalogue |
//! | all others | WiredTiger's own: `WiredTiger`, `WiredTiger.wt`, `WiredTiger.turtle`, `WiredTigerLAS.wt`, `WiredTiger.lock` |
//!
//! The marker is written before WiredTiger makes its first file, so a folder with files and without it is not Arbor's, and
//! WiredTiger does not get to see it (it would write to it).

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use arbor_engine::{Error, Result};

const MARKER: &str = "ARBOR_ENGINE";
const CONTENT: &str = "wiredTiger 1\n";

/// WiredTiger would make a new database where one of these is missing.
const NEEDED: [&str; 3] = ["WiredTiger", "WiredTiger.wt", "WiredTiger.turtle"];

fn cannot(path: &Path, reason: impl Into<String>) -> Error {
    Error::CannotOpen { path: path.display().to_string(), reason: reason.into() }
}

/// Makes the folder or finds that it is Arbor's.
pub fn prepare(path: &Path) -> Result<()> {
    let fails = |e: io::Error| cannot(path, e.to_string());
    fs::create_dir_all(path).map_err(fails)?;
    match fs::read_to_string(path.join(MARKER)) {
        Ok(text) if text == CONTENT => check_files(path),
        // A crash while the marker was written: nothing else can be there.
        Ok(text) if CONTENT.starts_with(&text) => mark(path),
        Ok(text) => Err(cannot(path, format!("{MARKER} says '{}', this build reads 'wiredTiger 1'", text.trim()))),
        Err(e) if e.kind() == io::ErrorKind::NotFound => mark(path),
        Err(e) => Err(fails(e)),
    }
}

/// Where there are tables, there was a database. WiredTiger's files come before the first table.
fn check_files(path: &Path) -> Result<()> {
    let fails = |e: io::Error| cannot(path, e.to_string());
    let mut tables = false;
    for entry in fs::read_dir(path).map_err(fails)? {
        let name = entry.map_err(fails)?.file_name();
        tables |= is_table(&name.to_string_lossy());
    }
    let missing = NEEDED.iter().find(|name| !path.join(name).exists());
    match missing {
        Some(missing) if tables => {
            Err(cannot(path, format!("the file {missing} is missing beside WiredTiger's tables")))
        }
        _ => Ok(()),
    }
}

fn is_table(name: &str) -> bool {
    let number = name.strip_prefix('t').and_then(|name| name.strip_suffix(".wt"));
    number.is_some_and(|number| number.parse::<u64>().is_ok())
}

fn mark(path: &Path) -> Result<()> {
    let fails = |e: io::Error| cannot(path, e.to_string());
    for entry in fs::read_dir(path).map_err(fails)? {
        let name = entry.map_err(fails)?.file_name();
        if name != MARKER && name != "lost+found" {
            return Err(cannot(path, format!("it holds {} and is not a WiredTiger folder of Arbor", name.display())));
        }
    }
    let mut file = File::create(path.join(MARKER)).map_err(fails)?;
    file.write_all(CONTENT.as_bytes()).and_then(|()| file.sync_all()).map_err(fails)?;
    File::open(path).and_then(|dir| dir.sync_all()).map_err(fails)
}

/// Bytes of all files of WiredTiger.
pub fn disk_bytes(path: &Path) -> Result<u64> {
    let fails = |source| Error::Io { context: "list the files of WiredTiger".to_owned(), source };
    let mut bytes = 0;
    for entry in fs::read_dir(path).map_err(fails)? {
        // Dropped meanwhile: no bytes.
        bytes += entry.map_err(fails)?.metadata().map_or(0, |data| data.len());
    }
    Ok(bytes)
}
