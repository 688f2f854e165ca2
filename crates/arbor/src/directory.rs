//! The data directory.
//!
//! | name | what |
//! |---|---|
//! | `arbor.lock` | held by the one process that works on the directory; its text is the process id |
//! | `arbor.format` | identity: `format`, `engine` (the home, which also holds the catalogue), the release that made the directory, `id` (32 hexadecimal digits; added to directories of releases up to 2026-11-23), and the CRC-32C of the lines before, one `key = value` per line; releases up to 2026-11-22 wrote no checksum |
//! | `arbor.replset` | what the members of its replica set agreed on (written by `command`) |
//! | `arbor.local` | what a member of a set keeps about itself: the oplog's size, its starts (written by `command`) |
//! | `log/` | the commit log |
//! | `arbor.engines` | the engines that have trees here, one name per line (written by `engine-set`; without it the one of `arbor.format`) |
//! | `ftree/`, `lmdb/`, `rocksdb/`, `wiredTiger/` | the trees of the engine of that name |
//! | `diagnostic.data/` | samples of all statistics (`metrics`, flight/); they may be deleted at any time |
//! | `scratch/` | temporary files; nothing in it survives a start |
//! | `backup.cursor/` | the files of `$backupCursor` while it is open (`command`); it does not survive a start |
//! | `reserve` | space for the time when there is none (`txn`'s `Space`); it may be deleted while no server runs |
//!
//! The identity is written before anything else and made durable with its name, so a directory without one is new (or not
//! ours).

use std::io::Write;
use std::path::{Path, PathBuf};

use arbor_disk::{Disk, Lock, RealDisk};

use crate::engines::EngineChoice;
use crate::failure::{FOREIGN_DIRECTORY, Failure};

/// Raised when something in the directory changes in a way that older releases cannot read.
const FORMAT: u32 = 1;

/// Files that other servers leave; a directory with one of them is not taken over.
const FOREIGN_FILES: &[&str] =
    &["WiredTiger", "WiredTiger.wt", "storage.bson", "local.ns", "local.0", "tokumx.environment"];

/// A directory that belongs to this process.
#[derive(Debug)]
pub(crate) struct Directory {
    pub path: PathBuf,
    /// Differs from that of every other directory; copies of the directory have it too.
    pub id: String,
    _lock: Box<dyn Lock>,
}

impl Directory {
    /// Locks the directory and checks whose it is; a new one becomes ours.
    pub(crate) fn open(path: &Path, engine: &str) -> Result<Directory, Failure> {
        if !path.is_dir() {
            return Err(Failure::cannot_start(format!(
                "NonExistentPath: Data directory {} not found. Create the missing directory or specify another directory \
                 using (1) the --dbpath command line option, or (2) by adding the 'storage.dbPath' option in the \
                 configuration file.",
                path.display()
            )));
        }
        let lock = lock(path)?;
        let identity = path.join("arbor.format");
        let written = match std::fs::read_to_string(&identity) {
            Ok(text) => {
                check_identity(path, &text, engine)?;
                text
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                refuse_foreign(path)?;
                format!("format = {FORMAT}\nengine = {engine}\ncreated_by = {}\n", env!("CARGO_PKG_VERSION"))
            }
            Err(error) => return Err(cannot(path, "read arbor.format in", &error)),
        };
        let id = match value_of(&written, "id") {
            Some(id) => id.to_owned(),
            None => {
                let id = uuid::Uuid::new_v4().simple().to_string();
                let lines = written.split_once("checksum").map_or(&*written, |(lines, _)| lines);
                write_identity(path, &identity, &format!("{lines}id = {id}\n"))
                    .map_err(|error| cannot(path, "write arbor.format into", &error))?;
                id
            }
        };
        Ok(Directory { path: path.to_owned(), id, _lock: lock })
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.path.join("log")
    }

    pub(crate) fn engine(&self, engine: &str) -> PathBuf {
        self.path.join(engine)
    }

    pub(crate) fn scratch(&self) -> PathBuf {
        self.path.join("scratch")
    }
}

fn lock(path: &Path) -> Result<Box<dyn Lock>, Failure> {
    let name = path.join("arbor.lock");
    let lock = RealDisk.lock(&name).map_err(|error| match error {
        arbor_disk::Error::Locked { .. } => {
            let owner = std::fs::read_to_string(&name).unwrap_or_default();
            Failure::cannot_start(format!(
                "DBPathInUse: the data directory {} is in use: another process (pid {}) holds its lock file",
                path.display(),
                owner.trim()
            ))
        }
        error => Failure::cannot_start(format!("cannot lock the data directory {}: {error}", path.display())),
    })?;
    // The text is for people; the lock holds without it.
    let _ = lock.write(&format!("{}\n", std::process::id()));
    Ok(lock)
}

fn value_of<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    let lines = text.lines().filter_map(|line| line.split_once('='));
    lines.map(|(name, value)| (name.trim(), value.trim())).find(|(name, _)| *name == key).map(|(_, value)| value)
}

/// The engine that a directory was made with; `None` if it does not say.
pub(crate) fn engine_of(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path.join("arbor.format")).ok()?;
    value_of(&text, "engine").map(str::to_owned)
}

/// Returns true if the checksum is right, or the file is of a release that wrote none.
fn has_sound_checksum(text: &str) -> bool {
    const OLD_KEYS: [&str; 3] = ["format", "engine", "created_by"];
    match text.split_once("checksum") {
        Some((lines, _)) => text == with_checksum(lines),
        None => text.lines().all(|line| OLD_KEYS.iter().any(|key| line.starts_with(key))),
    }
}

