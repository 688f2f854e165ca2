//! Making a captured state the durable one.
//!
//! Steps, and what a crash leaves after each:
//! 1. inner nodes that no checkpoint wrote yet, then the catalogue, into free extents: the state before (its extents are
//!    held by the roots kept in [`Checkpoints`])
//! 2. the barrier: the log is durable up to the state's position; the state before
//! 3. sync of the data file; the state before
//! 4. the superblock into both slots of the pair that the newest one is not in; the state before, or this one
//! 5. sync; this one
//! 6. the roots of the state before are let go, and with them the extents that only it held; free extents go back to the
//!    file system
//!
//! An error in steps 1 to 3 leaves the state before; a failed sync poisons (D2). An error in step 4 or 5 leaves in doubt
//! which of both states a crash would show: both are held until a later superblock is durable.
//!
//! Checkpoints exclude each other by one mutex, which is held over capturing as well, so positions never go back. It is the
//! outermost lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use arbor_base::TreeId;
use arbor_engine::Barrier;
use arbor_engine::adapter::BarrierSlot;
use parking_lot::{Mutex, MutexGuard};
use xxhash_rust::xxh3::xxh3_64;

use super::catalog::{self, CatalogTree};
use super::nodes;
use super::superblock::{CatalogPointer, Superblock};
use crate::io::Io;
use crate::space::Extent;
use crate::tree::Inner;
use crate::{Counter, Error, Result, Seq, TreeSettings};

/// One tree of a state that is to become durable.
pub struct CapturedTree {
    pub id: TreeId,
    pub created: Seq,
    pub settings: TreeSettings,
    /// Holds everything up to the state's sequence number.
    pub root: Arc<Inner>,
    pub rows: u64,
    pub bytes: u64,
}

/// A state of all trees with nothing left in memtables.
pub struct Captured {
    pub applied: Seq,
    pub trees: Vec<CapturedTree>,
}

impl Captured {
    /// The log is made durable up to `applied`: what a root held beyond it would survive a power failure that the log did
    /// not survive. No file leads here, since recovery refuses such roots.
    fn assert_complete(&self) {
        for CapturedTree { id, root, .. } in &self.trees {
            let newest = root.totals().newest;
            assert!(newest <= self.applied, "B2: tree {id} holds {newest:?}, the checkpoint is of {:?}", self.applied);
        }
    }
}

/// A state that a crash may show: holding it keeps its extents.
pub(super) struct RetainedState {
    _roots: Vec<Arc<Inner>>,
    _catalog: Vec<Arc<Extent>>,
}

impl RetainedState {
    pub(super) fn of(trees: &[CapturedTree], catalog: Vec<Arc<Extent>>) -> RetainedState {
        RetainedState { _roots: trees.iter().map(|tree| tree.root.clone()).collect(), _catalog: catalog }
    }
}

/// The durable state of a forest, and the way to the next one.
pub struct Checkpoints {
    io: Arc<Io>,
    state: Mutex<State>,
    /// [`Seq`] of the durable state.
    durable: AtomicU64,
    barrier: BarrierSlot,
}

struct State {
    generation: u64,
    /// The durable state last; before it those in doubt.
    held: Vec<RetainedState>,
    poisoned: Option<String>,
}

impl Checkpoints {
    pub(super) fn new(io: Arc<Io>, generation: u64, applied: Seq, held: RetainedState) -> Checkpoints {
        let state = State { generation, held: vec![held], poisoned: None };
        Checkpoints {
            io,
            state: Mutex::new(state),
            durable: AtomicU64::new(applied.0),
            barrier: BarrierSlot::default(),
        }
    }

    pub fn durable(&self) -> Seq {
        Seq(self.durable.load(Ordering::Acquire))
    }

    pub fn set_barrier(&self, barrier: Barrier) {
        self.barrier.set(barrier);
    }

    /// Captures a state with `capture` and makes it durable. Returns its sequence number. A state that is durable already
    /// and unchanged (`capture` returns `None`) costs nothing.
    pub fn run(&self, capture: impl FnOnce() -> Result<Option<Captured>>) -> Result<Seq> {
        let mut state = self.lock()?;
        // Stays after a panic: the file may be half written, which is what a crash leaves, but the held states are no longer
        // known to be right.
        state.poisoned = Some("a checkpoint panicked".to_owned());
        let written = self.run_alone(&mut state, capture);
        state.poisoned = match &written {
            Err(Error::Poisoned { context }) => Some(context.clone()),
            _ => None,
        };
        written
    }

