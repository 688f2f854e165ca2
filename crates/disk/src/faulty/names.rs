//! The directory entries: what readers see, what is durable, and the changes between the two.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::{Error, Result};
use arbor_base::Random;

#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    visible: BTreeMap<PathBuf, u64>,
    durable: BTreeMap<PathBuf, u64>,
    unsynced: Vec<Change>,
    directories: BTreeSet<PathBuf>,
}

#[derive(Clone, Debug)]
enum Change {
    Create { path: PathBuf, inode: u64 },
    Remove { path: PathBuf },
    Rename { from: PathBuf, to: PathBuf, inode: u64 },
}

impl Change {
    fn directory(&self) -> Option<&Path> {
        match self {
            Change::Create { path, .. } | Change::Remove { path } => path.parent(),
            Change::Rename { to, .. } => to.parent(),
        }
    }

    fn apply(&self, names: &mut BTreeMap<PathBuf, u64>) {
        match self {
            Change::Create { path, inode } => {
                names.insert(path.clone(), *inode);
            }
            Change::Remove { path } => {
                names.remove(path);
            }
            Change::Rename { from, to, inode } => {
                names.remove(from);
                names.insert(to.clone(), *inode);
            }
        }
    }
}

impl Names {
    pub(super) fn inode(&self, path: &Path) -> Option<u64> {
        self.visible.get(path).copied()
    }

    pub(super) fn inodes(&self) -> BTreeSet<u64> {
        self.visible.values().copied().collect()
    }

    pub(super) fn exists(&self, path: &Path) -> bool {
        self.visible.contains_key(path) || self.directories.contains(path)
    }

    pub(super) fn create(&mut self, path: &Path, inode: u64) -> Result<()> {
        self.require_directory(path)?;
        self.change(Change::Create { path: path.to_owned(), inode });
        Ok(())
    }

    pub(super) fn plant(&mut self, path: &Path, inode: u64) {
        self.create_dir_all(path.parent().unwrap_or(Path::new("")));
        self.visible.insert(path.to_owned(), inode);
        self.durable.insert(path.to_owned(), inode);
    }

    pub(super) fn remove(&mut self, path: &Path) -> Result<()> {
        self.inode(path).ok_or_else(|| not_found(path))?;
        self.change(Change::Remove { path: path.to_owned() });
        Ok(())
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> Result<()> {
        let inode = self.inode(from).ok_or_else(|| not_found(from))?;
        self.require_directory(to)?;
        self.change(Change::Rename { from: from.to_owned(), to: to.to_owned(), inode });
        Ok(())
    }

    pub(super) fn list(&self, dir: &Path) -> Result<Vec<String>> {
        if !self.directories.contains(dir) {
            return Err(not_found(dir));
        }
        let inside = self.visible.keys().filter(|path| path.parent() == Some(dir));
        Ok(inside.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect())
    }

    /// Changes of this directory become durable, in their order.
    pub(super) fn sync(&mut self, dir: &Path) {
        let (synced, left) = std::mem::take(&mut self.unsynced).into_iter().partition(|c| c.directory() == Some(dir));
        self.unsynced = left;
        let synced: Vec<Change> = synced;
        for change in synced {
            change.apply(&mut self.durable);
        }
    }

    pub(super) fn create_dir_all(&mut self, dir: &Path) {
        self.directories.extend(dir.ancestors().map(Path::to_owned));
    }

    /// Returns the names after a power failure: half the time a journal's first part, half the time any subset.
    pub(super) fn crash(&self, random: &mut Random, survive: u64) -> Names {
        let mut names = self.durable.clone();
        let in_order = random.chance(1, 2);
        for change in &self.unsynced {
            if random.chance(survive, 16) {
                change.apply(&mut names);
            } else if in_order {
                break;
            }
        }
        self.with(names)
    }

    pub(super) fn kill_process(&self) -> Names {
        self.clone()
    }

    fn with(&self, names: BTreeMap<PathBuf, u64>) -> Names {
        let directories = self.directories.clone();
        Names { visible: names.clone(), durable: names, unsynced: Vec::new(), directories }
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.visible);
        self.unsynced.push(change);
    }

    fn require_directory(&self, path: &Path) -> Result<()> {
        let known = path.parent().is_some_and(|dir| self.directories.contains(dir));
        if known { Ok(()) } else { Err(not_found(path)) }
    }
}

fn not_found(path: &Path) -> Error {
    Error::NotFound { path: path.to_owned() }
}
