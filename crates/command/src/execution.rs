//! The way of one command: what has to hold, its session and its concerns, its own code, and what becomes of the outcome.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use arbor_auth::EXTERNAL;
use arbor_base::memory::{self, Reservation, values};
use arbor_base::work;
use arbor_bson::{ArrayBuf, Code, Doc, DocBuf, ValueRef};
use arbor_engine::{Error as EngineError, MemberState};
use arbor_lang::stop;
use arbor_protocol::fail_points::{Effect, TimeLimit};
use arbor_protocol::generic::{self, Generic};
use arbor_protocol::metrics::{Class, Kind};
use arbor_protocol::operation::{Begin, Begun};
use arbor_protocol::write_concern::WriteConcern;
use arbor_protocol::{CommandInfo, labels};
use arbor_query::{Interrupt, LastCommit, Sharded, summary};
use arbor_store::Namespace;
use arbor_txn::{Patience, View};
use arbor_wire::Form;

use crate::call::{Call, Plan};
use crate::cmd::crud::get_more;
use crate::cmd::diagnostics::hello;
use crate::incoming::{Incoming, hidden, kind_name};
use crate::moves;
use crate::ownership::OwnedState;
use crate::registry::{self, Row};
use crate::routing::answered;
use crate::session::{InSession, REFRESH, rules};
use crate::slow_log::Ended;
use crate::usage::{self, Use};
use crate::{Commands, Connection, Error, Result, error_map, thread_cpu};

impl Commands {
    /// Runs a command; `None`: a fail point wants the connection closed.
    pub(crate) fn execute(&self, connection: &mut Connection, request: &Incoming<'_>) -> Option<Done> {
        let name = request.body.first().map_or("", |(name, _)| name);
        let Some(command @ (info, ..)) = self.command(name) else {
            self.metrics.unknown_commands.add(1);
            let error = Error::new(Code::COMMAND_NOT_FOUND, format!("no such command: '{name}'"));
            return Some(Done { reply: error.to_reply(), ..Done::default() });
        };
        if request.waited_until.is_none() {
            // an earlier request was refused before it was completed: the reply is no other one's
            connection.sent = None;
        }
        let mut generic = match self.check(connection, command, request) {
            Ok(generic) => generic,
            Err(error) => {
                connection.sent = None;
                connection.slot.end();
                let error = get_more::labelled(info.kind, self.with_topology(error));
                self.metrics.command_ended(info.name, info.class, Duration::ZERO, true);
                let error = with_labels(error, request.body);
                return Some(Done { reply: error.to_reply(), ..Done::default() });
            }
        };
        if generic.help {
            let reply = DocBuf::new().with("help", &format!("help for: {} {}", info.name, info.help));
            return Some(Done { reply: reply.with("ok", 1.0), ..Done::default() });
        }
        if request.waited_until.is_some() {
            return Some(self.perform(connection, request, command, generic, None));
        }
        let app_name = || connection.slot.app_name().or_else(|| handshake_app_name(request.body));
        let effect = self.fail_points.on_command(info.name, app_name);
        if let Some(blocked) = effect.as_ref().and_then(|effect| effect.block) {
            let limit = generic.max_time.filter(|_| info.kind != Kind::GetMore);
            std::thread::sleep(limit.map_or(blocked, |limit| limit.min(blocked)));
            if limit.is_some_and(|limit| limit <= blocked) {
                let error = Error::from(arbor_query::Error::TimeExpired);
                return Some(Done { reply: error.to_reply(), ..Done::default() });
            }
            // the time counts
            generic.max_time = generic.max_time.map(|limit| limit.saturating_sub(blocked));
        }
        if let Some(early) = effect.as_ref().and_then(|effect| self.fail(effect, request.body)) {
            return early;
        }
        let writes = info.class == Class::Write && generic.numbered.is_some();
        if writes
            && let Some(effect) = self.fail_points.on_numbered_write(false)
            && let Some(code) = effect.before_commit
        {
            if effect.close_connection {
                return None;
            }
            let error = with_labels(
                Error::new(code, "Failing write for 'onPrimaryTransactionalWrite' failpoint"),
                request.body,
            );
            return Some(Done { reply: error.to_reply(), ..Done::default() });
        }
        let done = self.perform(connection, request, command, generic, effect);
        // a statement that was done before writes nothing
        let wrote = || ["retriedStmtId", "retriedStmtIds"].iter().all(|name| done.reply.get(name).is_none());
        let closes =
            writes && wrote() && self.fail_points.on_numbered_write(true).is_some_and(|effect| effect.close_connection);
        if closes { None } else { Some(done) }
    }

