//! What all connections share, and the way of a request: decode, run, encode.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::{Duration, Instant};

use arbor_base::memory::{self, Class};
use arbor_bson::DocBuf;
use arbor_lang::Code;
use arbor_query::Database;
use arbor_wire::{Command, Error as WireError, Limits, ReplyTo, Request, decode, unpacked_bytes};

use crate::cmd::hello;
use crate::connection::{LastWrite, Peer, Stream, Waiting};
use crate::execution::{Done, Incoming};
use crate::fail_points::FailPoints;
use crate::log::{Component, Event, Log};
use crate::metrics::Metrics;
use crate::operation::{About, Operations};
use crate::place::{self, Place};
use crate::replication::Replication;
use crate::session::{SESSIONS_MAX, Sessions};
use crate::storage_parameters::StorageParameters;
use crate::topology::Topology;
use crate::usage::Usages;
use crate::{Connection, Error, Parameters, Result};

/// How the server was started, as far as commands show it.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub argv: Vec<String>,
    /// Settings under their YAML names, nested.
    pub parsed: DocBuf,
    pub dbpath: PathBuf,
    pub port: u16,
    /// Milliseconds from which a request is logged; negative: none is.
    pub slow_ms: i32,
    pub slow_sample_rate: f64,
    pub connections_max: usize,
}

/// What this crate asks of the process around it.
pub trait Host: Send + Sync {
    fn network(&self) -> NetworkFigures;
    /// Begins the clean shutdown; returns at once.
    fn shut_down(&self);
    /// Wakes the clients that wait for news of this server's role.
    fn topology_changed(&self);
}

#[derive(Clone, Copy, Debug, Default)]
pub struct NetworkFigures {
    pub connections_open: u64,
    pub connections_created: u64,
    pub connections_rejected: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub requests: u64,
    pub requests_pooled: u64,
}

/// What follows once the reply is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    Continue,
    /// Call [`Commands::more`] for the next reply before reading on.
    More,
    /// Nothing was answered yet: call [`Commands::more`] after the next [`Host::topology_changed`], and at this time.
    Wait {
        until: Instant,
    },
    Close,
}

pub struct Commands {
    pub database: Database,
    /// `None`: a standalone.
    pub replication: Option<Arc<Replication>>,
    pub(crate) topology: Topology,
    pub(crate) log: Arc<Log>,
    pub(crate) parameters: Parameters,
    pub(crate) options: Options,
    pub(crate) host: Box<dyn Host>,
    pub(crate) metrics: Metrics,
    pub(crate) usages: Usages,
    pub(crate) operations: Operations,
    pub(crate) sessions: Sessions,
    pub(crate) fail_points: FailPoints,
    pub(crate) started: Instant,
    pub(crate) slow_ms: AtomicI32,
    pub(crate) stopping: AtomicBool,
    /// What the log said last about the space on the device.
    low_on_space: AtomicBool,
}

const ACCEPTED: Event = Event { component: Component::Network, id: 22943, message: "Connection accepted" };
const ENDED: Event = Event { component: Component::Network, id: 22944, message: "Connection ended" };
const REFUSED: Event = Event {
    component: Component::Network,
    id: 22942,
    message: "Connection refused because there are too many open connections",
};
const BAD_FRAME: Event =
    Event { component: Component::Network, id: 9_000_001, message: "Connection closed for a bad frame" };
const LOW_ON_SPACE: Event = Event {
    component: Component::Storage,
    id: 9_000_014,
    message: "The device of the data directory is full. Its reserve is given up: deletions, drops and checkpoints work, other \
              writes are refused",
};
const SPACE_AGAIN: Event = Event {
    component: Component::Storage,
    id: 9_000_015,
    message: "There is space on the device again. The reserve is taken back, and writes go on",
};
/// How long a compressed message waits for memory.
const UNPACK_PATIENCE: Duration = Duration::from_secs(30);

const PANICKED: Event = Event { component: Component::Command, id: 9_000_002, message: "Request failed by a panic" };

const INVALID_DOCUMENT: Event =
    Event { component: Component::Write, id: 20294, message: "Document would fail validation" };

