//! Open files and locks of the faulty disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use super::state::{Call, State};
use super::{Fault, io_error};
use crate::ring::ReadLater;
use crate::{Error, File, Lock, Result};
use arbor_base::Random;

#[derive(Debug)]
pub(super) struct FaultyFile {
    pub state: Arc<Mutex<State>>,
    pub inode: u64,
    pub writable: bool,
    pub path: PathBuf,
}

impl FaultyFile {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn require_writable(&self, operation: &'static str) -> Result<()> {
        if self.writable { Ok(()) } else { Err(io_error(operation, &self.path)) }
    }

    fn out_of_space(&self, operation: &'static str) -> Error {
        Error::OutOfSpace { operation, path: self.path.clone() }
    }
}

impl File for FaultyFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let mut state = self.state();
        state.enter(Call::Read, &self.path)?;
        Ok(state.inode(self.inode).read(buffer, offset))
    }

    /// Complete at once, so that tests have one order of events.
    fn read_later(&self, offset: u64, len: usize) -> Option<ReadLater> {
        let mut buffer = vec![0; len];
        let is_read = self.read_exact_at(&mut buffer, offset).is_ok();
        Some(ReadLater::complete(is_read.then(|| buffer.into())))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.require_writable("write")?;
        let mut state = self.state();
        let entered = state.enter(Call::Write, &self.path);
        let half = bytes.get(..bytes.len() / 2).unwrap_or_default();
        if let Err(error) = entered {
            if state.last_fault() == Some(Fault::ShortWrite) && error.is_out_of_space() {
                state.inode(self.inode).write(half, offset);
            }
            return Err(error);
        }
        let room = state.room(self.inode, offset);
        if bytes.len() as u64 > room {
            let part = bytes.get(..room as usize).unwrap_or_default();
            state.inode(self.inode).write(part, offset);
            return Err(self.out_of_space("write"));
        }
        state.inode(self.inode).write(bytes, offset);
        Ok(())
    }

    fn len(&self) -> Result<u64> {
        let mut state = self.state();
        state.enter(Call::Other, &self.path)?;
        Ok(state.inode(self.inode).visible().len() as u64)
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.require_writable("truncate")?;
        let mut state = self.state();
        state.enter(Call::SetLen, &self.path)?;
        state.inode(self.inode).set_len(len);
        Ok(())
    }

    fn release_reserved(&self) -> Result<()> {
        let len = self.state().inode(self.inode).visible().len();
        self.set_len(len as u64)
    }

    fn sync_data(&self) -> Result<()> {
        let mut state = self.state();
        let entered = state.enter(Call::Sync, &self.path);
        if entered.is_ok() {
            state.inode(self.inode).sync();
        } else if !state.stopped() {
            let mut random = Random::new(state.counts.calls);
            state.inode(self.inode).fail_sync(&mut random);
        }
        entered
    }

    fn allocate(&self, offset: u64, len: u64) -> Result<()> {
        self.require_writable("allocate")?;
        let mut state = self.state();
        state.enter(Call::Write, &self.path)?;
        if len > state.room(self.inode, offset) {
            return Err(self.out_of_space("allocate"));
        }
        let content = state.inode(self.inode);
        content.fill_holes(offset, offset + len);
        let grown = (offset + len).max(content.visible().len() as u64);
        content.set_len(grown);
        Ok(())
    }

    fn punch_hole(&self, offset: u64, len: u64) -> Result<()> {
        self.require_writable("punch hole")?;
        let mut state = self.state();
        state.enter(Call::Other, &self.path)?;
        state.inode(self.inode).punch_hole(offset, len);
        Ok(())
    }
}

#[derive(Debug)]
pub(super) struct FaultyLock {
    pub file: FaultyFile,
}

impl Lock for FaultyLock {
    fn write(&self, text: &str) -> Result<()> {
        self.file.set_len(0)?;
        self.file.write_at(text.as_bytes(), 0)
    }
}

impl Drop for FaultyLock {
    fn drop(&mut self) {
        self.file.state().locks.remove(&self.file.path);
    }
}
