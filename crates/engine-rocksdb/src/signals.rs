//! Signals to the two threads of an engine (see [`background`](crate::background)).

use std::collections::VecDeque;
use std::time::Instant;

use arbor_engine::adapter;

use crate::span::Span;

/// Wakes the first thread.
#[derive(Default)]
pub(crate) struct Alarm(adapter::Alarm<Requests>);

#[derive(Default)]
struct Requests {
    look: bool,
    stop: bool,
}

impl Alarm {
    /// The thread is to look for work.
    pub(crate) fn ring(&self) {
        self.0.change(|requests| requests.look = true);
    }

    pub(crate) fn stop(&self) {
        self.0.change(|requests| requests.stop = true);
    }

    /// Waits until there may be work or the time has come. Returns `false` when the thread is to end.
    pub(crate) fn wait(&self, until: Option<Instant>) -> bool {
        self.0.wait(
            until,
            |requests| !(requests.look || requests.stop),
            |requests| {
                requests.look = false;
                !requests.stop
            },
        )
    }
}

/// Ranges that wait for the second thread.
#[derive(Default)]
pub(crate) struct Compactor(adapter::Alarm<Queue>);

#[derive(Default)]
struct Queue {
    spans: VecDeque<Span>,
    stop: bool,
}

impl Compactor {
    pub(crate) fn add(&self, span: Span) {
        self.0.change(|queue| queue.spans.push_back(span));
    }

    pub(crate) fn stop(&self) {
        self.0.change(|queue| queue.stop = true);
    }

    /// The next range; `None` when the thread is to end.
    pub(crate) fn next(&self) -> Option<Span> {
        let idle = |queue: &Queue| queue.spans.is_empty() && !queue.stop;
        self.0.wait(None, idle, |queue| if queue.stop { None } else { queue.spans.pop_front() })
    }
}