impl Commands {
    pub fn new(
        mut database: Database,
        log: Arc<Log>,
        parameters: Parameters,
        options: Options,
        host: Box<dyn Host>,
    ) -> Commands {
        let limit = |name: &str| parameters.int(name).and_then(|limit| usize::try_from(limit).ok());
        let settings = &mut database.settings;
        settings.sort_bytes_max =
            limit("internalQueryMaxBlockingSortMemoryUsageBytes").unwrap_or(settings.sort_bytes_max);
        settings.group_bytes_max =
            limit("internalDocumentSourceGroupMaxMemoryBytes").unwrap_or(settings.group_bytes_max);
        let slow_ms = AtomicI32::new(options.slow_ms);
        let own_log = log.clone();
        database.on_mismatch = Some(Box::new(move |namespace, info| {
            let attributes = DocBuf::new().with("namespace", namespace.as_str()).with("errInfo", info);
            own_log.warn(INVALID_DOCUMENT, "write", attributes);
        }));
        let sessions_max = limit("maxSessions").unwrap_or(SESSIONS_MAX);
        let limits = arbor_session::Limits { sessions_max, ..Default::default() };
        let sessions = Sessions::with_limits(database.transactions.clone(), limits);
        Commands {
            database,
            replication: None,
            topology: Topology::default(),
            log,
            parameters,
            options,
            host,
            metrics: Metrics::new(),
            usages: Usages::default(),
            operations: Operations::default(),
            sessions,
            fail_points: FailPoints::default(),
            started: Instant::now(),
            slow_ms,
            stopping: AtomicBool::new(false),
            low_on_space: AtomicBool::new(false),
        }
    }

    /// The same as the member of a replica set; it takes its office with [`Commands::begin_replication`].
    pub fn with_replication(self, replication: Option<Replication>) -> Commands {
        Commands { replication: replication.map(Arc::new), ..self }
    }

    /// Sets what was given at the start for log, checkpoints and engines; answers what has no effect, with the reason.
    /// Errors: an unknown parameter, a bad value.
    pub fn set_storage_parameters(&self) -> Result<Vec<(&str, String)>> {
        let storage = StorageParameters(&self.database.transactions);
        let mut without_effect = Vec::new();
        for (name, text) in &self.parameters.for_storage {
            without_effect.extend(storage.set_at_start(name, text)?.map(|reason| (name.as_str(), reason)));
        }
        Ok(without_effect)
    }

    pub fn open(&self, peer: Peer, open: usize) -> Connection {
        let remote = peer.remote.to_string();
        if !self.log.is_quiet() {
            let attributes = DocBuf::new().with("remote", &remote).with("connectionId", peer.connection as i64);
            self.log.info(ACCEPTED, "listener", attributes.with("connectionCount", open as i64));
        }
        let slot = self.operations.open(peer.connection, About { remote, ..About::default() });
        Connection::new(peer, slot)
    }

    pub fn close(&self, connection: &Connection, open: usize) {
        self.operations.close(connection.peer.connection);
        if let Some(bound) = connection.bound {
            self.sessions.end(bound.session);
        }
        if !self.log.is_quiet() {
            let attributes = DocBuf::new().with("remote", &connection.peer.remote.to_string());
            let attributes = attributes.with("connectionId", connection.peer.connection as i64);
            self.log.info(ENDED, &connection.name, attributes.with("connectionCount", open as i64));
        }
    }

    /// A connection that was closed because there are too many.
    pub fn refused(&self, remote: std::net::SocketAddr, open: usize) {
        let attributes = DocBuf::new().with("remote", &remote.to_string()).with("connectionCount", open as i64);
        self.log.info(REFUSED, "listener", attributes);
    }

    /// Where a frame is to run. With fail points everything may block.
    pub fn place(&self, connection: &Connection, frame: &[u8]) -> Place {
        match connection.idle_cursor {
            _ if self.parameters.test_commands() || self.reads_may_wait() => Place::Blocking,
            Some(cursor) if place::is_get_more(frame, cursor) => Place::Inline,
            _ => place::of_frame(frame),
        }
    }

    /// Answers one frame: appends the reply frame to `out`, or nothing.
    pub fn handle(&self, connection: &mut Connection, frame: &[u8], out: &mut Vec<u8>) -> After {
        // a short frame may unpack to a long message
        let mut memory = memory::process().reservation(Class::Message);
        if !memory.wait_for_all(unpacked_bytes(frame), UNPACK_PATIENCE) {
            return self.close_without_memory(connection);
        }
        let mut scratch = std::mem::take(&mut connection.scratch);
        let after = match decode(frame, &mut scratch, Limits::default()).and_then(Request::into_command) {
            Ok(command) => self.answer(connection, &command, out),
            Err(error) => self.refuse(connection, &error, out),
        };
        scratch.trim();
        connection.scratch = scratch;
        after
    }

    /// The next reply of a stream, or the one of a request that waits for news.
    pub fn more(&self, connection: &mut Connection, out: &mut Vec<u8>) -> After {
        let (stream, may_stream, waited_until) = match (connection.waiting.take(), connection.stream.take()) {
            (Some(Waiting { request, may_stream, until }), _) => (request, may_stream, Some(until)),
            (None, Some(stream)) => (stream, true, None),
            (None, None) => return After::Continue,
        };
        let request = Incoming {
            db: &stream.db,
            body: stream.command.as_doc(),
            sequences: &[],
            reply_to: stream.reply_to,
            may_stream,
            waited_until,
        };
        self.run(connection, &request, out)
    }

