//! One connection from accept to close.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use crate::faults::FaultWatch;
use crate::frame::{FrameBuffer, Progress};
use crate::place::{Exchange, Turn, run};
use crate::pool::Pool;
use crate::{After, Bell, Handler, Limits, Metrics, Peer, Stop};

/// What all connections of a server use.
pub(crate) struct Shared {
    pub(crate) handler: Arc<dyn Handler>,
    pub(crate) limits: Limits,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) stop: Stop,
    pub(crate) bell: Bell,
    pub(crate) faults: FaultWatch,
    /// Threads that run connections.
    pub(crate) workers: usize,
    /// Where those run that are more than the workers.
    pub(crate) pool: Pool,
    /// Requests that run off the workers now.
    pub(crate) running: AtomicUsize,
}

/// A reply buffer that grew beyond this is given back after the reply.
const REPLY_KEEP_MAX: usize = 64 << 10;

/// Why a connection ends. Nobody is told: the peer sees the close.
enum End {
    Peer,
    Fault,
}

impl From<io::Error> for End {
    fn from(_: io::Error) -> End {
        End::Peer
    }
}

/// Serves an accepted socket until it ends, then gives back all that it held.
pub(crate) async fn serve(shared: Arc<Shared>, socket: TcpStream, peer: Peer) {
    let socket = Arc::new(socket);
    shared.stop.watch(peer.connection, &socket);
    let _ = socket.set_nodelay(true);
    let connection = Connection { shared: &shared, socket: &socket, pending: PendingBytes::new(&shared.metrics) };
    connection.serve(peer).await;
    drop(socket);
    shared.metrics.open.fetch_sub(1, Ordering::Relaxed);
    shared.stop.forget(peer.connection);
}

struct Connection<'s> {
    shared: &'s Arc<Shared>,
    socket: &'s TcpStream,
    pending: PendingBytes<'s>,
}

