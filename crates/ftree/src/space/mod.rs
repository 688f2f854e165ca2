//! Ownership of the parts of the data file.
//!
//! Space is owned by [`Extent`]s: a part is in use as long as its extent lives, and free when it is dropped. Nothing of
//! this is stored: recovery adopts what the checkpoint refers to, and the rest is free.
//!
//! **Invariants**
//! - S1: no two living extents overlap, and none begins before `DATA_BEGIN`.
//! - S2: an extent, the free ranges and what is just being punched or cut make up the file from `DATA_BEGIN` to its end.
//! - S3: only ranges that were taken out of the free ranges are punched or cut, so they cannot be allocated meanwhile.
//!
//! Lock order: `releasing`, `growth`, `state`. Allocating from free ranges takes `state` alone, which is never held
//! during I/O. Growing waits while the file is being cut, of a tail that was punched before.

mod free_map;
mod ranges;
mod release;
mod room;
mod state;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arbor_disk::Disk;
use parking_lot::{Mutex, MutexGuard};

use crate::{Error, Result};
use ranges::Range;
use room::Room;
use state::State;

/// Offsets and sizes are multiples of this.
pub const UNIT: u64 = 4096;
/// The superblocks are before.
pub const DATA_BEGIN: u64 = 2 << 20;

/// Clones share one file's space.
#[derive(Clone)]
pub struct Space {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    /// Held while the file grows or is cut.
    growth: Mutex<()>,
    /// Held while space is returned.
    releasing: Mutex<()>,
    room: Room,
    /// So many have opened the reserve to all.
    opened: AtomicU32,
}

impl Space {
    /// The space of a file of this length in the directory `dir`, all of it free.
    pub fn new(disk: Arc<dyn Disk>, dir: &Path, file_bytes: u64) -> Space {
        let (state, room) = (Mutex::new(State::new(file_bytes)), Room::new(disk, dir));
        Space {
            shared: Arc::new(Shared {
                state,
                growth: Mutex::default(),
                releasing: Mutex::default(),
                room,
                opened: AtomicU32::new(0),
            }),
        }
    }

    /// Takes space, of the file as it is or by growing it. `OutOfSpace` when the file system is nearly full; free parts
    /// that still have their blocks are handed out even then.
    pub fn allocate(&self, bytes: u64) -> Result<Extent> {
        self.shared.allocate(bytes, false)
    }

    /// Like `allocate`, for checkpoints and for what frees space: may use all that the file system holds.
    pub fn allocate_reserved(&self, bytes: u64) -> Result<Extent> {
        self.shared.allocate(bytes, true)
    }

    /// Takes free space that ends at `limit` or before, so that data after it can move there. `None`: there is none, or
    /// the file system is nearly full.
    pub fn allocate_below(&self, bytes: u64, limit: u64) -> Option<Extent> {
        let whole = bytes.max(1).checked_next_multiple_of(UNIT)?;
        if self.shared.is_tight(whole) {
            return None;
        }
        let mut state = self.shared.state();
        let range = state.find_below(whole, limit)?;
        let taken = state.take_range(range);
        drop(state);
        taken.then(|| self.shared.extent(range))
    }

    /// Returns true if `allocate_below` would return an extent.
    pub fn has_room_below(&self, bytes: u64, limit: u64) -> bool {
        let whole = bytes.max(1).next_multiple_of(UNIT);
        !self.shared.is_tight(whole) && self.shared.state().find_below(whole, limit).is_some()
    }

    /// Returns the end of the file if what is in use had no gaps.
    pub fn dense_end(&self) -> u64 {
        DATA_BEGIN + self.shared.state().used_bytes()
    }

    /// Returns the bytes taken from the file system: used parts, and free ones that were not returned.
    pub fn held_bytes(&self) -> u64 {
        self.shared.state().held_bytes()
    }

    /// Until the answer is dropped, `allocate` may use what `allocate_reserved` may: for moving on what frees space.
    pub fn open_reserve(&self) -> OpenReserve {
        self.shared.opened.fetch_add(1, Ordering::Relaxed);
        OpenReserve { shared: self.shared.clone() }
    }