    /// Where [`Commands::more`] is to run.
    pub fn place_of_more(&self, connection: &Connection) -> Place {
        if let Some(Waiting { request, until, .. }) = &connection.waiting
            && !hello::is_one(request.command.as_doc())
            && Instant::now() < *until
        {
            // there are news, and documents to be read
            return Place::Blocking;
        }
        let batches = connection.waiting.is_none()
            && connection.stream.as_ref().is_some_and(|stream| !hello::is_one(stream.command.as_doc()));
        if batches || self.parameters.test_commands() { Place::Blocking } else { Place::Inline }
    }

    /// Tells the client that its request was ended by a panic.
    pub fn panicked(&self, connection: &mut Connection, frame: &[u8], message: &str, out: &mut Vec<u8>) {
        connection.slot.end();
        self.log.error(PANICKED, &connection.name, DocBuf::new().with("message", message));
        let mut scratch = std::mem::take(&mut connection.scratch);
        if let Ok(request) = decode(frame, &mut scratch, Limits::default()) {
            let error = Error::new(Code::INTERNAL_ERROR, format!("internal error: {message}"));
            request.reply_to().encode(connection.next_reply_id(), error.to_reply().as_doc(), out);
        }
    }

    /// Closes forgotten cursors, transactions and sessions. To be called about every second.
    pub fn tick(&self) {
        let now = Instant::now();
        let idle = self.parameters.int("cursorTimeoutMillis").unwrap_or(600_000).max(0) as u64;
        self.database.cursors.reap(now, Duration::from_millis(idle));
        self.log_space();
        self.return_to_office();
        self.end_expired_transactions();
        self.expire_sessions(now);
    }

    /// A line when writes begin or cease to be refused for lack of space.
    fn log_space(&self) {
        let low = self.database.transactions.is_low_on_space();
        if self.low_on_space.swap(low, Ordering::Relaxed) != low {
            match low {
                true => self.log.warn(LOW_ON_SPACE, "clock", DocBuf::new()),
                false => self.log.info(SPACE_AGAIN, "clock", DocBuf::new()),
            }
        }
    }

    /// Interrupts what runs, and everything that comes from now on.
    pub fn interrupt_all(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        self.operations.kill_all();
        self.database.feed.wake_all();
    }

    fn close_without_memory(&self, connection: &Connection) -> After {
        let attributes = DocBuf::new().with("remote", &connection.peer.remote.to_string());
        self.log.info(BAD_FRAME, &connection.name, attributes.with("error", "no memory to unpack it"));
        After::Close
    }

    fn refuse(&self, connection: &mut Connection, error: &WireError, out: &mut Vec<u8>) -> After {
        match error {
            WireError::Close(fault) => {
                let attributes = DocBuf::new().with("remote", &connection.peer.remote.to_string());
                self.log.info(BAD_FRAME, &connection.name, attributes.with("error", &fault.to_string()));
                After::Close
            }
            WireError::Answer(refusal) | WireError::AnswerAndClose(refusal) => {
                let reply = Error::from(refusal).to_reply();
                refusal.reply_to.encode(connection.next_reply_id(), reply.as_doc(), out);
                if matches!(error, WireError::Answer(_)) { After::Continue } else { After::Close }
            }
        }
    }

    fn answer(&self, connection: &mut Connection, command: &Command<'_>, out: &mut Vec<u8>) -> After {
        let request = Incoming {
            db: command.db,
            body: command.body.as_doc(),
            sequences: &command.sequences,
            reply_to: command.reply_to,
            may_stream: command.exhaust_allowed,
            waited_until: None,
        };
        self.run(connection, &request, out)
    }

    fn run(&self, connection: &mut Connection, request: &Incoming<'_>, out: &mut Vec<u8>) -> After {
        let Some(Done { mut reply, reply_memory, streams, wait_until }) = self.execute(connection, request) else {
            return After::Close;
        };
        connection.reply_memory = reply_memory;
        if let Some(until) = wait_until {
            let Incoming { reply_to, may_stream, .. } = *request;
            let request = Stream { db: request.db.to_owned(), command: request.body.to_buf(), reply_to };
            connection.waiting = Some(Waiting { request, may_stream, until });
            return After::Wait { until };
        }
        let mut after = After::Continue;
        if request.reply_to.wants_answer() {
            let reply_id = connection.next_reply_id();
            self.append_time(&mut reply);
            request.reply_to.encode_with(reply_id, streams, reply.as_doc(), out);
            if streams {
                let reply_to = ReplyTo { request_id: reply_id, ..request.reply_to };
                let (db, command) = (request.db.to_owned(), hello::next(request.body, reply.as_doc()));
                connection.stream = Some(Stream { db, command, reply_to });
                after = After::More;
            }
        } else {
            let inserts = request.body.first().is_some_and(|(name, _)| name == "insert");
            connection.last_write = Some(LastWrite { inserts, reply });
        }
        after
    }
}
