//! What all connections share, and the way of a request: decode, look up, check the generic fields, run, encode.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::{Duration, Instant};

use arbor_bson::{ArrayBuf, Doc, DocBuf, ValueRef};
use arbor_engine::{Error as EngineError, MemberState};
use arbor_lang::Code;
use arbor_query::{Database, Interrupt};
use arbor_wire::{Command, Error as WireError, Limits, ReplyTo, Request, Sequence, decode};

use crate::call::{Call, Plan};
use crate::cmd::{get_more, hello};
use crate::connection::{LastWrite, Peer, Stream, Waiting};
use crate::fail_points::{Effect, FailPoints, TimeLimit};
use crate::generic::{self, Generic};
use crate::log::{Component, Event, Log};
use crate::metrics::{Class, Kind, Metrics};
use crate::operation::{About, Begin, Operations};
use crate::place::{self, Place};
use crate::registry::{self, Row};
use crate::replication::Replication;
use crate::session::{InSession, REFRESH, SESSIONS_MAX, Sessions, labels, rules};
use crate::storage_parameters::StorageParameters;
use crate::topology::Topology;
use crate::usage::{self, Usages, Use};
use crate::write_concern::WriteConcern;
use crate::{Connection, Error, Parameters, Result, error_map};

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
        let sessions = Sessions::with_limit(database.transactions.clone(), sessions_max);
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
        let mut scratch = std::mem::take(&mut connection.scratch);
        let after = match decode(frame, &mut scratch, Limits::default()).and_then(Request::into_command) {
            Ok(command) => self.answer(connection, &command, out),
            Err(error) => self.refuse(connection, &error, out),
        };
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
        self.return_to_office();
        self.end_expired_transactions();
        self.expire_sessions(now);
    }

    /// Interrupts what runs, and everything that comes from now on.
    pub fn interrupt_all(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        self.operations.kill_all();
        self.database.feed.wake_all();
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
        let Some(Done { mut reply, streams, wait_until }) = self.execute(connection, request) else {
            return After::Close;
        };
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

    /// Runs a command; `None`: a fail point wants the connection closed.
    fn execute(&self, connection: &mut Connection, request: &Incoming<'_>) -> Option<Done> {
        let name = request.body.first().map_or("", |(name, _)| name);
        let Some(row) = registry::find(name) else {
            self.metrics.unknown_commands.add(1);
            let error = Error::new(Code::COMMAND_NOT_FOUND, format!("no such command: '{name}'"));
            return Some(Done { reply: error.to_reply(), ..Done::default() });
        };
        let generic = match self.check(connection, row, request) {
            Ok(generic) => generic,
            Err(error) => {
                let error = get_more::labelled(row.kind, self.with_topology(error));
                self.metrics.command_ended(row.index(), row.class, Duration::ZERO, true);
                let error = with_labels(error, request.body);
                return Some(Done { reply: error.to_reply(), ..Done::default() });
            }
        };
        if request.waited_until.is_some() {
            return Some(self.perform(connection, request, row, generic, None));
        }
        let app_name = || connection.slot.app_name().or_else(|| handshake_app_name(request.body));
        let effect = self.fail_points.on_command(row.name, app_name);
        if let Some(early) = effect.as_ref().and_then(|effect| fail(effect, request.body)) {
            return early;
        }
        Some(self.perform(connection, request, row, generic, effect))
    }

    /// Runs a command that may run.
    fn perform(
        &self,
        connection: &mut Connection,
        request: &Incoming<'_>,
        row: &'static Row,
        generic: Generic<'_>,
        effect: Option<Effect>,
    ) -> Done {
        let begun = Instant::now();
        let (limit, expired) = self.time_limit(generic.max_time);
        // what a getMore may take is how long it waits
        let limit = limit.filter(|_| row.kind != Kind::GetMore);
        let interrupt = connection.slot.begin(Begin {
            kind: kind_name(row.kind),
            db: request.db,
            body: request.body,
            session: generic.session,
            limit,
            again: request.waited_until.is_some(),
        });
        if self.stopping.load(Ordering::Relaxed) {
            self.operations.kill_all();
        }
        let ran = self.run_in_session(connection, request, row, generic, interrupt, expired);
        let Ran { outcome, mut reply, plan, wait_until } = ran;
        if wait_until.is_some() {
            if row.kind != Kind::GetMore {
                connection.slot.end();
            }
            return Done { wait_until, ..Done::default() };
        }
        connection.slot.end();
        let took = begun.elapsed();
        self.count(row, took, outcome.is_err());
        self.note_use(connection, row, request, took);
        let error = outcome.err().map(|error| self.with_topology(self.with_namespace(self.at_shutdown(error))));
        let error = error.map(|error| with_labels(get_more::labelled(row.kind, error), request.body));
        self.log_if_slow(connection, request, begun.elapsed(), &plan, reply.as_bytes().len(), error.as_ref());
        match &error {
            Some(error) => reply = error.to_reply(),
            None => {
                if let Some(effect) = &effect {
                    append_effect(effect, request.body, &mut reply);
                }
                reply.append("ok", 1.0);
            }
        }
        let goes_on = plan.cursor_id != 0 && row.kind == Kind::GetMore || hello::is_awaited(request.body);
        let streams = request.may_stream && error.is_none() && goes_on;
        Done { reply, streams, wait_until: None }
    }

    /// Runs a command's own code, in its session if it is part of a transaction or a retryable write.
    fn run_in_session(
        &self,
        connection: &mut Connection,
        request: &Incoming<'_>,
        row: &'static Row,
        generic: Generic<'_>,
        interrupt: Interrupt,
        expired: bool,
    ) -> Ran {
        let session = match InSession::enter(self, connection, row, request.body, &generic, &interrupt) {
            Err(error) => return Ran::failed(error),
            Ok(session) => session,
        };
        let statements = session.as_ref().and_then(InSession::statements);
        let (view, refused) = match self.past_view(request.body, generic.read_concern) {
            Ok(view) => (view, None),
            Err(error) => (None, Some(error)),
        };
        let mut call = Call {
            server: self,
            connection,
            row,
            db: request.db,
            body: request.body,
            sequences: request.sequences,
            generic,
            session: session.as_ref(),
            statements: statements.as_ref(),
            interrupt,
            view: view.as_ref(),
            waited_until: request.waited_until,
            wait_until: None,
            reply: DocBuf::new(),
            plan: Plan::default(),
        };
        let outcome = match (refused, expired) {
            (Some(refused), _) => Err(refused),
            (None, true) => Err(arbor_query::Error::TimeExpired.into()),
            (None, false) => call.interrupt.clone().guard(|| (row.run)(&mut call)),
        };
        let wait_until = call.wait_until.filter(|_| outcome.is_ok());
        let (mut reply, plan) = (call.reply, call.plan);
        let outcome = match session {
            Some(session) => session.leave(outcome, &mut reply, generic.write_concern.durability()),
            None => outcome.and_then(|()| self.settle(row, generic.write_concern)),
        };
        let outcome = match wait_until {
            Some(_) => outcome,
            None => outcome.and_then(|()| self.settle_concerns(row, request.body, &generic, &mut reply)),
        };
        Ran { outcome, reply, plan, wait_until }
    }

    /// Write statements wait for their own durability; changes of the catalogue wait here.
    fn settle(&self, row: &Row, write_concern: WriteConcern) -> Result<()> {
        if row.class == Class::Command && row.takes_write_concern() {
            self.database.make_durable(write_concern.durability())?;
        }
        Ok(())
    }

    /// A limit as the fail points leave it, and whether they want it to have expired.
    pub(crate) fn time_limit(&self, limit: Option<Duration>) -> (Option<Duration>, bool) {
        match limit.map(|_| self.fail_points.on_time_limit()) {
            Some(TimeLimit::Expired) => (limit, true),
            Some(TimeLimit::Ignored) => (None, false),
            Some(TimeLimit::AsGiven) | None => (limit, false),
        }
    }

    /// What has to hold before a command runs.
    fn check<'r>(&self, connection: &mut Connection, row: &Row, request: &Incoming<'r>) -> Result<Generic<'r>> {
        if arbor_store::check_database_name(request.db).is_err() {
            return Err(error_map::invalid_namespace(&format!("{}.$cmd", request.db)));
        }
        if row.admin_only && request.db != "admin" {
            let text = format!("{} may only be run against the admin database.", row.name);
            return Err(Error::new(Code::UNAUTHORIZED, text));
        }
        if let Some(replication) = &self.replication {
            replication.check_may_run(row, request.db, request.body)?;
        }
        let mut generic = generic::read(row, request.body, self.replication.is_some())?;
        self.resolve_concerns(row, request.body, &mut generic)?;
        if let Some(numbered) = generic.numbered {
            rules::check(&self.database, row, request.db, request.body, &generic, numbered)?;
        }
        if let Some(session) = generic.session {
            let told = connection.session_told;
            if told.is_none_or(|(known, when)| known != session || when.elapsed() > REFRESH) {
                self.sessions.touch(session)?;
                connection.session_told = Some((session, Instant::now()));
            }
        }
        Ok(generic)
    }

    fn count(&self, row: &Row, took: Duration, failed: bool) {
        self.metrics.command_ended(row.index(), row.class, took, failed);
        // Inserts, updates and deletes count their own statements.
        if !matches!(row.kind, Kind::Insert | Kind::Update | Kind::Delete) {
            self.metrics.count(row.kind, 1);
        }
    }

    /// The collection was used.
    fn note_use(&self, connection: &mut Connection, row: &Row, request: &Incoming<'_>, took: Duration) {
        let Some(collection) = usage::collection_of(request.body) else { return };
        let used = Use { kind: row.kind, class: row.class, took };
        self.usages.record(&mut connection.last_used, &self.database.store, request.db, collection, used);
    }

    /// Names the collection whose tree is not available, and its engine alone where several are missing.
    pub(crate) fn with_namespace(&self, error: Error) -> Error {
        let Some((namespace, engine)) = error.tree.and_then(|tree| self.database.store.owner_of(tree)) else {
            return error;
        };
        let members = self.database.transactions.engine().members();
        let own = members.into_iter().find_map(|member| match member.state {
            MemberState::Unavailable { reason } if *member.name == *engine => {
                Some(EngineError::Unavailable { engine: member.name, reason, tree: None }.to_string())
            }
            _ => None,
        });
        let text = own.unwrap_or(error.message);
        Error { message: format!("{namespace}: {text}"), tree: None, ..error }
    }

    /// An error of a change of role says which change the server has seen, so that clients know whether it is news.
    fn with_topology(&self, error: Error) -> Error {
        if self.replication.is_none() || !ROLE_CODES.contains(&error.code) {
            return error;
        }
        let mut details = error.details.unwrap_or_default();
        details.append("topologyVersion", &self.topology.version().to_doc());
        Error { details: Some(details), ..error }
    }

    fn at_shutdown(&self, error: Error) -> Error {
        if error.code == Code::INTERRUPTED && self.stopping.load(Ordering::Relaxed) {
            return Error::new(Code::INTERRUPTED_AT_SHUTDOWN, "interrupted at shutdown");
        }
        error
    }
}