impl Connection<'_> {
    async fn serve(mut self, peer: Peer) {
        let session = self.shared.handler.open(peer);
        let mut exchange = Box::new(Exchange { session, input: FrameBuffer::new(), reply: Vec::new() });
        while let Ok(frame_bytes) = self.read_frame(&mut exchange.input).await {
            match self.answer(exchange, frame_bytes).await {
                Ok((back, true)) => exchange = back,
                Ok((mut back, false)) => return back.session.closed(self.others_open()),
                Err(()) => return,
            }
        }
        exchange.session.closed(self.others_open());
    }

    fn others_open(&self) -> usize {
        self.shared.metrics.open.load(Ordering::Relaxed).saturating_sub(1)
    }

    /// Runs one request and writes all its replies; answers whether the connection goes on.
    async fn answer(&mut self, mut exchange: Box<Exchange>, frame_bytes: usize) -> Result<(Box<Exchange>, bool), ()> {
        self.shared.metrics.requests.add(1);
        self.shared.metrics.bytes_in.add(frame_bytes as u64);
        let mut turn = Turn::Frame { frame_bytes };
        loop {
            let (back, mut after) = run(self.shared, exchange, turn).await.ok_or(())?;
            exchange = back;
            if let Turn::Frame { frame_bytes } = turn {
                exchange.input.consume(frame_bytes);
                self.pending.set(exchange.input.large_bytes());
            }
            if let After::Wait { until } = after {
                (exchange, after) = self.news(exchange, until).await.ok_or(())?;
            }
            let written = self.write(&exchange.reply).await;
            self.shared.metrics.bytes_out.add(exchange.reply.len() as u64);
            exchange.reply.clear();
            if exchange.reply.capacity() > REPLY_KEEP_MAX {
                exchange.reply = Vec::new();
            }
            match after {
                _ if written.is_err() || self.shared.stop.is_stopping() => return Ok((exchange, false)),
                After::Continue => return Ok((exchange, true)),
                After::Close => return Ok((exchange, false)),
                After::More | After::Wait { .. } => turn = Turn::More,
            }
        }
    }

    /// Waits for the reply of a request that waits for news; a peer that goes away meanwhile ends it.
    async fn news(&self, mut exchange: Box<Exchange>, mut until: std::time::Instant) -> Option<(Box<Exchange>, After)> {
        loop {
            if let Some(news) = exchange.session.news() {
                tokio::select! {
                    () = news => {}
                    () = sleep_until(until.into()) => {}
                    () = self.peer_left() => return Some((exchange, After::Close)),
                }
                let (back, after) = run(self.shared, exchange, Turn::More).await?;
                exchange = back;
                match after {
                    After::Wait { until: next } => until = next,
                    after => return Some((exchange, after)),
                }
                continue;
            }
            let mut rung = pin!(self.shared.bell.rung());
            // whatever rings from here on is heard, so the session looks once more first
            rung.as_mut().enable();
            let (back, after) = run(self.shared, exchange, Turn::More).await?;
            exchange = back;
            let After::Wait { until } = after else { return Some((exchange, after)) };
            tokio::select! {
                () = rung => {}
                () = sleep_until(until.into()) => {}
                () = self.peer_left() => return Some((exchange, After::Close)),
            }
        }
    }

    /// Resolves when the peer has closed; requests that it sent ahead stay where they are, and end the watch.
    async fn peer_left(&self) {
        if let Ok(1..) = self.socket.peek(&mut [0]).await {
            std::future::pending().await
        }
    }

    /// Waits for a whole frame. An idle connection may wait for ever, a begun frame may not.
    async fn read_frame(&mut self, input: &mut FrameBuffer) -> Result<usize, End> {
        let mut begun: Option<Instant> = None;
        loop {
            let limits = &self.shared.limits;
            match input.progress(limits.frame_bytes_max) {
                Progress::Whole { frame_bytes } => return Ok(frame_bytes),
                Progress::Invalid { .. } => return Err(End::Fault),
                Progress::Nothing => self.receive(input).await?,
                Progress::Part { frame_bytes } => {
                    let deadline = *begun.get_or_insert_with(Instant::now) + limits.frame_time(frame_bytes);
                    if let Ok(received) = timeout_at(deadline, self.receive(input)).await {
                        received?;
                    } else {
                        self.shared.metrics.slow_frames.fetch_add(1, Ordering::Relaxed);
                        return Err(End::Fault);
                    }
                }
            }
            if !self.pending.set(input.large_bytes()).is_within(limits.pending_bytes_max) {
                return Err(End::Fault);
            }
        }
    }

    /// Receives some bytes. A receive that did not fill the buffer emptied the socket: it is told to tokio as "would block",
    /// which saves the system call that would find that out.
    async fn receive(&self, input: &mut FrameBuffer) -> Result<(), End> {
        loop {
            self.socket.readable().await?;
            let mut received = None;
            let outcome = self.socket.try_io(Interest::READABLE, || {
                let (n, more) = input.receive(self.socket)?;
                received = Some(n);
                if more { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) }
            });
            match (received, outcome) {
                (Some(0), _) => return Err(End::Peer),
                (Some(_), _) => return Ok(()),
                (None, Err(error)) if is_passing(&error) => {}
                (None, _) => return Err(End::Peer),
            }
        }
    }

    /// Writes a reply; mostly one system call, and a wait only for a peer that does not read.
    async fn write(&self, mut reply: &[u8]) -> Result<(), End> {
        while !reply.is_empty() {
            match self.socket.try_write(reply) {
                Ok(n) => reply = reply.get(n..).unwrap_or_default(),
                Err(error) if is_passing(&error) => {
                    let stall = self.shared.limits.write_stall;
                    timeout(stall, self.socket.writable()).await.map_err(|_| End::Fault)??;
                }
                Err(_) => return Err(End::Peer),
            }
        }
        Ok(())
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// This connection's share of the bytes that all half-read large frames hold; given back when it is dropped.
struct PendingBytes<'s> {
    metrics: &'s Metrics,
    held: usize,
}

impl<'s> PendingBytes<'s> {
    fn new(metrics: &'s Metrics) -> PendingBytes<'s> {
        PendingBytes { metrics, held: 0 }
    }

    /// Small requests hold nothing, so they never touch the shared count.
    fn set(&mut self, bytes: usize) -> &PendingBytes<'s> {
        if bytes > self.held {
            self.metrics.pending_bytes.fetch_add(bytes - self.held, Ordering::Relaxed);
        } else if bytes < self.held {
            self.metrics.pending_bytes.fetch_sub(self.held - bytes, Ordering::Relaxed);
        }
        self.held = bytes;
        self
    }

    fn is_within(&self, max: usize) -> bool {
        self.held == 0 || self.metrics.pending_bytes.load(Ordering::Relaxed) <= max
    }
}

impl Drop for PendingBytes<'_> {
    fn drop(&mut self) {
        self.set(0);
    }
}