    fn run_alone(&self, state: &mut State, capture: impl FnOnce() -> Result<Option<Captured>>) -> Result<Seq> {
        let Some(captured) = capture()? else { return Ok(self.durable()) };
        assert!(captured.applied >= self.durable(), "positions of checkpoints do not go back");
        captured.assert_complete();
        let begin = Instant::now();
        let written = self.write(state, captured);
        self.io.counters.add(Counter::Checkpoints, u64::from(written.is_ok()));
        self.io.counters.add(Counter::CheckpointMs, begin.elapsed().as_millis() as u64);
        written
    }

    fn lock(&self) -> Result<MutexGuard<'_, State>> {
        let state = self.state.lock();
        match &state.poisoned {
            Some(context) => Err(Error::Poisoned { context: context.clone() }),
            None => Ok(state),
        }
    }

    fn write(&self, state: &mut State, captured: Captured) -> Result<Seq> {
        let (io, applied) = (&*self.io, captured.applied);
        let generation = state.generation + 1;
        let stored = captured.trees.iter().filter(|tree| !tree.root.is_void());
        nodes::write(io, generation, stored.map(|tree| (tree.id, &*tree.root)))?;
        let (pointer, catalog) = write_catalog(io, generation, &captured)?;
        self.barrier.wait_for_log(applied.position())?;
        self.sync("the data file")?;
        let is_inside = |extent: &Arc<Extent>| extent.offset() + extent.bytes() <= io.space.file_bytes();
        assert!(catalog.iter().all(is_inside), "S1: the catalogue is in the file");
        assert!(Superblock::slots_of(generation) != Superblock::slots_of(state.generation), "step 4: another pair");
        state.held.push(RetainedState::of(&captured.trees, catalog));
        let superblock = Superblock { generation, applied, file_bytes: io.space.file_bytes(), catalog: pointer };
        for offset in Superblock::slots_of(generation) {
            io.file.write(offset, &superblock.encode())?;
        }
        self.sync("the superblock")?;
        state.generation = generation;
        let before = self.durable.swap(applied.0, Ordering::AcqRel);
        assert!(before <= applied.0, "the durable state does not go back: {before} to {}", applied.0);
        state.held.drain(..state.held.len() - 1);
        // Space that could not be returned now is tried again after the next checkpoint.
        let _ = io.space.return_space(&io.file);
        Ok(applied)
    }

    fn sync(&self, what: &str) -> Result<()> {
        self.io.file.sync().map_err(|error| Error::Poisoned { context: format!("sync of {what}: {error}") })
    }
}

/// A catalogue up to this length is written twice.
const COPIED_BYTES_MAX: usize = 1 << 20;

/// No pointer: there are no trees.
fn write_catalog(io: &Io, generation: u64, captured: &Captured) -> Result<(Option<CatalogPointer>, Vec<Arc<Extent>>)> {
    if captured.trees.is_empty() {
        return Ok((None, Vec::new()));
    }
    let is_stored = |tree: &CapturedTree| tree.root.is_void() || tree.root.disk.get().is_some();
    assert!(captured.trees.iter().all(is_stored), "step 1: the catalogue names nodes that are written");
    let row = |tree: &CapturedTree| CatalogTree {
        id: tree.id,
        created: tree.created,
        settings: tree.settings.clone(),
        root: tree.root.disk.get().map(|disk| disk.pointer),
        rows: tree.rows,
        bytes: tree.bytes,
    };
    let trees: Vec<CatalogTree> = captured.trees.iter().map(row).collect();
    let bytes = catalog::encode(generation, captured.applied, &trees);
    let mut extents = Vec::new();
    for _ in 0..if bytes.len() <= COPIED_BYTES_MAX { 2 } else { 1 } {
        let extent = Arc::new(io.space.allocate_reserved(bytes.len() as u64)?);
        io.file.write(extent.offset(), &bytes)?;
        io.counters.add(Counter::CatalogBytesWritten, bytes.len() as u64);
        extents.push(extent);
    }
    let offset = |at: usize| extents.get(at).map_or(0, |extent| extent.offset());
    let (bytes, checksum) = (bytes.len() as u64, xxh3_64(&bytes));
    Ok((Some(CatalogPointer { offset: offset(0), copy: offset(1), bytes, checksum }), extents))
}
