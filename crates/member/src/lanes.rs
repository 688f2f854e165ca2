//! Connections to the other members. Each has two lanes: one for requests, whose replies are awaited, and one for what needs none.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::time::Duration;

use arbor_bson::ValueRef;
use arbor_client::{Client, ClientError};
use arbor_repl::MemberId;
use arbor_repl::isr::Envelope;
use arc_swap::ArcSwap;

use crate::dial::Dialer;
use crate::event::Event;
use crate::protocol;

/// Addresses by member; they change with the configuration.
pub(crate) type Hosts = Arc<ArcSwap<HashMap<MemberId, String>>>;

/// A primary replies to a fetch within a quarter of a second.
const REPLY_TIMEOUT: Duration = Duration::from_secs(3);
/// A lane without work for this long ends.
const IDLE: Duration = Duration::from_secs(60);
/// A member that cannot be reached is tried again after this time.
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Clone)]
pub(crate) struct Wiring {
    pub set: String,
    pub hosts: Hosts,
    pub dialer: Dialer,
    pub events: Sender<Event>,
}

pub(crate) struct Lanes {
    wiring: Wiring,
    open: HashMap<(MemberId, bool), SyncSender<Vec<u8>>>,
}

impl Lanes {
    pub(crate) fn new(wiring: Wiring) -> Lanes {
        Lanes { wiring, open: HashMap::new() }
    }

    /// Sends a message; it may be lost.
    pub(crate) fn send(&mut self, envelope: &Envelope, is_request: bool) {
        let key = (envelope.to, is_request);
        let bytes = envelope.encode();
        let bytes = match self.open.get(&key).map(|lane| lane.try_send(bytes.clone())) {
            Some(Ok(()) | Err(TrySendError::Full(_))) => return,
            Some(Err(TrySendError::Disconnected(bytes))) => bytes,
            None => bytes,
        };
        // One waits while one is under way. Older ones are repeated by the state machine when they are lost.
        let (sender, receiver) = sync_channel(1);
        let _it_is_empty = sender.try_send(bytes);
        let (wiring, to) = (self.wiring.clone(), envelope.to);
        let name = format!("arbor-to-{}", to.0);
        if std::thread::Builder::new().name(name).spawn(move || run(&wiring, to, &receiver)).is_ok() {
            self.open.insert(key, sender);
        }
    }
}

fn run(wiring: &Wiring, to: MemberId, work: &Receiver<Vec<u8>>) {
    let mut connection: Option<(String, Client)> = None;
    loop {
        let bytes = match work.recv_timeout(IDLE) {
            Ok(bytes) => bytes,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
        };
        let Some(host) = wiring.hosts.load().get(&to).cloned() else { continue };
        if connection.as_ref().is_some_and(|(known, _)| *known != host) {
            connection = None;
        }
        let outcome = match connection.take() {
            Some((_, client)) => Ok(client),
            None => wiring.dialer.connect(&host, REPLY_TIMEOUT),
        };
        let exchanged = outcome.and_then(|mut client| exchange(wiring, to, &mut client, &bytes).map(|()| client));
        match exchanged {
            Ok(client) => connection = Some((host, client)),
            Err(error) => {
                if is_broken(&error) && wiring.events.send(Event::Lost(to)).is_err() {
                    return;
                }
                std::thread::sleep(PAUSE);
            }
        }
    }
}

/// Returns true if the other process has ended, or closed the connection: it did not just take long.
fn is_broken(error: &ClientError) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, UnexpectedEof};
    let ends = [ConnectionAborted, ConnectionRefused, ConnectionReset, BrokenPipe, UnexpectedEof];
    matches!(error, ClientError::Io(error) if ends.contains(&error.kind()))
}

fn exchange(wiring: &Wiring, to: MemberId, client: &mut Client, bytes: &[u8]) -> Result<(), ClientError> {
    let reply = match client.command("admin", &protocol::carry(&wiring.set, bytes)) {
        // It is not a member yet, or no longer: the connection is good.
        Err(ClientError::Command { .. }) => return Ok(()),
        reply => reply?,
    };
    if let Some(ValueRef::Binary { bytes, .. }) = reply.doc.get("message")
        && let Some(envelope) = Envelope::decode(bytes)
        && envelope.from == to
    {
        let message = Box::new(envelope.message);
        let _stopped = wiring.events.send(Event::Received { from: to, message, reply: None });
    }
    Ok(())
}

/// The two ends of the queue of events.
pub(crate) fn events() -> (Sender<Event>, Receiver<Event>) {
    channel()
}
