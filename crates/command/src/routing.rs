//! The seam of a router: a server whose data is on other servers. What it does not answer itself it hands to a [`Router`].

use std::time::{Duration, Instant};

use arbor_bson::{Doc, DocBuf};
use arbor_protocol::CommandInfo;
use arbor_protocol::generic::Generic;
use arbor_protocol::transport::News;
use arbor_query::{Cursor, Interrupt};
use arbor_wire::Sequence;

use crate::access::Identity;
use crate::analysis::ConfigCollections;
use crate::call::Call;
use crate::cmd::crud::{aggregate, bulk_write, count, delete, distinct, find, find_and_modify, insert, update};
use crate::cmd::ddl::rename_collection;
use crate::cmd::shared::cursor_reply::{First, answer_first};
use crate::cmd::shared::write_reply;
use crate::connection::Sent;
use crate::{Commands, Connection, Error, Result, registry};

/// A reply that takes longer is awaited by a thread.
const FORWARDED_MAX: Duration = Duration::from_millis(100);

/// One request that a router may answer.
#[derive(Clone, Copy)]
pub struct Routed<'c> {
    pub info: &'static CommandInfo,
    pub db: &'c str,
    pub body: Doc<'c>,
    pub sequences: &'c [Sequence<'c>],
    pub generic: &'c Generic<'c>,
    /// None: there is no access control, or no user is logged in.
    pub user: Option<&'c Identity>,
    pub interrupt: &'c Interrupt,
}

/// The reaction of a router to a request.
pub enum Answer {
    /// The server runs the command by itself: it is about the server, not about its data.
    Local,
    /// The fields of the reply, without `ok`.
    Reply(DocBuf),
    /// Documents of several servers; the server keeps the cursor.
    Cursor(RoutedCursor),
}

pub struct RoutedCursor {
    pub cursor: Box<Cursor>,
    pub batch_size: Option<u64>,
    pub single_batch: bool,
    pub no_timeout: bool,
    /// Time at which all shards are read.
    pub time: Option<u64>,
    /// Fields of the reply next to the cursor.
    pub extra: Option<Box<DocBuf>>,
}

/// A request that was sent to the one server that answers it. Dropped, it ends there.
pub trait Forwarded: Send {
    /// Returns the arrival of the reply.
    fn news(&self) -> News;

    /// Returns true if the reply has arrived, and [`Forwarded::complete`] is going to return an answer at once.
    fn has_succeeded(&self) -> bool;

    /// Returns the answer, for which it waits if it has not succeeded. None: the request is to run as if it had not been sent.
    fn complete(self: Box<Self>, routed: &Routed<'_>) -> Result<Option<Answer>>;
}

/// One per server.
pub trait Router: Send + Sync {
    /// Sends a read that one server answers, without waiting for anything. None: the request is to run as others do.
    fn forward(&self, _routed: &Routed<'_>) -> Option<Box<dyn Forwarded>> {
        None
    }

