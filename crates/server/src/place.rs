//! Runs one request on its thread, and confines its panic to its own connection.
//!
//! There are two ways to move a request off a worker. `block_in_place` keeps the request on its thread and hands the worker's
//! other connections to another one: no thread has to be woken before the request begins, but each costs a thread of its own.
//! The [`Pool`](crate::pool) costs two wake-ups. So the first requests, up to one per worker, use `block_in_place`, and all
//! others use the pool. A request on a worker that turns out to read from a disk uses `block_in_place` at that moment
//! ([`arbor_base::aside`]). Where many do ([`crate::waits`]), the session is asked first what the request will wait for: that
//! is read without a thread ([`crate::reads`]), then it runs on the worker. A request of which that is unknown leaves the worker before it
//! begins, for a pool of few threads: a thread that is done takes the next request, and none is woken. Other reads have a pool that does the same, but lets more begin where some take long.
//!
//! PERF: sysbench-mongodb, 50,000 documents, 2 processors shared with clients and builds, 2026-11-21, transactions/s.
//! One client: spawn_blocking 620..819, block_in_place 657..950, both as here 640..1247. 16 clients: 1633..1698,
//! 1567..1568, 1347..1640; everything inline, where a disk would hold up other connections, 1654..1678.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use arbor_base::memory::values;
use arbor_base::{Prefetch, aside};

use crate::connection::Shared;
use crate::frame::FrameBuffer;
use crate::{After, Place, Session};

/// State that moves together to the thread of a request: the session, its unread bytes, the reply under construction.
pub(crate) struct Exchange {
    pub(crate) session: Box<dyn Session>,
    pub(crate) input: FrameBuffer,
    pub(crate) reply: Vec<u8>,
}

/// Next turn of a connection.
#[derive(Clone, Copy)]
pub(crate) enum Turn {
    /// `message_bytes`: what is reserved for it.
    Frame {
        frame_bytes: usize,
        message_bytes: usize,
    },
    More,
}

/// Runs a turn; `None` when the runtime is going down under it.
pub(crate) async fn run(
    shared: &std::sync::Arc<Shared>,
    mut exchange: Box<Exchange>,
    turn: Turn,
) -> Option<(Box<Exchange>, After)> {
    let place = match turn {
        Turn::Frame { frame_bytes, .. } => exchange.session.place(exchange.input.frame(frame_bytes)),
        Turn::More => exchange.session.place_of_more(),
    };
    if place == Place::Inline && !shared.waits.is_away() {
        let after = aside::with_other_work(hand_over, || shared.waits.on_worker(|| exchange.take(shared, turn)));
        return Some((exchange, after));
    }
    if place == Place::Inline && read_first(shared, &mut exchange, turn).await {
        let after = aside::with_other_work(hand_over, || exchange.take(shared, turn));
        return Some((exchange, after));
    }
    shared.metrics.requests_pooled.add(1);
    if place == Place::Inline {
        let waiting = shared.clone();
        let work = move || {
            let after = waiting.waits.off_worker(|| exchange.take(&waiting, turn));
            (exchange, after)
        };
        return shared.readers.run(work).await;
    }
    let running = Running::begin(shared);
    // the reads that a worker submitted are completed on it: it runs nothing that may block meanwhile
    let (exchange, after) = if running.before < shared.workers && !shared.waits.has_submitted() {
        let after = tokio::task::block_in_place(|| exchange.take(shared, turn));
        (exchange, after)
    } else {
        let pooled = shared.clone();
        let work = move || {
            let after = exchange.take(&pooled, turn);
            (exchange, after)
        };
        let pool = if place == Place::Reading { &shared.scans } else { &shared.pool };
        pool.run(work).await?
    };
    Some((exchange, after))
}

/// Has what a request would wait for read into memory while the worker runs other connections. Returns false where that is unknown.
async fn read_first(shared: &Shared, exchange: &mut Exchange, turn: Turn) -> bool {
    let (true, Turn::Frame { frame_bytes, .. }) = (shared.has_reads, turn) else { return false };
    let Exchange { session, input, .. } = exchange;
    let done = match session.prefetch(input.frame(frame_bytes)) {
        Prefetch::Unknown => return false,
        Prefetch::InMemory => None,
        Prefetch::Reading { done, .. } => Some(done),
    };
    shared.waits.note_prefetch(done.is_some());
    let Some(done) = done else { return true };
    // the other requests that are ready add their reads first, and all are submitted with one call
    tokio::task::yield_now().await;
    done.await;
    true
}

/// So many requests wait for a device with a thread of their own that began on a worker; further ones wait on their worker. A
/// thread costs memory, and most devices have enough to do by then.
const ASIDE_MAX: usize = 16;

static ASIDE: AtomicUsize = AtomicUsize::new(0);

/// Calls what may wait for a device, while another thread runs the worker's other connections.
fn hand_over(wait: &mut dyn FnMut()) {
    struct Waiting(usize);
    impl Drop for Waiting {
        fn drop(&mut self) {
            ASIDE.fetch_sub(1, Ordering::Relaxed);
        }
    }
    let waiting = Waiting(ASIDE.fetch_add(1, Ordering::Relaxed));
    if waiting.0 < ASIDE_MAX { tokio::task::block_in_place(wait) } else { wait() }
}

/// One request off the workers, counted while it runs.
struct Running<'s> {
    shared: &'s Shared,
    before: usize,
}

impl Running<'_> {
    fn begin(shared: &Shared) -> Running<'_> {
        Running { shared, before: shared.running.fetch_add(1, Ordering::Relaxed) }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.shared.running.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Exchange {
    fn take(&mut self, shared: &Shared, turn: Turn) -> After {
        let Exchange { session, input, reply } = self;
        let frame = match turn {
            Turn::Frame { frame_bytes, .. } => input.frame(frame_bytes),
            Turn::More => &[],
        };
        let outcome = catch_unwind(AssertUnwindSafe(|| match turn {
            Turn::Frame { message_bytes: 0, .. } => session.handle(frame, reply),
            Turn::Frame { message_bytes, .. } => values::for_message(message_bytes, || session.handle(frame, reply)),
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
