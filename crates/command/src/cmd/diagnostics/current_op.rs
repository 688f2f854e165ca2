//! `currentOp`: what runs. Its fields filter the answer as a query does.

use arbor_bson::{ArrayBuf, Doc, DocBuf, ValueRef};
use arbor_lang::{Context, Filter};
use arbor_protocol::log::iso8601;
use arbor_protocol::process;
use arbor_query::CursorInfo;
use arbor_session::OpenTransactionInfo;

use crate::call::Call;
use crate::{Commands, Result, session};

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    let (mut idle, mut own) = (false, false);
    let mut query = DocBuf::new();
    for (name, value) in call.own_fields() {
        match name {
            "$all" => idle = call.field(name).bool(value)?,
            "$ownOps" => {}
            _ => drop(query.append(name, value)),
        }
    }
    for (name, value) in call.body.iter().skip(1) {
        match name {
            "$all" => idle = call.field(name).bool(value)?,
            "$ownOps" => own = call.field(name).bool(value)?,
            _ => {}
        }
    }
    let user = own_user(call, own);
    let filter = Filter::parse(query.as_doc(), &Context::new(arbor_protocol::log::now_ms()))?;
    let mut listed = ArrayBuf::new();
    let idle = Idle { connections: idle, cursors: false, sessions: true, all_users: !own };
    for operation in shown(call.server, idle, user) {
        if filter.matches(operation.as_doc())? {
            listed.push(&operation);
        }
    }
    call.reply.append("inprog", &listed);
    if call.server.write_block.is_locked() {
        call.reply.append("fsyncLock", true);
        call.reply.append("info", "use db.fsyncUnlock() to terminate the fsync write/snapshot lock");
    }
    Ok(())
}

/// One document per operation; `$currentOp` answers the same.
fn operations(server: &Commands, idle: bool, user: Option<[u8; 32]>) -> Vec<DocBuf> {
    let mut operations = server.operations.list_of(&host(server), idle, user);
    let open = server.sessions.open_transactions();
    for operation in operations.iter_mut().filter(|_| !open.is_empty()) {
        let lsid = match operation.get("lsid") {
            Some(ValueRef::Document(lsid)) => lsid.to_buf(),
            _ => continue,
        };
        let of_session =
            |open: &&OpenTransactionInfo| open.active && open.session.to_doc().as_bytes() == lsid.as_bytes();
        if let Some(open) = open.iter().find(of_session) {
            operation.append("transaction", &transaction(server, open));
        }
    }
    operations
}

/// An open transaction, as operations and idle sessions show it.
fn transaction(server: &Commands, open: &OpenTransactionInfo) -> DocBuf {
    let mut parameters = DocBuf::new().with("txnNumber", open.number).with("autocommit", false);
    if let Some(concern) = Doc::trusted(&open.about).get("readConcern") {
        parameters.append("readConcern", concern);
    }
    let limit_ms = server.parameters.int("transactionLifetimeLimitSeconds").unwrap_or(60) * 1000;
    let micros = |time: std::time::Duration| time.as_micros() as i64;
    DocBuf::new()
        .with("parameters", &parameters)
        .with("startWallClockTime", &*iso8601(open.begun_wall))
        .with("timeOpenMicros", micros(open.open_for))
        .with("timeActiveMicros", micros(open.active_for))
        .with("timeInactiveMicros", micros(open.open_for.saturating_sub(open.active_for)))
        .with("expiryTime", &*iso8601(open.begun_wall + limit_ms))
}

/// A session with an open transaction of which nothing runs.
fn idle_session(server: &Commands, open: &OpenTransactionInfo) -> DocBuf {
    let mut doc = DocBuf::new().with("type", "idleSession").with("host", &host(server));
    for (name, value) in Doc::trusted(&open.about).iter().filter(|(name, _)| *name != "readConcern") {
        doc.append(name, value);
    }
    doc.with("lsid", &open.session.to_doc())
        .with("transaction", &transaction(server, open))
        .with("waitingForLock", false)
        .with("active", false)
        .with("locks", &DocBuf::new())
        .with("lockStats", &DocBuf::new())
}

/// Returns host and port of this server, as replies show them.
pub(crate) fn host(server: &Commands) -> String {
    format!("{}:{}", process::host_name(), server.options.port)
}

/// Options of `$currentOp` for showing more than running operations.
pub(crate) struct Idle {
    connections: bool,
    cursors: bool,
    /// Sessions with an open transaction.
    sessions: bool,
    /// Operations of all users.
    pub all_users: bool,
}

impl Idle {
    /// Running operations of all users, and nothing idle.
    pub(crate) fn none() -> Idle {
        Idle { connections: false, cursors: false, sessions: false, all_users: true }
    }
}

/// Returns the user whose operations alone are shown; None: those of all. Without access control users are not
/// distinguished.
pub(crate) fn own_user(call: &Call<'_>, own: bool) -> Option<[u8; 32]> {
    (own && call.server.accounts.enabled).then(|| call.server.session_user(call.connection))
}

/// Reads the options of the `$currentOp` stage.
pub(crate) fn idle_options(options: Doc<'_>) -> Result<Idle> {
    let mut idle = Idle { connections: false, cursors: false, sessions: true, all_users: false };
    for (name, value) in options {
        let field = arbor_protocol::arguments::Field::new("$currentOp", name);
        match name {
            "idleConnections" => idle.connections = field.strict_bool(value)?,
            "idleCursors" => idle.cursors = field.strict_bool(value)?,
            "idleSessions" => idle.sessions = field.strict_bool(value)?,
            "allUsers" => idle.all_users = field.strict_bool(value)?,
            "localOps" | "truncateOps" | "backtrace" | "targetAllNodes" => {
                field.strict_bool(value)?;
            }
            _ => return Err(field.unknown().into()),
        }
    }
    Ok(idle)
}

/// The documents of `$currentOp`.
pub(crate) fn shown(server: &Commands, idle: Idle, user: Option<[u8; 32]>) -> Vec<DocBuf> {
    let mut all = operations(server, idle.connections, user);
    if idle.sessions {
        let open = server.sessions.open_transactions();
        let own = open.iter().filter(|open| user.is_none_or(|user| open.session.user == user));
        all.extend(own.filter(|open| !open.active).map(|open| idle_session(server, open)));
    }
    if idle.cursors {
        let cursors = server
            .database
            .cursors
            .list()
            .into_iter()
            .filter(|cursor| !cursor.in_use && (user.is_none() || cursor.user == user));
        all.extend(cursors.map(|cursor| idle_cursor(server, &cursor)));
    }
    all
}

fn idle_cursor(server: &Commands, cursor: &CursorInfo) -> DocBuf {
    let last_use = arbor_protocol::log::now_ms() - cursor.idle.as_millis() as i64;
    let about = DocBuf::new()
        .with("cursorId", cursor.id)
        .with("lastAccessDate", ValueRef::DateTime(last_use))
        .with("noCursorTimeout", cursor.no_timeout);
    let mut doc = DocBuf::new().with("type", "idleCursor").with("host", &host(server));
    doc.append("ns", cursor.namespace.as_str());
    if let Some(session) = cursor.session.as_deref().and_then(session::from_bytes) {
        doc.append("lsid", &session.to_doc());
    }
    doc.with("cursor", &about)
}
