//! Runs one request where it belongs, and keeps a panic of it inside its own connection.
//!
//! PERF: `spawn_blocking` hands the request to a pool thread and the worker goes on; `block_in_place` hands the worker's
//! other connections to a new thread instead. See docs/performance.md for the comparison.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;

use crate::connection::Shared;
use crate::frame::FrameBuffer;
use crate::{After, Place, Session};

/// What moves together to where a request runs: the session, its unread bytes, the reply that is being built.
pub(crate) struct Exchange {
    pub(crate) session: Box<dyn Session>,
    pub(crate) input: FrameBuffer,
    pub(crate) reply: Vec<u8>,
}

/// What is to be done with the next turn of a connection.
#[derive(Clone, Copy)]
pub(crate) enum Turn {
    Frame { frame_bytes: usize },
    More,
}

/// Runs a turn; `None` when the runtime is going down under it.
pub(crate) async fn run(
    shared: &std::sync::Arc<Shared>,
    mut exchange: Box<Exchange>,
    turn: Turn,
) -> Option<(Box<Exchange>, After)> {
    let place = match turn {
        Turn::Frame { frame_bytes } => exchange.session.place(exchange.input.frame(frame_bytes)),
        Turn::More => Place::Blocking,
    };
    let away = place == Place::Inline && shared.faults.is_away();
    if place == Place::Inline && !away {
        let after = exchange.take(shared, turn);
        shared.faults.ran_inline();
        return Some((exchange, after));
    }
    shared.metrics.requests_pooled.add(1);
    let shared = shared.clone();
    let task = tokio::task::spawn_blocking(move || {
        let after = exchange.take(&shared, turn);
        if away {
            shared.faults.ran_away();
        }
        (exchange, after)
    });
    task.await.ok()
}

impl Exchange {
    fn take(&mut self, shared: &Shared, turn: Turn) -> After {
        let Exchange { session, input, reply } = self;
        let frame = match turn {
            Turn::Frame { frame_bytes } => input.frame(frame_bytes),
            Turn::More => &[],
        };
        let outcome = catch_unwind(AssertUnwindSafe(|| match turn {
            Turn::Frame { .. } => session.handle(frame, reply),
            Turn::More => session.more(reply),
        }));
        outcome.unwrap_or_else(|payload| {
            shared.metrics.panics.fetch_add(1, Ordering::Relaxed);
            reply.clear();
            session.panicked(frame, text_of(&*payload), reply);
            After::Close
        })
    }
}

fn text_of(payload: &(dyn Any + Send)) -> &str {
    payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("unknown")
}
