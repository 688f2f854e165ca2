//! Heartbeats, every two seconds: for `replSetGetStatus`, and so that a server learns that it was added to the configuration.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arbor_bson::{DocBuf, ValueRef};
use arbor_client::{Client, ClientError};
use arbor_repl::MemberId;
use parking_lot::Mutex;

use crate::lanes::Wiring;
use crate::protocol::Ask;
use crate::shown::Shared;

const EVERY: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(200);
const TIMEOUT: Duration = Duration::from_secs(4);
/// The server answers so before it is a member.
const NOT_YET_INITIALIZED: i32 = 94;

/// The last heartbeat of another member.
#[derive(Clone, Debug)]
pub struct Heard {
    /// Its reply to `replSetHeartbeat`; empty: none came yet.
    pub reply: DocBuf,
    pub at: Option<Instant>,
    pub sent: Option<Instant>,
    pub round_trip: Duration,
    /// `None`: the last heartbeat was answered.
    pub error: Option<String>,
}

pub(crate) struct Heartbeats {
    pub heard: Mutex<HashMap<MemberId, Heard>>,
    pub stopped: AtomicBool,
}

impl Heartbeats {
    pub(crate) fn new() -> Heartbeats {
        Heartbeats { heard: Mutex::default(), stopped: AtomicBool::new(false) }
    }

    /// Has each other member asked by a thread of its own, until it leaves the configuration.
    pub(crate) fn run(self: &Arc<Self>, own: MemberId, wiring: &Wiring, shared: &Arc<Shared>) {
        let mut asked: HashMap<MemberId, std::thread::JoinHandle<()>> = HashMap::new();
        while !self.stopped.load(Ordering::Relaxed) {
            let hosts = wiring.hosts.load_full();
            asked.retain(|_, thread| !thread.is_finished());
            self.heard.lock().retain(|id, _| hosts.contains_key(id));
            for id in hosts.keys().filter(|id| **id != own) {
                if asked.contains_key(id) {
                    continue;
                }
                let (all, wiring, shared, id) = (self.clone(), wiring.clone(), shared.clone(), *id);
                let begun = std::thread::Builder::new()
                    .name(format!("arbor-beat-{}", id.0))
                    .spawn(move || all.ask(own, id, &wiring, &shared));
                if let Ok(thread) = begun {
                    asked.insert(id, thread);
                }
            }
            std::thread::sleep(LOOK);
        }
    }

    fn ask(&self, own: MemberId, id: MemberId, wiring: &Wiring, shared: &Shared) {
        let mut connection: Option<(String, Client)> = None;
        let mut last: Option<(Instant, u64)> = None;
        while !self.stopped.load(Ordering::Relaxed) {
            let Some(host) = wiring.hosts.load().get(&id).cloned() else { return };
            let status = shared.status.load_full();
            let version = status.known.as_ref().map_or(0, |(version, _)| version.0);
            // A new agreement is announced at once.
            if last.is_some_and(|(at, announced)| at.elapsed() < EVERY && announced == version) {
                std::thread::sleep(LOOK);
                continue;
            }
            let begun = Instant::now();
            last = Some((begun, version));
            let open = connection.take().filter(|(known, _)| *known == host).map(|(_, client)| Ok(client));
            let client = open.unwrap_or_else(|| wiring.dialer.connect(&host, TIMEOUT));
            let outcome = client.and_then(|mut client| {
                let reply = self.beat(own, &mut client, wiring, shared)?;
                connection = Some((host.clone(), client));
                Ok(reply)
            });
            let mut heard = self.heard.lock();
            let heard = heard.entry(id).or_insert_with(|| Heard {
                reply: DocBuf::new(),
                at: None,
                sent: None,
                round_trip: Duration::ZERO,
                error: None,
            });
            heard.sent = Some(begun);
            match outcome {
                Ok(reply) => {
                    (heard.reply, heard.at, heard.error) = (reply, Some(Instant::now()), None);
                    heard.round_trip = begun.elapsed();
                }
                Err(error) => heard.error = Some(error.to_string()),
            }
        }
    }

    fn beat(
        &self,
        own: MemberId,
        client: &mut Client,
        wiring: &Wiring,
        shared: &Shared,
    ) -> Result<DocBuf, ClientError> {
        let status = shared.status.load_full();
        let command = DocBuf::new()
            .with("replSetHeartbeat", wiring.set.as_str())
            .with("fromId", own.0 as i32)
            .with("term", status.epoch.0 as i64);
        let outcome = client.command("admin", &command).map(|reply| reply.doc.to_buf());
        let not_yet = matches!(&outcome, Err(ClientError::Command { code: NOT_YET_INITIALIZED, .. }));
        if not_yet
            && status.is_primary
            && let Some((version, agreement)) = status.known.clone()
        {
            client.command("admin", &Ask::Join(version, agreement).to_command(&wiring.set))?;
            return Ok(client.command("admin", &command)?.doc.to_buf());
        }
        outcome
    }
}

impl Heard {
    /// A text of the last reply.
    pub fn text(&self, field: &str) -> Option<&str> {
        match self.reply.get(field)? {
            ValueRef::String(text) => Some(text),
            _ => None,
        }
    }

    /// A number of the last reply.
    pub fn number(&self, field: &str) -> Option<i64> {
        match self.reply.get(field)? {
            ValueRef::Int32(number) => Some(number.into()),
            ValueRef::Int64(number) => Some(number),
            _ => None,
        }
    }
}