    /// Takes a certain part, while recovering. `Corrupt` when it is not wholly free or not wholly in the file: what is
    /// adopted was written to its last unit.
    pub fn adopt(&self, offset: u64, bytes: u64) -> Result<Extent> {
        let refuse = |context: &str| {
            let place = format!("{} at {offset}", self.shared.room.dir().display());
            Err(Error::Corrupt { place, context: format!("extent of {bytes} bytes: {context}") })
        };
        let whole = bytes.checked_next_multiple_of(UNIT).filter(|whole| offset.checked_add(*whole).is_some());
        let Some(whole) = whole.filter(|whole| *whole > 0 && offset.is_multiple_of(UNIT)) else {
            return refuse("odd address or size");
        };
        let range = Range::new(offset, whole);
        let mut state = self.shared.state();
        if offset < DATA_BEGIN || range.end() > state.end() {
            return refuse("outside of the file");
        }
        if !state.take_range(range) {
            return refuse("overlaps with another one");
        }
        Ok(self.shared.extent(range))
    }

    pub fn used_bytes(&self) -> u64 {
        self.shared.state().used_bytes()
    }

    /// Free parts of the file, punched or not.
    pub fn free_bytes(&self) -> u64 {
        self.shared.state().free_bytes()
    }

    pub fn file_bytes(&self) -> u64 {
        self.shared.state().end()
    }

    /// Returns true if the file may not grow.
    pub fn is_tight(&self) -> bool {
        self.shared.is_tight(UNIT)
    }

    /// Forgets the measurement of what the file system has left: others may have freed some of it.
    pub fn measure_again(&self) {
        self.shared.room.forget();
    }

    /// Sets the least red zone (64 MiB), for tests on small disks.
    #[doc(hidden)]
    pub fn set_red_zone(&self, bytes: u64) {
        self.shared.room.set_zone_min(bytes);
    }

    /// Panics where the parts of the file do not add up.
    pub(crate) fn validate(&self) {
        self.shared.state().validate();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn growth(&self) -> MutexGuard<'_, ()> {
        self.growth.lock()
    }

    fn extent(self: &Arc<Self>, range: Range) -> Extent {
        assert!(range.bytes > 0 && range.offset.is_multiple_of(UNIT) && range.bytes.is_multiple_of(UNIT), "{range:?}");
        Extent { shared: self.clone(), range }
    }

    fn allocate(self: &Arc<Self>, bytes: u64, reserved: bool) -> Result<Extent> {
        let whole = bytes.max(1).checked_next_multiple_of(UNIT).ok_or_else(|| self.out_of_space(bytes))?;
        let reserved = reserved || self.opened.load(Ordering::Relaxed) > 0;
        // A hole takes as much from the file system as growing does.
        let may_grow = if reserved { self.room.free_bytes() >= whole } else { !self.is_tight(whole) };
        if let Some(range) = self.taking(|state| state.take(whole, !may_grow)) {
            return Ok(self.extent(range));
        }
        if !may_grow {
            return Err(self.out_of_space(bytes));
        }
        let _growing = self.growth();
        let grown = self.taking(|state| state.grow(whole).map(|(range, _)| range));
        Ok(self.extent(grown.ok_or_else(|| self.out_of_space(bytes))?))
    }

    /// Takes what it takes from the file system off what was measured: holes as well as growth.
    fn taking(&self, take: impl FnOnce(&mut State) -> Option<Range>) -> Option<Range> {
        let mut state = self.state();
        let held = state.held_bytes();
        let range = take(&mut state);
        let taken = state.held_bytes().saturating_sub(held);
        drop(state);
        self.room.taken(taken);
        range
    }

    /// Returns true if growing by this much would leave less than the red zone.
    fn is_tight(&self, bytes: u64) -> bool {
        let (free, end) = (self.room.free_bytes(), self.state().end());
        free < self.room.zone(end, free).saturating_add(bytes)
    }

    fn out_of_space(&self, bytes: u64) -> Error {
        let (free, dir) = (self.room.free_bytes(), self.room.dir().display());
        Error::OutOfSpace {
            context: format!("{bytes} bytes for the data file, the file system of {dir} has {free} left"),
        }
    }
}

/// See [`Space::open_reserve`].
pub struct OpenReserve {
    shared: Arc<Shared>,
}

impl Drop for OpenReserve {
    fn drop(&mut self) {
        let before = self.shared.opened.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "the reserve was opened");
    }
}

/// A part of the data file. Dropping it makes the part free.
pub struct Extent {
    shared: Arc<Shared>,
    range: Range,
}

impl Extent {
    pub fn offset(&self) -> u64 {
        self.range.offset
    }

    /// Whole units, so often more than was asked for.
    pub fn bytes(&self) -> u64 {
        self.range.bytes
    }
}

impl Drop for Extent {
    fn drop(&mut self) {
        self.shared.state().put_back(self.range, false);
    }
}

impl std::fmt::Debug for Extent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "extent {}+{}", self.range.offset, self.range.bytes)
    }
}

#[cfg(test)]
mod tests;
