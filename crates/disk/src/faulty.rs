//! A disk in memory for crash tests: it knows what was synced, and can fail, fill up or lose power.
//!
//! A crash ([`FaultyDisk::crash`]) may leave:
//! - of the sectors (512 bytes) written since a file's last sync, any subset, each in any of its unsynced versions;
//! - the length that belongs to the surviving sectors and cuts; never-written gaps read as zeros;
//! - zeros behind the end of a file that was opened to be appended to ([`Disk::open_appended`]), also when only the process dies;
//! - of the creates, renames and removes since a directory's last sync, some first part or (harsher) any subset.
//!
//! A failed sync (D2) lands a random part of the unsynced sectors and forgets the rest: reads still show them, no later
//! sync makes them durable.

mod content;
mod handle;
mod holes;
mod names;
mod state;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
pub use state::CallCounts;

use crate::{Disk, Error, File, Lock, OpenMode, Result};
use arbor_base::Random;
use handle::{FaultyFile, FaultyLock};
use state::{Call, State};

/// The failure of a chosen call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// EIO, nothing done. A failed sync loses data, see the module doc.
    Io,
    /// ENOSPC, nothing done. Only calls that need space fail so; others fail with EIO.
    OutOfSpace,
    /// A write does its first half and then fails with ENOSPC; other calls fail with EIO.
    ShortWrite,
}

/// Clones share one disk.
#[derive(Clone, Debug, Default)]
pub struct FaultyDisk {
    state: Arc<Mutex<State>>,
}

impl FaultyDisk {
    pub fn new() -> FaultyDisk {
        FaultyDisk::default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// The n-th call from now (0 = the next) fails once.
    pub fn fail_nth(&self, n: u64, fault: Fault) {
        let mut state = self.state();
        state.fail_at = Some((state.counts.calls + n, fault));
        state.triggered = false;
    }

    /// Returns true if the call chosen by `fail_nth` was reached.
    pub fn fault_triggered(&self) -> bool {
        self.state().triggered
    }

    /// Power cut after `n` more calls: from then on every call fails and changes nothing.
    pub fn stop_after(&self, n: u64) {
        let mut state = self.state();
        state.stop_at = Some(state.counts.calls + n);
    }

    /// Limits the bytes that all files together may hold; a write beyond it is done in part and fails with ENOSPC.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state().capacity = bytes;
    }

    /// Limits the bytes that all files together may hold to `bytes` more than they hold now.
    pub fn leave_free(&self, bytes: u64) {
        let mut state = self.state();
        state.capacity = Some(u64::MAX);
        state.capacity = Some(u64::MAX - state.free_bytes() + bytes);
    }

    pub fn counts(&self) -> CallCounts {
        self.state().counts.clone()
    }

    /// A new disk that holds what a power cut at this moment may leave, chosen by `seed`. Locks are gone, faults are
    /// reset. This disk stays unchanged, and one moment can give several images.
    pub fn crash(&self, seed: u64) -> FaultyDisk {
        let image = self.state().crash(&mut Random::new(seed));
        FaultyDisk { state: Arc::new(Mutex::new(image)) }
    }

    /// A new disk that holds exactly what this one shows: the process died, the machine did not.
    pub fn kill_process(&self) -> FaultyDisk {
        let image = self.state().kill_process();
        FaultyDisk { state: Arc::new(Mutex::new(image)) }
    }

    /// Flips bits of one durable and visible byte: damage by the medium.
    pub fn damage(&self, path: &Path, offset: u64) -> Result<()> {
        self.state().content(path)?.damage(offset);
        Ok(())
    }

    /// The visible bytes of a file.
    pub fn contents(&self, path: &Path) -> Result<Vec<u8>> {
        Ok(self.state().content(path)?.visible().to_vec())
    }

    /// Puts a durable file there, past all faults.
    pub fn plant(&self, path: &Path, bytes: &[u8]) {
        self.state().plant(path, bytes);
    }
}

impl Disk for FaultyDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Box<dyn File>> {
        let mut state = self.state();
        state.enter(Call::Open, path)?;
        let inode = state.open(path, mode)?;
        let writable = mode != OpenMode::Read;
        Ok(Box::new(FaultyFile { state: self.state.clone(), inode, writable, path: path.to_owned() }))
    }

    fn open_appended(&self, path: &Path, mode: OpenMode) -> Result<Box<dyn File>> {
        let file = self.open(path, mode)?;
        self.state().content(path)?.appended = true;
        Ok(file)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let mut state = self.state();
        state.enter(Call::Rename, from)?;
        state.names.rename(from, to)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        let mut state = self.state();
        state.enter(Call::Remove, path)?;
        state.names.remove(path)
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        let mut state = self.state();
        state.enter(Call::Other, dir)?;
        state.names.list(dir)
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        let mut state = self.state();
        state.enter(Call::Other, path)?;
        Ok(state.names.exists(path))
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        let mut state = self.state();
        state.enter(Call::SyncDir, dir)?;
        state.names.sync(dir);
        Ok(())
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        let mut state = self.state();
        state.enter(Call::Other, dir)?;
        state.names.create_dir_all(dir);
        Ok(())
    }

    /// Not a call that can fail: callers use the clock to decide when they ask, and the same scenario has to make the
    /// same calls each time.
    fn free_bytes(&self, _dir: &Path) -> Result<u64> {
        Ok(self.state().free_bytes())
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn Lock>> {
        let mut state = self.state();
        state.enter(Call::Open, path)?;
        let inode = state.open(path, OpenMode::Create)?;
        if !state.locks.insert(path.to_owned()) {
            return Err(Error::Locked { path: path.to_owned() });
        }
        let path = path.to_owned();
        let file = FaultyFile { state: self.state.clone(), inode, writable: true, path };
        Ok(Box::new(FaultyLock { file }))
    }
}

fn io_error(operation: &'static str, path: &Path) -> Error {
    let source = std::io::Error::other("injected failure");
    Error::Io { operation, path: PathBuf::from(path), source }
}

#[cfg(test)]
mod tests;
