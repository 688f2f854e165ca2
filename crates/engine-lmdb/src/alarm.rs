//! Wakes the background thread.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What the thread is wanted for.
#[derive(Default)]
pub(crate) struct Alarm {
    wanted: Mutex<Wanted>,
    changed: Condvar,
}

#[derive(Default, Clone, Copy)]
pub(crate) struct Wanted {
    pub sweep: bool,
    pub checkpoint: bool,
    pub stop: bool,
}

impl Alarm {
    pub fn sweep(&self) {
        self.want(|wanted| wanted.sweep = true);
    }

    pub fn checkpoint(&self) {
        self.want(|wanted| wanted.checkpoint = true);
    }

    pub fn stop(&self) {
        self.want(|wanted| wanted.stop = true);
    }

    fn want(&self, set: impl FnOnce(&mut Wanted)) {
        set(&mut self.lock());
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Wanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something is wanted and takes it.
    pub(crate) fn take(&self) -> Wanted {
        let idle = |wanted: &mut Wanted| !(wanted.sweep || wanted.checkpoint || wanted.stop);
        let mut wanted = self.changed.wait_while(self.lock(), idle).unwrap_or_else(PoisonError::into_inner);
        let taken = *wanted;
        *wanted = Wanted { stop: taken.stop, ..Wanted::default() };
        taken
    }

    /// Rests, unless a stop or a checkpoint is wanted.
    pub(crate) fn rest(&self, time: Duration) {
        let quiet = |wanted: &mut Wanted| !(wanted.stop || wanted.checkpoint);
        drop(self.changed.wait_timeout_while(self.lock(), time, quiet));
    }
}
