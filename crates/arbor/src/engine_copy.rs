//! The engines of a folder that is only looked at.
//!
//! Opening an engine may change its files. So whoever must leave a folder as it is opens a copy.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arbor_engine::{Engine, Error, Result};

use crate::engines::EngineChoice;
use crate::folder;

/// The engines whose files are in the folder, the home first.
pub fn engines_in(path: &Path) -> Vec<String> {
    let listed = std::fs::read_to_string(path.join("arbor.engines")).unwrap_or_default();
    let mut names: Vec<String> = folder::engine_of(path).into_iter().collect();
    for name in listed.lines().map(str::trim).filter(|name| !name.is_empty()) {
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names
}

/// Errors: the engine is not in this build, or refuses its files.
pub fn open(name: &str, path: &Path) -> Result<Arc<dyn Engine>> {
    find(name, path)?.open(path)
}

fn find(name: &str, path: &Path) -> Result<EngineChoice> {
    let missing = |reason: &str| Error::Unavailable { engine: name.to_owned(), reason: reason.to_owned(), tree: None };
    if !path.is_dir() {
        return Err(missing("its folder is missing"));
    }
    EngineChoice::named(name).ok_or_else(|| missing("it is not in this build"))
}

/// Dropping it removes the copy.
pub struct EngineCopy {
    engine: Option<Arc<dyn Engine>>,
    path: PathBuf,
}

impl EngineCopy {
    /// Opens what may be damaged. Requires a `scratch` folder with as much space as the engine's files take.
    pub fn open(name: &str, from: &Path, scratch: &Path) -> Result<EngineCopy> {
        let path = scratch.join(format!("copy-of-{name}"));
        let mut copy = EngineCopy { engine: None, path };
        if from.is_dir() {
            copy_files(from, &copy.path)
                .map_err(|source| Error::Io { context: format!("copying {}", from.display()), source })?;
        }
        copy.engine = Some(find(name, &copy.path)?.open_damaged(&copy.path)?);
        Ok(copy)
    }

    pub fn engine(&self) -> &dyn Engine {
        &**self.engine.as_ref().expect("it is there from open to drop")
    }
}

impl Drop for EngineCopy {
    fn drop(&mut self) {
        drop(self.engine.take());
        // What is left goes with the scratch folder at the next start.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// The files of a folder and of the folders in it.
pub fn copy_files(from: &Path, to: &Path) -> std::io::Result<()> {
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
