//! Giving free space back to the file system: holes are punched, the free tail is cut off.

use std::sync::Arc;

use arbor_base::sometimes;

use super::ranges::Range;
use super::{Shared, Space, UNIT};
use crate::Result;
use crate::file::DataFile;

/// Recently freed bytes that keep their blocks, because they are needed again soon: 1/32 of what is used, within these.
const KEEP_MIN: u64 = 1 << 20;
const KEEP_MAX: u64 = 64 << 20;
/// A free tail shorter than this is not cut.
const TAIL_MIN: u64 = 1 << 20;
/// Ranges taken out at once: allocators go without them while they are punched.
const BATCH: usize = 64;

impl Space {
    /// Punches free parts, except the most recently freed ones, and cuts the file's free tail. One thread does this at
    /// a time, another one returns at once. Reading, writing and allocating continue concurrently.
    pub fn return_space(&self, file: &DataFile) -> Result<()> {
        let keep = (self.used_bytes() / 32).clamp(KEEP_MIN, KEEP_MAX);
        self.release(file, keep, TAIL_MIN)
    }

    /// Gives all free space back, after compaction or when someone asks for it. Waits for who else does so.
    pub fn return_all_space(&self, file: &DataFile) -> Result<()> {
        let _releasing = self.shared.releasing.lock();
        self.release_alone(file, 0, UNIT)
    }

    pub(super) fn release(&self, file: &DataFile, keep: u64, tail_min: u64) -> Result<()> {
        let Some(_releasing) = self.shared.releasing.try_lock() else { return Ok(()) };
        self.release_alone(file, keep, tail_min)
    }

    /// Requires: `releasing` is held.
    fn release_alone(&self, file: &DataFile, keep: u64, tail_min: u64) -> Result<()> {
        let released = self.punch(file, keep).and_then(|()| self.cut(file, tail_min));
        self.shared.room.forget();
        released
    }

    fn punch(&self, file: &DataFile, keep: u64) -> Result<()> {
        // What is freed meanwhile waits for the next time.
        let mut left = self.free_bytes();
        while left > 0 {
            let batch = self.shared.state().take_to_punch(keep, BATCH);
            if batch.is_empty() {
                break;
            }
            left = left.saturating_sub(batch.iter().map(|range| range.bytes).sum());
            let mut batch: Vec<Busy> = batch.into_iter().map(|range| Busy::new(&self.shared, range)).collect();
            for busy in &mut batch {
                busy.punch(file)?;
            }
        }
        Ok(())
    }

    fn cut(&self, file: &DataFile, tail_min: u64) -> Result<()> {
        // Without the growth lock first: cutting holes off is quick.
        let tail = self.shared.state().take_tail(tail_min);
        let Some(tail) = tail else { return Ok(()) };
        Busy::new(&self.shared, tail).punch(file)?;
        let _no_growth = self.shared.growth();
        let tail = self.shared.state().take_tail(tail_min);
        let Some(tail) = tail else { return Ok(()) };
        let mut busy = Busy::new(&self.shared, tail);
        if file.len()? > tail.offset {
            file.set_len(tail.offset)?;
        }
        sometimes!("ftree: the free tail of the file is cut off");
        busy.state = BusyState::Cut;
        Ok(())
    }
}

/// A range that was taken out; dropping it puts it back.
struct Busy {
    shared: Arc<Shared>,
    range: Range,
    state: BusyState,
}

enum BusyState {
    Unpunched,
    Punched,
    Cut,
}

impl Busy {
    fn new(shared: &Arc<Shared>, range: Range) -> Busy {
        Busy { shared: shared.clone(), range, state: BusyState::Unpunched }
    }

    fn punch(&mut self, file: &DataFile) -> Result<()> {
        file.punch(self.range.offset, self.range.bytes)?;
        self.state = BusyState::Punched;
        Ok(())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        match self.state {
            BusyState::Unpunched => state.end_busy(self.range, false),
            BusyState::Punched => state.end_busy(self.range, true),
            BusyState::Cut => state.end_cut(self.range),
        }
    }
}
