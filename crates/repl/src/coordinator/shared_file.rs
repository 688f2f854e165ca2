//! A file that several processes of one machine share, for tests without a coordinator of their own: like `local_file`, and a lock on a
//! second file makes compare-and-set atomic among the processes.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use rustix::fs::{FlockOperation, flock};

use super::{Coordinator, LocalFile, Replaced};
use crate::agreement::{Agreement, Version};

pub struct SharedFile {
    file: LocalFile,
    lock: PathBuf,
}

impl SharedFile {
    pub fn new(path: PathBuf) -> SharedFile {
        SharedFile { lock: path.with_extension("lock"), file: LocalFile::new(path) }
    }
}

impl Coordinator for SharedFile {
    fn read(&self) -> io::Result<Option<(Version, Agreement)>> {
        self.file.read()
    }

    fn replace(&self, expected: Option<Version>, next: &Agreement) -> io::Result<Replaced> {
        let lock = File::options().create(true).truncate(false).write(true).open(&self.lock)?;
        // Released when the file is closed.
        flock(&lock, FlockOperation::LockExclusive)?;
        self.file.replace(expected, next)
    }

    fn changed(&self, seen: Option<Version>) -> bool {
        self.file.changed(seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coordinator::contract;

    #[test]
    fn contract_of_coordinators() {
        let dir = tempfile::tempdir().unwrap();
        let made = std::sync::atomic::AtomicU64::new(0);
        contract::run(&|| {
            let number = made.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Box::new(SharedFile::new(dir.path().join(number.to_string())))
        });
    }
}
