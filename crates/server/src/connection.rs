//! One connection from accept to close.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arbor_base::memory::{Class, Reservation};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::addresses::Addresses;
use crate::frame::{FREE_BYTES, FrameBuffer, Progress};
use crate::memory::{ASK, Admission};
use crate::place::{Exchange, Turn, run};
use crate::pool::Pool;
use crate::tls::{Decrypted, Secure, Tls};
use crate::waits::WaitWatch;
use crate::{After, Bell, Handler, Limits, Metrics, Peer, Refusal, Stop};

/// State shared by all connections of a server.
pub(crate) struct Shared {
    pub(crate) handler: Arc<dyn Handler>,
    pub(crate) limits: Limits,
    pub(crate) admission: Admission,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) stop: Stop,
    pub(crate) bell: Bell,
    pub(crate) waits: WaitWatch,
    /// Threads that run connections.
    pub(crate) workers: usize,
    /// Threads for requests beyond the number of workers.
    pub(crate) pool: Pool,
    /// Threads for reads, few at once unless they take long.
    pub(crate) scans: Pool,
    /// Threads for short requests that are likely to wait for a disk.
    pub(crate) readers: Pool,
    /// Reads can be done before a request begins. False: all are done by threads that wait for them.
    pub(crate) has_reads: bool,
    /// Requests that run off the workers now.
    pub(crate) running: AtomicUsize,
    /// None: connections are in plain text.
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) addresses: Addresses,
}

/// A frame that has arrived.
enum Arrived {
    Whole {
        frame_bytes: usize,
    },
    /// Its beginning, of a frame that is larger than the memory for messages.
    TooLarge {
        frame_bytes: usize,
    },
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
pub(crate) async fn serve(shared: Arc<Shared>, socket: TcpStream, mut peer: Peer) {
    let number = peer.connection;
    let address = peer.unix.is_none().then(|| peer.remote.ip());
    let socket = Arc::new(socket);
    shared.stop.watch(number, &socket);
    // a Unix socket has no such option
    let _ = socket.set_nodelay(true);
    let message = shared.admission.reservation(Class::Message);
    let reply = shared.admission.reservation(Class::Reply);
    match begin_tls(&shared, &socket).await {
        Ok(secure) => {
            peer.tls = secure.as_ref().map(|secure| Arc::new(secure.facts()));
            let connection = Connection { shared: &shared, socket: &socket, secure: secure.as_ref(), message, reply };
            connection.serve(peer).await;
            secure.inspect(|secure| secure.close(&socket));
        }
        Err(None) => {}
        Err(Some(reason)) => {
            shared.metrics.tls_failed.fetch_add(1, Ordering::Relaxed);
            shared.handler.refused(&peer, Refusal::Tls(reason));
        }
    }
    drop(socket);
    shared.metrics.open.fetch_sub(1, Ordering::Relaxed);
    if let Some(address) = address {
        shared.addresses.left(address);
    }
    shared.stop.forget(number);
}

/// Pause until the rest of a record's first bytes.
const PEEK_PAUSE: Duration = Duration::from_millis(10);

/// Bytes of a reply that are encrypted at once.
const ENCRYPTED: usize = 64 << 10;

/// Returns true if these first bytes begin a handshake of TLS: a record of type 22 and version 3.x. A frame that begins so would be
/// longer than 64 KB, which no client's first one is. None: more bytes are needed.
fn is_handshake(first: &[u8]) -> Option<bool> {
    match first {
        [0x16, 3, minor, ..] => Some(*minor > 0),
        [0x16] | [0x16, 3] => None,
        _ => Some(false),
    }
}

/// Begins TLS, where it is enabled and the client asks for it. Errors: the handshake failed, or the client does not ask although it has
/// to; None: it left before it said anything.
async fn begin_tls(shared: &Shared, socket: &TcpStream) -> Result<Option<Secure>, Option<String>> {
    let Some(tls) = &shared.tls else { return Ok(None) };
    if !asks_for_tls(shared, tls.is_required(), socket).await? {
        let text = "The server is configured to only allow TLS connections";
        return if tls.is_required() { Err(Some(text.to_owned())) } else { Ok(None) };
    }
    let secure = tls.begin().map_err(|error| Some(error.to_string()))?;
    let end = Instant::now() + shared.limits.handshake;
    let failed = match timeout_at(end, shake_hands(&secure, socket)).await {
        Ok(Ok(())) => return Ok(Some(secure)),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "the handshake took too long".to_owned(),
    };
    // sends the alert
    secure.close(socket);
    Err(Some(failed))
}

/// Returns true if the first bytes begin a handshake of TLS.
async fn asks_for_tls(shared: &Shared, required: bool, socket: &TcpStream) -> Result<bool, Option<String>> {
    // a connection in plain text may be silent, unless a login is awaited
    let patience = if required { Some(shared.limits.handshake) } else { shared.limits.silence };
    let begun = Instant::now();
    let mut first = [0; 3];
    loop {
        let peek = socket.peek(&mut first);
        let peeked = match patience {
            Some(patience) => timeout_at(begun + patience, peek).await.map_err(|_| {
                shared.metrics.silent.fetch_add(1, Ordering::Relaxed);
                None
            })?,
            None => peek.await,
        };
        let count = peeked.map_err(|_| None)?;
        if count == 0 {
            return Err(None);
        }
        if let Some(asks) = is_handshake(first.get(..count).unwrap_or_default()) {
            return Ok(asks);
        }
        if begun.elapsed() >= shared.limits.handshake {
            return Err(Some("the handshake took too long".to_owned()));
        }
        tokio::time::sleep(PEEK_PAUSE).await;
    }
}

async fn shake_hands(secure: &Secure, socket: &TcpStream) -> io::Result<()> {
    loop {
        match secure.write_to(socket) {
            Some(Ok(_)) => continue,
            Some(Err(error)) if is_passing(&error) => {
                socket.writable().await?;
                continue;
            }
            Some(Err(error)) => return Err(error),
            None if !secure.is_handshaking() => return Ok(()),
            None => {}
        }
        socket.readable().await?;
        match secure.read_from(socket) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) if !is_passing(&error) => return Err(error),
            _ => {}
        }
    }
}