    fn command(&self, name: &str) -> Option<&'static Row> {
        registry::find(name)
            .or_else(|| self.router.as_ref().and_then(|_| registry::of_routers(name)))
            .or_else(|| self.ownership.as_ref().and_then(|_| registry::of_shards(name)))
            .or_else(|| self.balancer.as_ref().and_then(|_| registry::of_config_servers(name)))
    }

    /// Runs a command that may run.
    fn perform(
        &self,
        connection: &mut Connection,
        request: &Incoming<'_>,
        command: &'static Row,
        generic: Generic<'_>,
        effect: Option<Effect>,
    ) -> Done {
        let (info, ..) = command;
        // neither the log nor other clients learn secrets
        let hidden = info.has_secrets().then(|| hidden(request.body));
        let shown = Incoming { body: hidden.as_ref().map_or(request.body, DocBuf::as_doc), ..*request };
        let now = Instant::now();
        let read_first = connection.read_first.take();
        let begun =
            connection.sent.as_ref().map(|sent| sent.begun).or(read_first.map(|read| read.begun)).unwrap_or(now);
        let cpu_begun = thread_cpu::nanos_at(now, self.profiler.is_exact());
        work::begin(&connection.slot.work, cpu_begun);
        if let Some(read) = read_first {
            work::note(|work| {
                work.reads += 1;
                work.read_bytes += read.bytes;
                work.read_micros += now.duration_since(read.begun).as_micros() as u64;
            });
        }
        summary::begin();
        summary::forbid_scans(self.profiler.forbids_scans());
        if self.profiler.is_active() {
            summary::describe_execution();
        }
        let max_time = generic.max_time.map(|limit| match read_first {
            Some(read) => limit.saturating_sub(now.duration_since(read.begun)),
            None => limit,
        });
        let (limit, expired) = self.time_limit(max_time);
        // what a getMore may take is how long it waits
        let limit = limit.filter(|_| info.kind != Kind::GetMore);
        let Begun { deadline, killed } = connection.slot.begin(Begin {
            kind: kind_name(info.kind),
            db: request.db,
            body: shown.body,
            session: generic.session,
            limit,
            on_behalf: connection.on_behalf.clone(),
            key: generic.operation_key,
            ends_with_client: info.class == Class::Read || info.kind == Kind::GetMore,
            again: request.waited_until.is_some(),
        });
        let interrupt = Interrupt::new(deadline, killed);
        if self.stopping.load(Ordering::Relaxed) {
            self.operations.kill_all();
        }
        let audited = self.before_audited(request);
        let ran = self.run_in_session(connection, request, command, generic, interrupt, expired);
        let RunOutcome { outcome, mut reply, reply_memory, plan, wait_until } = ran;
        if wait_until.is_some() {
            // other requests than a `hello` are one operation, on whichever threads they run
            if hello::is_one(request.body) {
                connection.slot.end();
            }
            return Done { wait_until, ..Done::default() };
        }
        connection.slot.end();
        if info.takes_write_concern() {
            self.note_direct_change(request.db, request.body);
        }
        let took = begun.elapsed();
        self.count(info, took, outcome.is_err());
        self.note_use(connection, info, request, took);
        if outcome.is_ok() {
            self.sampler.note(request);
        }
        if let Some(before) = &audited {
            let result = outcome.as_ref().err().map_or(Code(0), |error| error.code);
            self.audit_command(connection, request, before, result);
        }
        let error = outcome
            .err()
            .map(|error| self.with_topology(self.with_namespace(self.at_shutdown(self.at_step_down(info, error)))));
        let error = error.map(|error| with_labels(get_more::labelled(info.kind, error), request.body));
        match &error {
            Some(error) => reply = error.to_reply(),
            None => {
                if let Some(effect) = &effect {
                    append_effect(effect, request.body, &mut reply);
                }
                reply.append("ok", 1.0);
            }
        }
        let ended = Ended { info, request: &shown, took, plan: &plan, reply: &reply, error: error.as_ref(), cpu_begun };
        self.note_ended(connection, &ended);
        let has_more = || plan.cursor_id != 0 && info.kind == Kind::GetMore || hello::is_awaited(request.body);
        let streams = request.may_stream && error.is_none() && has_more();
        Done { reply, reply_memory, streams, wait_until: None }
    }

    /// Runs a command's own code, in its session if it is part of a transaction or a retryable write.
    fn run_in_session(
        &self,
        connection: &mut Connection,
        request: &Incoming<'_>,
        (info, run, _): &'static Row,
        generic: Generic<'_>,
        interrupt: Interrupt,
        expired: bool,
    ) -> RunOutcome {
        // a version is not changed before the request ends
        let transaction = match (generic.session, generic.numbered) {
            (Some(session), Some(numbered)) if numbered.is_transaction() => Some((session, numbered.number)),
            _ => None,
        };
        let _holding = match self.enter_as_holder(info.name, request) {
            Ok(holding) => holding,
            Err(error) => return RunOutcome::failed(error),
        };
        let follows = self.follows_versions(request.body);
        let checked = self.ownership.as_ref().filter(|_| !follows);
        let pass = match checked.map(|ownership| ownership.enter(request, transaction)) {
            Some(Err(error)) => return RunOutcome::failed(error),
            passed => passed.transpose().ok().flatten(),
        };
        let session = match &self.router {
            Some(_) => Ok(None),
            None => InSession::enter(self, connection, info, request, &generic, &interrupt),
        };
        let session = match session {
            Err(error) => return RunOutcome::failed(error),
            Ok(session) => session,
        };
        let statements = session.as_ref().and_then(InSession::statements);
        let past_view = if self.router.is_some() { Ok(None) } else { self.past_view(&generic) };
        let followed = match (follows, &past_view) {
            (true, Ok(past)) => self.enter_following(info.name, request, past.as_ref()),
            _ => Ok(OwnedState::default()),
        };
        let followed = match followed {
            Ok(followed) => followed,
            Err(error) => return RunOutcome::failed(error),
        };
        let placed = pass.as_ref().and_then(|pass| pass.placed.as_ref()).or(followed.placed.as_ref());
        let past = past_view.as_ref().ok().and_then(Option::as_ref).map(|(view, _)| view.position());
        let position = past.or_else(|| session.as_ref().and_then(InSession::position));
        let shown = match (placed, position) {
            (Some(placed), Some(position)) => placed.check_snapshot(request, position),
            _ => Ok(()),
        };
        let shown = shown.and_then(|()| self.check_no_view(request)).and_then(|()| match follows {
            true => Ok(()),
            false => self.check_other_collections(request),
        });
        let owned = placed.and_then(|placed| placed.owned_at(position));
        let series = placed.and_then(|_| moves::of_time_series(request));
        let narrowed = match &series {
            Some(_) => None,
            None => owned.as_ref().and_then(|owned| self.only_owned(request, owned)),
        };
        let narrowed = narrowed.as_ref().map(|body| Incoming {
            body: body.as_doc(),
            sequences: if moves::is_write(info.name) && info.name != "insert" { &[] } else { request.sequences },
            ..*request
        });
        let renamed = series.as_ref().map(|(body, _)| Incoming { body: body.as_doc(), ..*request });
        let owned_buckets = series.as_ref().and_then(|(_, asked)| moves::both(owned.as_deref(), asked.as_ref()));
        let request = narrowed.as_ref().or(renamed.as_ref()).unwrap_or(request);
        let (view, refused) = match shown.and(past_view) {
            Ok(view) => (view, None),
            Err(error) => (None, Some(error)),
        };
        let sharded =
            pass.as_ref().and_then(|pass| pass.placed.as_ref()).and_then(|placed| self.sharded(request, placed));
        let sharded = sharded.map(|part| part.of_buckets(owned_buckets));
        let last_commit = LastCommit::default();
        let begun_at = self.end_before_write(info);
        let deadline = generic.write_concern.patience.map(|patience| Instant::now() + patience);
        let _patience = Patience::until(deadline);
        let mut call = Call {
            server: self,
            connection,
            info,
            db: request.db,
            body: request.body,
            sequences: request.sequences,
            generic,
            session: session.as_ref(),
            statements: statements.as_ref(),
            is_of_old_client: !matches!(request.reply_to.form, Form::Message { .. }),
            interrupt,
            last_commit: &last_commit,
            view: view.as_ref(),
            owned_view: followed.view.as_ref(),
            sharded: sharded.as_ref().map(|sharded| sharded as &dyn Sharded),
            routed_time: None,
            waited_until: request.waited_until,
            wait_until: None,
            reply: DocBuf::new(),
            reply_memory: None,
            plan: Plan::default(),
        };
        let outcome = match (refused, expired) {
            (Some(refused), _) => Err(refused),
            (None, true) => Err(arbor_query::Error::TimeExpired.into()),
            (None, false) => call.interrupt.clone().guard(|| {
                self.write_block.pass(info, request.db, request.body, &call.interrupt)?;
                let copies = if moves::is_write(info.name) { values::WRITE_COPIES } else { values::READ_COPIES };
                let may_wait = || stop::check().is_ok();
                values::for_statement(memory::process(), copies, may_wait, || match &self.router {
                    Some(router) if answered(&**router, &mut call)? => Ok(()),
                    _ => run(&mut call).and_then(|()| whole(info)),
                })
            }),
        };
        let wait_until = call.wait_until.filter(|_| outcome.is_ok());
        let (mut reply, reply_memory, plan) = (call.reply, call.reply_memory, call.plan);
        let outcome = match session {
            Some(session) => session.leave(outcome, &mut reply, generic.write_concern.durability(), &last_commit),
            None if self.router.is_some() => return RunOutcome { outcome, reply, reply_memory, plan, wait_until },
            None => outcome.and_then(|()| self.settle(info, generic.write_concern)),
        };
        let outcome = match wait_until {
            Some(_) => outcome,
            None => outcome
                .and_then(|()| self.check_idle_write(&generic, begun_at, last_commit.position()))
                .and_then(|()| self.settle_concerns(info, &generic, (last_commit.position(), deadline), &mut reply))
                .map_err(|error| self.with_concern_error(info, &generic, error)),
        };
        RunOutcome { outcome, reply, reply_memory, plan, wait_until }
    }

    /// Write statements wait for their own durability; changes of the catalogue wait here.
    fn settle(&self, info: &CommandInfo, write_concern: WriteConcern) -> Result<()> {
        if info.class == Class::Command && info.takes_write_concern() {
            self.database.make_durable(write_concern.durability(), None)?;
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

    /// Checks the preconditions of a command.
    fn check<'r>(&self, connection: &mut Connection, row: &Row, request: &Incoming<'r>) -> Result<Generic<'r>> {
        let (info, ..) = row;
        // users of certificates are in a database that has no collections
        if request.db != EXTERNAL && arbor_store::check_database_name(request.db).is_err() {
            return Err(error_map::invalid_namespace(&format!("{}.$cmd", request.db)));
        }
        if self.accounts.enabled {
            self.authorize(connection, row, request)?;
        }
        if info.admin_only && request.db != "admin" {
            let text = format!("{} may only be run against the admin database.", info.name);
            return Err(Error::new(Code::UNAUTHORIZED, text));
        }
        check_target(info, request)?;
        if changes(info) {
            self.database.check_local(request.db)?;
        }
        if let Some(replication) = &self.replication {
            replication.check_may_run(info, request.db, request.body)?;
        }
        let is_member = self.replication.is_some() || self.router.is_some();
        let mut generic = generic::read(info, request.body, is_member)?;
        if let Some(session) = generic.session {
            generic.session = Some(self.session_of(connection, session)?);
        }
        match &self.router {
            None => self.resolve_concerns(info, &mut generic)?,
            Some(_) => {
                if info.name != "getMore" && !generic.is_in_transaction() {
                    generic.read_concern.check_level(info)?;
                }
                generic.cluster_time.iter().try_for_each(|shown| self.advance_time(*shown))?;
            }
        }
        // the shards check what a router passes on
        let is_checked = self.router.is_none() && !self.is_of_cluster(request.db);
        if let Some(numbered) = generic.numbered.filter(|_| is_checked) {
            rules::check(&self.database, info, request.db, request.body, &generic, numbered)?;
        }
        if let Some(session) = generic.session {
            let touched = connection.session_touched;
            if touched.is_none_or(|(known, when)| known != session || when.elapsed() > REFRESH) {
                self.sessions.touch(session)?;
                connection.session_touched = Some((session, Instant::now()));
            }
        }
        Ok(generic)
    }

    fn count(&self, info: &CommandInfo, took: Duration, failed: bool) {
        self.metrics.command_ended(info.name, info.class, took, failed);
        // Inserts, updates and deletes count their own statements.
        if !matches!(info.kind, Kind::Insert | Kind::Update | Kind::Delete) {
            self.metrics.count(info.kind, 1);
        }
    }

    /// The collection was used.
    fn note_use(&self, connection: &mut Connection, info: &CommandInfo, request: &Incoming<'_>, took: Duration) {
        let Some(collection) = usage::collection_of(request.body) else { return };
        let used = Use { kind: info.kind, class: info.class, took };
        self.usages.record(&mut connection.last_used, &self.database.store, request.db, collection, used);
    }

    /// Names the collection whose tree is not available, and its engine alone where several are missing.
    pub(crate) fn with_namespace(&self, mut error: Error) -> Error {
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
        let text = own.unwrap_or_else(|| error.message.clone());
        error.message = format!("{namespace}: {text}");
        error.tree = None;
        error
    }

    /// Closes or fails as the fail point says; `None`: the command runs.
    fn fail(&self, effect: &Effect, body: Doc<'_>) -> Option<Option<Done>> {
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

    /// An error of a change of role says which change the server has seen, so that clients know whether it is news.
    fn with_topology(&self, mut error: Error) -> Error {
        if !ROLE_CODES.contains(&error.code) {
            return error;
        }
        if error.code == Code::NOT_WRITABLE_PRIMARY {
            self.await_retirement();
        }
        let mut details = error.details.take().unwrap_or_default();
        details.append("topologyVersion", &self.topology.version_behind_changes().to_doc());
        error.with_details(details)
    }

    /// Waits until `hello` no longer shows a primary whose commits are refused already. A driver retries once, and at once: it would
    /// choose this member again.
    fn await_retirement(&self) {
        let until = Instant::now() + RETIREMENT_SHOWN_MAX;
        while self.several.handle().is_some() && self.is_primary() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// A write that a change of role has interrupted says so.
    fn at_step_down(&self, info: &CommandInfo, error: Error) -> Error {
        let error = self.checked_error(info, error);
        let stepped_down = self.several.handle().is_some() && !self.is_primary();
        let interrupted = matches!(error.code, Code::INTERRUPTED | Code::INDEX_BUILD_ABORTED);
        if interrupted && info.takes_write_concern() && stepped_down {
            let text = "operation was interrupted: this member is no longer primary";
            return Error::new(Code::INTERRUPTED_DUE_TO_REPL_STATE_CHANGE, text);
        }
        error
    }

    fn at_shutdown(&self, error: Error) -> Error {
        if error.code == Code::INTERRUPTED && self.stopping.load(Ordering::Relaxed) {
            return Error::new(Code::INTERRUPTED_AT_SHUTDOWN, "interrupted at shutdown");
        }
        error
    }
}

/// Longest wait of a refused write for the role to be shown; less than the time in which a step-down without a successor fails.
const RETIREMENT_SHOWN_MAX: Duration = Duration::from_secs(1);

/// Error codes of a member that is not, or no longer, in the role that a command requires.
const ROLE_CODES: &[Code] = &[
    Code::NOT_WRITABLE_PRIMARY,
    Code::NOT_PRIMARY_NO_SECONDARY_OK,
    Code::NOT_PRIMARY_OR_SECONDARY,
    Code::PRIMARY_STEPPED_DOWN,
    Code::INTERRUPTED_DUE_TO_REPL_STATE_CHANGE,
    Code::INTERRUPTED_AT_SHUTDOWN,
    Code::SHUTDOWN_IN_PROGRESS,
];

/// Result of a command's function.
struct RunOutcome {
    outcome: Result<()>,
    reply: DocBuf,
    reply_memory: Option<Reservation>,
    plan: Plan,
    /// It is to be run again then.
    wait_until: Option<Instant>,
}

impl RunOutcome {
    fn failed(error: Error) -> RunOutcome {
        RunOutcome {
            outcome: Err(error),
            reply: DocBuf::new(),
            reply_memory: None,
            plan: Plan::default(),
            wait_until: None,
        }
    }
}

#[derive(Default)]
pub(crate) struct Done {
    pub reply: DocBuf,
    /// Its memory, when it is large.
    pub reply_memory: Option<Reservation>,
    /// Another reply follows unasked.
    pub streams: bool,
    /// There is no reply yet.
    pub wait_until: Option<Instant>,
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
    let labels = labels::of(error.code, body);
    error.labels.extend(labels);
    error
}

fn append_effect(effect: &Effect, body: Doc<'_>, reply: &mut DocBuf) {
    let Some(concern) = &effect.write_concern_error else { return };
    reply.append("writeConcernError", concern);
    let of_code = || match concern.get("code") {
        Some(ValueRef::Int32(code)) => labels::of_write_concern(Code(code), body),
        _ => Vec::new(),
    };
    let labels = effect.error_labels.clone().unwrap_or_else(of_code);
    if !labels.is_empty() || effect.error_labels.is_some() {
        reply.append("errorLabels", &labels.iter().map(String::as_str).collect::<ArrayBuf>());
    }
}
fn changes(info: &CommandInfo) -> bool {
    info.takes_write_concern() && info.class != Class::Read
}

/// Refuses a command that would change a collection which only the server writes. Statements look again, since a command
/// may name collections in other places than behind its own name.
fn check_target(info: &CommandInfo, request: &Incoming<'_>) -> Result<()> {
    let Some((_, ValueRef::String(name))) = request.body.first().filter(|_| changes(info)) else { return Ok(()) };
    let target = if info.admin_only { Namespace::parse(name) } else { Namespace::new(request.db, name) };
    match target {
        Ok(namespace) => Ok(arbor_query::check_writable(&namespace)?),
        // The command says what is wrong with the name.
        Err(_) => Ok(()),
    }
}

/// Refuses the result of an interrupted read, which may come from a truncated key or bounds.
fn whole(info: &CommandInfo) -> Result<()> {
    match info.class {
        Class::Read => Ok(stop::ended().map_err(arbor_query::Error::from)?),
        _ => Ok(()),
    }
}