fn with_checksum(lines: &str) -> String {
    format!("{lines}checksum = {:08x}\n", crc32c::crc32c(lines.as_bytes()))
}

fn check_identity(path: &Path, text: &str, engine: &str) -> Result<(), Failure> {
    let value = |key: &str| value_of(text, key);
    let foreign =
        |reason: String| Err(Failure::new(FOREIGN_DIRECTORY, format!("data directory {}: {reason}", path.display())));
    if !has_sound_checksum(text) {
        return foreign("arbor.format is damaged: its checksum does not match. Restore a copy of it".to_owned());
    }
    match value("format").map(str::parse::<u32>) {
        Some(Ok(format)) if format <= FORMAT => {}
        Some(Ok(format)) => {
            return foreign(format!("its format is {format}; this release reads up to {FORMAT}. Use a newer release."));
        }
        _ => return foreign("arbor.format does not say which format it is".to_owned()),
    }
    match value("engine") {
        Some(found) if found == engine => Ok(()),
        Some(found) if EngineChoice::named(found).is_none() => {
            foreign(format!("it was created with the storage engine '{found}', which this build lacks"))
        }
        Some(found) => foreign(format!(
            "it was created with the storage engine '{found}', not '{engine}'; start with --storageEngine {found} or \
             use another directory"
        )),
        None => foreign("arbor.format does not name its engine".to_owned()),
    }
}

fn refuse_foreign(path: &Path) -> Result<(), Failure> {
    match FOREIGN_FILES.iter().find(|name| path.join(name).exists()) {
        Some(name) => Err(Failure::new(
            FOREIGN_DIRECTORY,
            format!(
                "data directory {}: it holds {name}, so it belongs to another server; use another directory",
                path.display()
            ),
        )),
        None => Ok(()),
    }
}

/// Writes the identity atomically: into another file, which is synced and renamed.
fn write_identity(path: &Path, identity: &Path, lines: &str) -> std::io::Result<()> {
    let temporary = path.join("arbor.format.new");
    let mut file = std::fs::File::create(&temporary)?;
    file.write_all(with_checksum(lines).as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&temporary, identity)?;
    std::fs::File::open(path)?.sync_all()
}

fn cannot(path: &Path, what: &str, error: &std::io::Error) -> Failure {
    Failure::cannot_start(format!("cannot {what} the data directory {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(path: &Path, engine: &str) -> Result<Directory, (u8, String)> {
        Directory::open(path, engine).map_err(|failure| (failure.code, failure.message))
    }

    #[test]
    fn a_new_directory_becomes_ours_and_stays_it() {
        let dir = tempfile::tempdir().unwrap();
        let directory = open(dir.path(), "lmdb").unwrap();
        let (code, message) = open(dir.path(), "lmdb").unwrap_err();
        assert_eq!(code, 100);
        assert!(message.contains(&std::process::id().to_string()), "{message}");
        let id = directory.id.clone();
        assert_eq!(id.len(), 32);
        drop(directory);
        assert_eq!(open(dir.path(), "lmdb").unwrap().id, id);
    }

    #[test]
    fn a_damaged_identity_is_refused_and_an_old_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        drop(open(dir.path(), "lmdb").unwrap());
        let identity = dir.path().join("arbor.format");
        let whole = std::fs::read(&identity).unwrap();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            std::fs::write(&identity, bytes).unwrap();
            assert_eq!(open(dir.path(), "lmdb").unwrap_err().0, FOREIGN_DIRECTORY, "flipped at {at}");
        }
        std::fs::write(&identity, "format = 1\nengine = lmdb\ncreated_by = 0.1.0\n").unwrap();
        let id = open(dir.path(), "lmdb").unwrap().id;
        assert_eq!(open(dir.path(), "lmdb").unwrap().id, id, "an old directory gets an identity, and keeps it");
    }

    #[test]
    fn what_is_not_ours_is_refused() {
        let missing = tempfile::tempdir().unwrap().path().join("missing");
        let (code, message) = open(&missing, "lmdb").unwrap_err();
        assert!(code == 100 && message.contains("Create the missing directory"), "{message}");

        let dir = tempfile::tempdir().unwrap();
        drop(open(dir.path(), "lmdb").unwrap());
        assert_eq!(open(dir.path(), "ftree").unwrap_err().0, FOREIGN_DIRECTORY);
        std::fs::write(dir.path().join("arbor.format"), "format = 1\nengine = paper\n").unwrap();
        let (code, message) = open(dir.path(), "lmdb").unwrap_err();
        assert!(code == FOREIGN_DIRECTORY && message.contains("engine 'paper', which this build lacks"), "{message}");
        std::fs::write(dir.path().join("arbor.format"), "format = 99\nengine = lmdb\n").unwrap();
        let (code, message) = open(dir.path(), "lmdb").unwrap_err();
        assert!(code == FOREIGN_DIRECTORY && message.contains("newer release"), "{message}");
        std::fs::write(dir.path().join("arbor.format"), "").unwrap();
        assert_eq!(open(dir.path(), "lmdb").unwrap_err().0, FOREIGN_DIRECTORY);

        let mongods = tempfile::tempdir().unwrap();
        std::fs::write(mongods.path().join("WiredTiger"), "").unwrap();
        assert_eq!(open(mongods.path(), "lmdb").unwrap_err().0, FOREIGN_DIRECTORY);
        assert!(!mongods.path().join("arbor.format").exists());
    }
}
