//! One connection from accept to close.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arbor_base::memory::{Class, Reservation};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::faults::FaultWatch;
use crate::frame::{FREE_BYTES, FrameBuffer, Progress};
use crate::memory::{ASK, Admission};
use crate::place::{Exchange, Turn, run};
use crate::pool::Pool;
use crate::{After, Bell, Handler, Limits, Metrics, Peer, Stop};

/// State shared by all connections of a server.
pub(crate) struct Shared {
    pub(crate) handler: Arc<dyn Handler>,
    pub(crate) limits: Limits,
    pub(crate) admission: Admission,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) stop: Stop,
    pub(crate) bell: Bell,
    pub(crate) faults: FaultWatch,
    /// Threads that run connections.
    pub(crate) workers: usize,
    /// Threads for requests beyond the number of workers.
    pub(crate) pool: Pool,
    /// Requests that run off the workers now.
    pub(crate) running: AtomicUsize,
}

/// Reason why a connection ends. Not reported: the peer sees the close.
enum End {
    Peer,
    Fault,
}

impl From<io::Error> for End {
    fn from(_: io::Error) -> End {
        End::Peer
    }
}

/// Serves an accepted socket until it ends, then releases its resources.
pub(crate) async fn serve(shared: Arc<Shared>, socket: TcpStream, peer: Peer) {
    let socket = Arc::new(socket);
    shared.stop.watch(peer.connection, &socket);
    let _ = socket.set_nodelay(true);
    let message = shared.admission.reservation(Class::Message);
    let reply = shared.admission.reservation(Class::Reply);
    let connection = Connection { shared: &shared, socket: &socket, message, reply };
    connection.serve(peer).await;
    drop(socket);
    shared.metrics.open.fetch_sub(1, Ordering::Relaxed);
    shared.stop.forget(peer.connection);
}

struct Connection<'s> {
    shared: &'s Arc<Shared>,
    socket: &'s TcpStream,
    /// Memory of the message that is being received, or that runs.
    message: Reservation,
    /// Memory of the reply until it is sent.
    reply: Reservation,
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

    /// Runs one request and writes all its replies; returns true if the connection continues.
    async fn answer(&mut self, mut exchange: Box<Exchange>, frame_bytes: usize) -> Result<(Box<Exchange>, bool), ()> {
        self.shared.metrics.requests.add(1);
        self.shared.metrics.bytes_in.add(frame_bytes as u64);
        let mut turn = Turn::Frame { frame_bytes };
        loop {
            let (back, mut after) = run(self.shared, exchange, turn).await.ok_or(())?;
            exchange = back;
            if let Turn::Frame { frame_bytes } = turn {
                exchange.input.consume(frame_bytes);
                self.message.shrink_to(exchange.input.reserved_bytes());
            }
            if let After::Wait { until } = after {
                (exchange, after) = self.news(exchange, until).await.ok_or(())?;
            }
            self.reply.cover(exchange.reply.capacity());
            exchange.session.release_reply_memory();
            let written = self.write(&exchange.reply).await;
            self.shared.metrics.bytes_out.add(exchange.reply.len() as u64);
            exchange.reply.clear();
            if exchange.reply.capacity() > FREE_BYTES {
                exchange.reply = Vec::new();
                self.reply.shrink_to(0);
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

    /// Waits for a whole frame. An idle connection may wait indefinitely, a begun frame may not.
    async fn read_frame(&mut self, input: &mut FrameBuffer) -> Result<usize, End> {
        let mut begun: Option<Instant> = None;
        loop {
            match input.progress(self.shared.limits.frame_bytes_max) {
                Progress::Whole { frame_bytes } => return Ok(frame_bytes),
                Progress::Invalid { .. } => return Err(End::Fault),
                Progress::Nothing => self.receive(input).await?,
                Progress::Part { frame_bytes } => {
                    let begun = begun.get_or_insert_with(Instant::now);
                    if input.is_full() {
                        self.admit(frame_bytes).await?;
                        input.allow(frame_bytes);
                        // what it waited for memory is not its fault
                        *begun = Instant::now();
                    }
                    let begun = *begun;
                    self.receive_in_time(input, begun, frame_bytes).await?;
                }
            }
        }
    }

    /// Waits for the memory of a message.
    async fn admit(&mut self, frame_bytes: usize) -> Result<(), End> {
        let until = Instant::now() + self.shared.limits.memory_wait;
        let admitted = self.shared.admission.admit(&mut self.message, frame_bytes, until).await;
        admitted.map_err(|_| {
            self.shared.metrics.without_memory.fetch_add(1, Ordering::Relaxed);
            End::Fault
        })
    }

    /// Receives some bytes of a frame, which may not take longer in all than its length allows.
    async fn receive_in_time(&self, input: &mut FrameBuffer, begun: Instant, frame_bytes: usize) -> Result<(), End> {
        loop {
            let ask = self.in_time(begun, self.message.bytes(), frame_bytes)?;
            if let Ok(received) = timeout_at(ask, self.receive(input)).await {
                return received;
            }
        }
    }

    /// Answers when to ask again whether a transfer is in time; one that holds no memory is only looked at in the end.
    fn in_time(&self, begun: Instant, held: usize, bytes: usize) -> Result<Instant, End> {
        let patience = |bytes| begun + self.shared.admission.patience(&self.shared.limits, bytes);
        let (now, end) = (Instant::now(), if held > 0 { patience(bytes) } else { patience(bytes.min(FREE_BYTES)) });
        if now >= end {
            self.shared.metrics.slow_frames.fetch_add(1, Ordering::Relaxed);
            return Err(End::Fault);
        }
        Ok(if held > 0 { end.min(now + ASK) } else { end })
    }

    /// Receives some bytes. A receive that did not fill the buffer emptied the socket: it is reported to tokio as "would block",
    /// which saves a system call.
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
    async fn write(&self, reply: &[u8]) -> Result<(), End> {
        let mut rest = reply;
        let mut stalled: Option<(Instant, Instant)> = None;
        while !rest.is_empty() {
            match self.socket.try_write(rest) {
                Ok(n) => {
                    rest = rest.get(n..).unwrap_or_default();
                    stalled = stalled.map(|(begun, _)| (begun, Instant::now()));
                }
                Err(error) if is_passing(&error) => {
                    let now = Instant::now();
                    let (begun, last) = *stalled.get_or_insert((now, now));
                    self.wait_for_reader(begun, last, reply.len()).await?;
                }
                Err(_) => return Err(End::Peer),
            }
        }
        Ok(())
    }

    /// Waits a while for room in the socket. `begun`: the first time that there was none; `last`: when some was read.
    async fn wait_for_reader(&self, begun: Instant, last: Instant, reply_bytes: usize) -> Result<(), End> {
        let ask = self.in_time(begun, self.reply.bytes(), reply_bytes)?;
        let stall = last + self.shared.limits.write_stall;
        if Instant::now() >= stall {
            return Err(End::Fault);
        }
        // who is still not reading is looked at again
        timeout_at(ask.min(stall), self.socket.writable()).await.unwrap_or(Ok(()))?;
        Ok(())
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
