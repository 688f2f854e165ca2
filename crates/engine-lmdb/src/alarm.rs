//! Wakes the background thread.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

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
        set(&mut self.wanted.lock());
        self.changed.notify_one();
    }

    /// Waits until something is wanted and takes it.
    pub(crate) fn take(&self) -> Wanted {
        let idle = |wanted: &mut Wanted| !(wanted.sweep || wanted.checkpoint || wanted.stop);
        let mut wanted = self.wanted.lock();
        self.changed.wait_while(&mut wanted, idle);
        let taken = *wanted;
        *wanted = Wanted { stop: taken.stop, ..Wanted::default() };
        taken
    }

    /// Rests, unless a stop or a checkpoint is wanted.
    pub(crate) fn rest(&self, time: Duration) {
        let quiet = |wanted: &mut Wanted| !(wanted.stop || wanted.checkpoint);
        self.changed.wait_while_for(&mut self.wanted.lock(), quiet, time);
    }
}
