//! The engines of a directory that is only looked at.
//!
//! Opening an engine may change its files. So a caller that must leave a directory unchanged opens a copy.

use std::path::Path;
use std::sync::Arc;

use arbor_engine::{Engine, Error, Result};

use crate::directory;
use crate::engines::EngineChoice;

/// The engines whose files are in the directory, the home first.
pub(crate) fn engines_in(path: &Path) -> Vec<String> {
    let listed = std::fs::read_to_string(path.join("arbor.engines")).unwrap_or_default();
    let mut names: Vec<String> = directory::engine_of(path).into_iter().collect();
    for name in listed.lines().map(str::trim).filter(|name| !name.is_empty()) {
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names
}

/// Errors: the engine is not in this build, or refuses its files.
pub(crate) fn open(name: &str, path: &Path) -> Result<Arc<dyn Engine>> {
    find(name, path)?.open(path)
}

fn find(name: &str, path: &Path) -> Result<EngineChoice> {
    let missing = |reason: &str| Error::Unavailable { engine: name.to_owned(), reason: reason.to_owned(), tree: None };
    if !path.is_dir() {
        return Err(missing("its directory is missing"));
    }
    EngineChoice::named(name).ok_or_else(|| missing("it is not in this build"))
}

/// Opens what may be damaged.
pub(crate) fn open_damaged(name: &str, path: &Path) -> Result<Arc<dyn Engine>> {
    find(name, path)?.open_damaged(path)
}

/// The files of a directory and of the directories in it.
pub(crate) fn copy_files(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let (entry, to) = entry.map(|entry| (entry.path(), to.join(entry.file_name())))?;
        match entry.is_dir() {
            true => copy_files(&entry, &to)?,
            false => std::fs::copy(&entry, &to).map(drop)?,
        }
    }
    Ok(())
}