    /// Processes one request. May block, as long as the interrupt is not raised.
    fn run(&self, server: &Commands, routed: &Routed<'_>) -> Result<Answer>;

    /// Reads documents of users or roles (`system.users`, `system.roles`) of the cluster.
    fn accounts(&self, collection: &str, filter: Doc<'_>, limit: Option<u64>) -> Result<Vec<DocBuf>>;

    /// Runs a command of the database `admin` on all shards and the config servers.
    fn broadcast(&self, command: &DocBuf, interrupt: &Interrupt) -> Result<()>;

    /// The newest time of the cluster that is known here; 0: none is.
    fn time(&self) -> u64;

    /// A client showed a time.
    fn advance_time(&self, time: u64);

    /// To be called about every second.
    fn tick(&self) {}

    /// Returns collections of the config servers.
    fn config_collections(&self) -> &dyn ConfigCollections;

    /// Returns where the chunks of sharded collections are, and the last moves, for the console. Errors: the config servers cannot be reached.
    fn chunk_map(&self) -> Result<DocBuf>;

    /// Completes changes of the cluster that another router has left. May take long.
    fn continue_changes(&self, _server: &Commands) {}
}

/// The balancer of a cluster, on the primary of its config servers.
pub trait Balancer: Send + Sync {
    /// Returns the fields of `balancerStatus` about its rounds.
    fn status(&self) -> DocBuf;
}

impl Commands {
    /// Does work of a router as if a client had sent it a command. Requires: the command is one that only routers have.
    pub fn with_routed<T>(&self, body: Doc<'_>, interrupt: &Interrupt, work: impl FnOnce(&Routed<'_>) -> T) -> T {
        let name = body.first().map_or("", |(name, _)| name);
        let row = registry::of_routers(name);
        let (info, ..) = row.unwrap_or_else(|| unreachable!("{name} is a command of routers"));
        let generic = Generic::default();
        work(&Routed { info, db: "admin", body, sequences: &[], generic: &generic, user: None, interrupt })
    }
}

/// Checks the operations of a `bulkWrite`; returns the names of its collections.
pub fn check_bulk_write(body: Doc<'_>, ops: &[DocBuf], infos: &[DocBuf]) -> Result<Vec<String>> {
    bulk_write::check(body, ops, infos)
}

/// Checks a statement of an `update`, with the variables of its command.
pub fn check_update(statement: Doc<'_>, let_variables: Option<Doc<'_>>) -> Result<()> {
    Ok(arbor_query::check_update(&update::statement(statement)?, let_variables)?)
}

/// Returns what is known of a command of all servers.
pub fn command_info(name: &str) -> Option<&'static CommandInfo> {
    registry::info(name)
}

/// Returns true for errors that fail a write command, and not only one of its statements.
pub fn is_fatal(error: &Error) -> bool {
    write_reply::is_fatal(error)
}

/// Refuses arguments that a server refuses, before shards get parts of them.
fn check_arguments(call: &Call<'_>) -> Result<()> {
    match call.info.name {
        "aggregate" => aggregate::check(call),
        "count" => count::parse(call).map(drop),
        "delete" => delete::parse(call).map(drop),
        "distinct" => distinct::parse(call).map(drop),
        "find" => find::parse(call).map(drop),
        "findAndModify" | "findandmodify" => find_and_modify::parse(call).map(drop),
        "insert" => insert::parse(call).map(drop),
        "renameCollection" => rename_collection::parse(call).map(drop),
        "update" => update::parse(call).map(drop),
        _ => Ok(()),
    }
}

/// Runs a command on the router; false: the server is to run it.
pub(crate) fn answered(router: &dyn Router, call: &mut Call<'_>) -> Result<bool> {
    let sent = call.connection.sent.take();
    assert!(sent.is_none() || call.waited_until.is_some(), "a reply is that of the request that waits for it");
    if sent.is_none() {
        check_arguments(call)?;
    }
    let (interrupt, user) = (call.interrupt.clone(), call.connection.login.user.clone());
    let routed = Routed {
        info: call.info,
        db: call.db,
        body: call.body,
        sequences: call.sequences,
        generic: &call.generic,
        user: user.as_deref(),
        interrupt: &interrupt,
    };
    if call.waited_until.is_none() && call.server.forwards(call.connection) && is_forwarded(call) {
        let begun = Instant::now();
        let forwarded = router.forward(&routed);
        call.wait_until = Some(if forwarded.is_some() { begun + FORWARDED_MAX } else { begun });
        call.connection.news = forwarded.as_ref().map(|forwarded| forwarded.news());
        call.connection.sent = forwarded.map(|forwarded| Sent { forwarded, begun });
        return Ok(true);
    }
    let answer = interrupt.guard(|| match sent.map(|sent| sent.forwarded.complete(&routed)).transpose()?.flatten() {
        Some(answer) => Ok(answer),
        None => router.run(call.server, &routed),
    });
    match answer? {
        Answer::Local => return Ok(false),
        Answer::Reply(reply) => call.reply = reply,
        Answer::Cursor(RoutedCursor { cursor, batch_size, single_batch, no_timeout, time, extra }) => {
            call.routed_time = time;
            answer_first(call, *cursor, First { single_batch, no_timeout, ..First::of(batch_size) })?;
            extra.iter().flat_map(|extra| extra.as_doc().iter()).for_each(|(name, value)| {
                call.reply.append(name, value);
            });
        }
    }
    Ok(true)
}

/// Returns true for a command that may be sent on from the thread of its connection. [`place`](crate::place) knows it by its frame.
fn is_forwarded(call: &Call<'_>) -> bool {
    call.info.name == "find" && call.generic.numbered.is_none()
}

impl Commands {
    /// Returns true if a router may send on requests of a connection at once: nothing has to be read for them before.
    pub(crate) fn forwards(&self, connection: &Connection) -> bool {
        self.router.is_some()
            && !self.parameters.test_commands()
            && !self.profiler.is_active()
            && self.knows_user(connection)
    }
}

/// The code of commands that only a router has.
pub(crate) fn not_here(call: &mut Call<'_>) -> Result<()> {
    let text = format!("no such command: '{}'", call.info.name);
    Err(Error::new(arbor_bson::Code::COMMAND_NOT_FOUND, text))
}
