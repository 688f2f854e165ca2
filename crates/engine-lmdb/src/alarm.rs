//! Wakes the background thread.

use std::time::{Duration, Instant};

use arbor_engine::adapter;

#[derive(Default)]
pub(crate) struct Alarm(adapter::Alarm<Requested>);

/// What the thread is requested for.
#[derive(Default, Clone, Copy)]
pub(crate) struct Requested {
    pub sweep: bool,
    pub checkpoint: bool,
    pub stop: bool,
}

impl Alarm {
    pub fn sweep(&self) {
        self.0.change(|requested| requested.sweep = true);
    }

    pub fn checkpoint(&self) {
        self.0.change(|requested| requested.checkpoint = true);
    }

    pub fn stop(&self) {
        self.0.change(|requested| requested.stop = true);
    }

    /// Waits until something is requested and takes it.
    pub(crate) fn take(&self) -> Requested {
        let idle = |requested: &Requested| !(requested.sweep || requested.checkpoint || requested.stop);
        self.0.wait(None, idle, |requested| {
            let taken = *requested;
            *requested = Requested { stop: taken.stop, ..Requested::default() };
            taken
        })
    }

    /// Rests, unless a stop or a checkpoint is requested.
    pub(crate) fn rest(&self, time: Duration) {
        self.0.wait(Some(Instant::now() + time), |requested| !(requested.stop || requested.checkpoint), |_| ());
    }
}