/// What a member says that is not, or no longer, in the role that a command needs.
const ROLE_CODES: &[Code] = &[
    Code::NOT_WRITABLE_PRIMARY,
    Code::NOT_PRIMARY_NO_SECONDARY_OK,
    Code::NOT_PRIMARY_OR_SECONDARY,
    Code::PRIMARY_STEPPED_DOWN,
    Code::INTERRUPTED_AT_SHUTDOWN,
    Code::SHUTDOWN_IN_PROGRESS,
];

/// A request in the one shape, whichever way it came.
pub(crate) struct Incoming<'r> {
    pub(crate) db: &'r str,
    pub(crate) body: Doc<'r>,
    sequences: &'r [Sequence<'r>],
    pub(crate) reply_to: ReplyTo,
    may_stream: bool,
    /// It waited for news, at the latest until then.
    waited_until: Option<Instant>,
}

/// What a command's own code did.
struct Ran {
    outcome: Result<()>,
    reply: DocBuf,
    plan: Plan,
    /// It is to be run again then.
    wait_until: Option<Instant>,
}

impl Ran {
    fn failed(error: Error) -> Ran {
        Ran { outcome: Err(error), reply: DocBuf::new(), plan: Plan::default(), wait_until: None }
    }
}

#[derive(Default)]
struct Done {
    reply: DocBuf,
    /// Another reply follows unasked.
    streams: bool,
    /// There is no reply yet.
    wait_until: Option<Instant>,
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Insert => "insert",
        Kind::Query => "query",
        Kind::Update => "update",
        Kind::Delete => "remove",
        Kind::GetMore => "getmore",
        Kind::Command => "command",
    }
}

