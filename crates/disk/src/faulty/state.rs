//! Everything behind the faulty disk's one mutex: names, contents, the plan of faults and the counters.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::content::Content;
use super::names::Names;
use super::{Fault, io_error};
use crate::{Error, OpenMode, Result};
use arbor_base::Random;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Open,
    Read,
    Write,
    SetLen,
    Sync,
    Rename,
    Remove,
    SyncDir,
    Other,
}

impl Call {
    fn name(self) -> &'static str {
        match self {
            Call::Open => "open",
            Call::Read => "read",
            Call::Write => "write",
            Call::SetLen => "truncate",
            Call::Sync => "sync",
            Call::Rename => "rename",
            Call::Remove => "remove",
            Call::SyncDir => "sync directory",
            Call::Other => "other",
        }
    }

    fn needs_space(self) -> bool {
        matches!(self, Call::Open | Call::Write | Call::Rename)
    }
}

/// Calls made so far, failed ones included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallCounts {
    pub calls: u64,
    pub reads: u64,
    pub writes: u64,
    pub syncs: u64,
    pub directory_syncs: u64,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub names: Names,
    contents: BTreeMap<u64, Content>,
    inode_next: u64,
    pub locks: BTreeSet<PathBuf>,
    pub counts: CallCounts,
    pub fail_at: Option<(u64, Fault)>,
    pub stop_at: Option<u64>,
    pub triggered: bool,
    pub capacity: Option<u64>,
}

impl State {
    /// Counts a call and decides whether it fails.
    pub(super) fn enter(&mut self, call: Call, path: &Path) -> Result<()> {
        let number = self.counts.calls;
        if self.stopped() {
            return Err(io_error(call.name(), path));
        }
        self.count(call);
        match self.fail_at {
            Some((at, fault)) if at == number => {
                self.triggered = true;
                Err(fault_error(fault, call, path))
            }
            _ => Ok(()),
        }
    }

    fn count(&mut self, call: Call) {
        self.counts.calls += 1;
        match call {
            Call::Read => self.counts.reads += 1,
            Call::Write => self.counts.writes += 1,
            Call::Sync => self.counts.syncs += 1,
            Call::SyncDir => self.counts.directory_syncs += 1,
            _ => {}
        }
    }

    /// The power is cut.
    pub(super) fn stopped(&self) -> bool {
        self.stop_at.is_some_and(|at| self.counts.calls >= at)
    }

    /// The fault that the plan held for the call that has just failed.
    pub(super) fn last_fault(&self) -> Option<Fault> {
        self.fail_at.filter(|(at, _)| at + 1 == self.counts.calls && !self.stopped()).map(|(_, fault)| fault)
    }

    pub(super) fn open(&mut self, path: &Path, mode: OpenMode) -> Result<u64> {
        match (self.names.inode(path), mode) {
            (Some(_), OpenMode::CreateNew) => Err(Error::AlreadyExists { path: path.to_owned() }),
            (Some(inode), _) => Ok(inode),
            (None, OpenMode::Read | OpenMode::ReadWrite) => Err(Error::NotFound { path: path.to_owned() }),
            (None, OpenMode::Create | OpenMode::CreateNew) => {
                let inode = self.new_inode(Content::default());
                self.names.create(path, inode)?;
                Ok(inode)
            }
        }
    }

    pub(super) fn plant(&mut self, path: &Path, bytes: &[u8]) {
        let inode = self.new_inode(Content::durable(bytes));
        self.names.plant(path, inode);
    }

    fn new_inode(&mut self, content: Content) -> u64 {
        self.inode_next += 1;
        self.contents.insert(self.inode_next, content);
        self.inode_next
    }

    pub(super) fn inode(&mut self, inode: u64) -> &mut Content {
        self.contents.entry(inode).or_default()
    }

    pub(super) fn content(&mut self, path: &Path) -> Result<&mut Content> {
        let inode = self.names.inode(path).ok_or_else(|| Error::NotFound { path: path.to_owned() })?;
        Ok(self.inode(inode))
    }

    pub(super) fn free_bytes(&self) -> u64 {
        let named = self.names.inodes();
        let held = self.contents.iter().filter(|(inode, _)| named.contains(inode));
        let used: u64 = held.map(|(_, content)| content.held_bytes()).sum();
        self.capacity.map_or(1 << 40, |capacity| capacity.saturating_sub(used))
    }

    /// Returns the number of bytes that may be written to a file from `offset` on.
    pub(super) fn room(&mut self, inode: u64, offset: u64) -> u64 {
        let free = self.free_bytes();
        self.inode(inode).room(offset, free)
    }

    pub(super) fn crash(&self, random: &mut Random) -> State {
        const SURVIVE: [u64; 6] = [0, 2, 8, 14, 15, 16];
        let mut survive = || SURVIVE.get(random.below(6) as usize).copied().unwrap_or(8);
        let (names_survive, contents_survive) = (survive(), survive());
        let names = self.names.crash(random, names_survive);
        let crashed = |(inode, content): (&u64, &Content)| (*inode, content.crash(random, contents_survive));
        let contents = self.contents.iter().map(crashed).collect();
        State { names, contents, inode_next: self.inode_next, capacity: self.capacity, ..State::default() }
    }

    pub(super) fn kill_process(&self) -> State {
        let left = |(inode, content): (&u64, &Content)| (*inode, content.kill_process());
        let (names, contents) = (self.names.kill_process(), self.contents.iter().map(left).collect());
        State { names, contents, inode_next: self.inode_next, capacity: self.capacity, ..State::default() }
    }
}

fn fault_error(fault: Fault, call: Call, path: &Path) -> Error {
    let short_of_space = match fault {
        Fault::Io => false,
        Fault::OutOfSpace => call.needs_space(),
        Fault::ShortWrite => call == Call::Write,
    };
    if short_of_space {
        return Error::OutOfSpace { operation: call.name(), path: path.to_owned() };
    }
    io_error(call.name(), path)
}