struct Connection<'s> {
    shared: &'s Arc<Shared>,
    socket: &'s TcpStream,
    secure: Option<&'s Secure>,
    /// Memory of the message that is being received, or that runs.
    message: Reservation,
    /// Memory of the reply until it is sent.
    reply: Reservation,
}

impl Connection<'_> {
    async fn serve(mut self, peer: Peer) {
        let session = self.shared.handler.open(peer);
        let mut exchange = Box::new(Exchange { session, input: FrameBuffer::new(), reply: Vec::new() });
        while let Ok(arrived) = {
            let bytes_max = exchange.session.frame_bytes_max().min(self.shared.limits.frame_bytes_max);
            match exchange.session.silence_max() {
                None => self.read_frame(&mut exchange.input, bytes_max).await,
                Some(silence) => self.read_frame_soon(&mut exchange.input, bytes_max, silence).await,
            }
        } {
            let frame_bytes = match arrived {
                Arrived::Whole { frame_bytes } => frame_bytes,
                Arrived::TooLarge { frame_bytes } => match self.refuse(&mut exchange, frame_bytes).await {
                    Ok(()) => continue,
                    Err(_) => break,
                },
            };
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

    /// Replies that a frame is larger than the memory for messages, once the rest of it has been received and thrown away: a
    /// client reads a reply only after it has sent its whole request.
    async fn refuse(&mut self, exchange: &mut Exchange, frame_bytes: usize) -> Result<(), End> {
        let Exchange { session, input, reply } = exchange;
        self.shared.metrics.without_memory.fetch_add(1, Ordering::Relaxed);
        let after = session.too_large(input.unread(), self.shared.admission.bytes_max(), reply);
        if !matches!(after, After::Continue) {
            return Err(End::Fault);
        }
        let mut rest = input.discard(frame_bytes);
        while rest > 0 {
            // nothing is held for it: each part has the time of a small frame
            self.receive_in_time(input, Instant::now(), FREE_BYTES).await?;
            rest = input.discard(rest);
        }
        self.shared.metrics.bytes_in.add(frame_bytes as u64);
        let written = self.write(reply).await;
        self.shared.metrics.bytes_out.add(reply.len() as u64);
        reply.clear();
        written
    }

    /// Runs one request and writes all its replies; returns true if the connection continues.
    async fn answer(&mut self, mut exchange: Box<Exchange>, frame_bytes: usize) -> Result<(Box<Exchange>, bool), ()> {
        self.shared.metrics.requests.add(1);
        self.shared.metrics.bytes_in.add(frame_bytes as u64);
        let mut turn = Turn::Frame { frame_bytes, message_bytes: self.message.bytes() };
        loop {
            let (back, mut after) = run(self.shared, exchange, turn).await.ok_or(())?;
            exchange = back;
            if let Turn::Frame { frame_bytes, .. } = turn {
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

    /// Waits for a whole frame, which has to be there in a time.
    async fn read_frame_soon(
        &mut self,
        input: &mut FrameBuffer,
        bytes_max: usize,
        silence: Duration,
    ) -> Result<Arrived, End> {
        let end = Instant::now() + silence;
        if let Ok(read) = timeout_at(end, self.read_frame(input, bytes_max)).await {
            return read;
        }
        self.shared.metrics.silent.fetch_add(1, Ordering::Relaxed);
        Err(End::Fault)
    }

    /// Waits for a whole frame. An idle connection may wait indefinitely, a begun frame may not.
    async fn read_frame(&mut self, input: &mut FrameBuffer, bytes_max: usize) -> Result<Arrived, End> {
        let mut begun: Option<Instant> = None;
        loop {
            match input.progress(bytes_max) {
                Progress::Whole { frame_bytes } => return Ok(Arrived::Whole { frame_bytes }),
                Progress::Invalid { .. } => return Err(End::Fault),
                Progress::Nothing => self.receive(input).await?,
                Progress::Part { frame_bytes } => {
                    let begun = begun.get_or_insert_with(Instant::now);
                    if input.is_full() {
                        if self.shared.admission.is_too_large(frame_bytes) {
                            return Ok(Arrived::TooLarge { frame_bytes });
                        }
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

    /// Returns when to ask again whether a transfer is in time; one that holds no memory is examined at the end only.
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
        if let Some(secure) = self.secure {
            return self.receive_secure(secure, input).await;
        }
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

    /// Receives some bytes through TLS.
    async fn receive_secure(&self, secure: &Secure, input: &mut FrameBuffer) -> Result<(), End> {
        loop {
            match secure.take(input) {
                Decrypted::Some => return Ok(()),
                Decrypted::Closed => return Err(End::Peer),
                Decrypted::Nothing => {}
            }
            // what TLS itself answers
            self.send_encrypted(secure, 0).await?;
            self.socket.readable().await?;
            match secure.read_from(self.socket) {
                Ok(0) => return Err(End::Peer),
                Err(error) if !is_passing(&error) => return Err(End::Fault),
                _ => {}
            }
        }
    }

    /// Sends what is encrypted, of a reply of that length.
    async fn send_encrypted(&self, secure: &Secure, reply_bytes: usize) -> Result<(), End> {
        let mut stalled: Option<(Instant, Instant)> = None;
        while let Some(written) = secure.write_to(self.socket) {
            match written {
                Ok(_) => stalled = stalled.map(|(begun, _)| (begun, Instant::now())),
                Err(error) if is_passing(&error) => {
                    let now = Instant::now();
                    let (begun, last) = *stalled.get_or_insert((now, now));
                    self.wait_for_reader(begun, last, reply_bytes).await?;
                }
                Err(_) => return Err(End::Peer),
            }
        }
        Ok(())
    }

    /// Writes a reply; mostly one system call, and a wait only for a peer that does not read.
    async fn write(&self, reply: &[u8]) -> Result<(), End> {
        if let Some(secure) = self.secure {
            for part in reply.chunks(ENCRYPTED) {
                secure.encrypt(part)?;
                self.send_encrypted(secure, reply.len()).await?;
            }
            return Ok(());
        }
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

#[cfg(test)]
mod tests {
    use super::is_handshake;

    #[test]
    fn handshakes_and_frames_differ() {
        for (first, expect) in [
            (&[0x16, 3, 1][..], Some(true)),
            (&[0x16, 3, 3], Some(true)),
            (&[0x16, 3], None),
            (&[0x16], None),
            (&[0x16, 3, 0], Some(false)),
            (&[0x16, 1, 0], Some(false)),
            (&[0x45, 0, 0], Some(false)),
            (&[], Some(false)),
        ] {
            assert_eq!(is_handshake(first), expect, "{first:?}");
        }
    }
}