/// The application that a handshake names: fail points apply to the handshake itself.
fn handshake_app_name(body: Doc<'_>) -> Option<String> {
    match body.get("client") {
        Some(ValueRef::Document(client)) => hello::app_name(client).map(str::to_owned),
        _ => None,
    }
}

/// The error with what a driver may do about it.
fn with_labels(mut error: Error, body: Doc<'_>) -> Error {
    error.labels.extend(labels::of(error.code, body));
    error
}

/// Blocks, closes or fails as the fail point says; `None`: the command runs.
fn fail(effect: &Effect, body: Doc<'_>) -> Option<Option<Done>> {
    if let Some(time) = effect.block {
        std::thread::sleep(time);
    }
    if effect.close_connection {
        return Some(None);
    }
    let code = effect.error_code?;
    let mut error = Error::new(code, "Failing command via 'failCommand' failpoint");
    error.labels = effect.error_labels.clone().unwrap_or_else(|| labels::of(code, body));
    let mut reply = error.to_reply();
    if let Some(concern) = &effect.write_concern_error {
        reply.append("writeConcernError", concern);
    }
    Some(Some(Done { reply, ..Done::default() }))
}

fn append_effect(effect: &Effect, body: Doc<'_>, reply: &mut DocBuf) {
    let Some(concern) = &effect.write_concern_error else { return };
    reply.append("writeConcernError", concern);
    let of_code = || match concern.get("code") {
        Some(ValueRef::Int32(code)) => labels::of(Code(code), body),
        _ => Vec::new(),
    };
    let labels = effect.error_labels.clone().unwrap_or_else(of_code);
    if !labels.is_empty() || effect.error_labels.is_some() {
        reply.append("errorLabels", &labels.iter().map(String::as_str).collect::<ArrayBuf>());
    }
}
