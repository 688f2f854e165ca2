//! Wakes the background thread.

use std::time::{Duration, Instant};

use arbor_engine::adapter;

#[derive(Default)]
pub(crate) struct Alarm(adapter::Alarm<Requests>);

/// Requests to the background thread.
#[derive(Default, Clone, Copy)]
pub(crate) struct Requests {
    pub sweep: bool,
    pub checkpoint: bool,
    pub stop: bool,
}

impl Alarm {
    pub(crate) fn sweep(&self) {
        self.0.change(|requests| requests.sweep = true);
    }

    pub(crate) fn checkpoint(&self) {
        self.0.change(|requests| requests.checkpoint = true);
    }

    pub(crate) fn stop(&self) {
        self.0.change(|requests| requests.stop = true);
    }

    /// Waits for a request and takes all that are pending.
    pub(crate) fn take(&self) -> Requests {
        let idle = |requests: &Requests| !(requests.sweep || requests.checkpoint || requests.stop);
        self.0.wait(None, idle, |requests| {
            let taken = *requests;
            *requests = Requests { stop: taken.stop, ..Requests::default() };
            taken
        })
    }

    /// Rests, unless a stop or a checkpoint is requested.
    pub(crate) fn rest(&self, time: Duration) {
        self.0.wait(Some(Instant::now() + time), |requests| !(requests.stop || requests.checkpoint), |_| ());
    }
}
