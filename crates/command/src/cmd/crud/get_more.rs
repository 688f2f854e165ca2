//! `getMore`.

use std::time::{Duration, Instant};

use arbor_bson::{Code, ValueRef};
use arbor_protocol::arguments::is_present;
use arbor_protocol::metrics::Kind;
use arbor_query::BatchLimit;
use arbor_store::Namespace;

use crate::call::Call;
use crate::cmd::shared::cursor_reply::answer_batch;
use crate::{Error, Result, session};

/// Time for which a batch waits for documents if the client names none.
const PATIENCE: Duration = Duration::from_secs(1);

/// Errors behind which a driver opens its change stream again where it was.
const RESUMABLE: &[Code] = &[
    Code::HOST_UNREACHABLE,
    Code::SHUTDOWN_IN_PROGRESS,
    Code::PRIMARY_STEPPED_DOWN,
    Code::RETRY_CHANGE_STREAM,
    Code::NOT_WRITABLE_PRIMARY,
    Code::INTERRUPTED_AT_SHUTDOWN,
    Code::INTERRUPTED_DUE_TO_REPL_STATE_CHANGE,
    Code::NOT_PRIMARY_NO_SECONDARY_OK,
    Code::NOT_PRIMARY_OR_SECONDARY,
    // this server makes none of these; fail points do
    Code::HOST_NOT_FOUND,
    Code::STALE_SHARD_VERSION,
    Code::NETWORK_TIMEOUT,
    Code::FAILED_TO_SATISFY_READ_PREFERENCE,
    Code::STALE_EPOCH,
    Code::EXCEEDED_TIME_LIMIT,
    Code::SOCKET_EXCEPTION,
    Code::STALE_CONFIG,
];

/// Errors that end a change stream for good.
const NOT_RESUMABLE: &[Code] = &[Code::CHANGE_STREAM_FATAL_ERROR, Code::CHANGE_STREAM_HISTORY_LOST];

/// Adds the label that says to drivers whether a change stream can be resumed to the error of a command of this kind. COMPAT:
/// errors of other cursors carry it as well, without effect.
pub(crate) fn labelled(kind: Kind, mut error: Error) -> Error {
    if NOT_RESUMABLE.contains(&error.code) {
        error.labels.push("NonResumableChangeStreamError".to_owned());
    }
    if kind == Kind::GetMore && RESUMABLE.contains(&error.code) {
        error.labels.push("ResumableChangeStreamError".to_owned());
    }
    error
}

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    let (id, namespace, limit) = parse(call)?;
    let server = call.server;
    check_session(call, id)?;
    let waited = call.waited_until;
    let mut cursor = match server.database.cursors.check_out(id, &namespace) {
        // it was there when the wait began
        Err(_) if waited.is_some() => return Err(Error::new(Code::CURSOR_KILLED, "cursor killed")),
        cursor => cursor?,
    };
    if let Some(code) = server.fail_points.on_get_more() {
        return Err(Error::new(code, "Hit the 'failGetMoreAfterCursorCheckout' failpoint"));
    }
    let awaits = cursor.cursor().await_for(call.generic.max_time);
    if call.body.get("maxTimeMS").is_some_and(is_present) && !awaits {
        cursor.keep();
        return Err(Error::bad_value("cannot set maxTimeMS on getMore command for a non-awaitData cursor"));
    }
    if server.time_limit(cursor.cursor().time_left()).1 {
        return Err(arbor_query::Error::TimeExpired.into());
    }
    let batch = cursor.cursor().next_batch(limit, &call.interrupt);
    let batch = batch.map_err(|error| Error::from(error).during("Executor error during getMore"))?;
    let is_empty = batch.docs.is_empty() && !batch.exhausted;
    if let Some(woken) = cursor.cursor().woken().filter(|_| is_empty) {
        call.interrupt.check()?;
        let until = waited.unwrap_or_else(|| Instant::now() + call.generic.max_time.unwrap_or(PATIENCE));
        if Instant::now() < until {
            cursor.keep();
            call.wait_until = Some(until);
            call.connection.news = Some(Box::pin(woken));
            return Ok(());
        }
    }
    call.connection.idle_cursor = is_empty.then_some(id);
    let resume = cursor.cursor().resume_token();
    let id = if batch.exhausted { 0 } else { id };
    if id != 0 {
        cursor.keep();
    }
    answer_batch(call, "nextBatch", batch, id, namespace.as_str(), resume);
    Ok(())
}

fn parse(call: &Call<'_>) -> Result<(i64, Namespace, BatchLimit)> {
    let id = match call.target() {
        ValueRef::Int64(id) => id,
        other => return Err(call.field("getMore").wrong_type(other, "long").into()),
    };
    let (mut collection, mut limit) = (None, BatchLimit::more());
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        match name {
            "collection" => collection = Some(field.string(value)?),
            "batchSize" => {
                if let size @ 1.. = field.unsigned(value)? {
                    limit = BatchLimit::docs(size as usize);
                }
            }
            "term" | "lastKnownCommittedOpTime" => {}
            _ => return Err(field.unknown().into()),
        }
    }
    let collection = collection.ok_or_else(|| call.field("collection").missing())?;
    Ok((id, Namespace::new(call.db, collection)?, limit))
}

/// A cursor belongs to the session that made it, and to the transaction.
fn check_session(call: &Call<'_>, id: i64) -> Result<()> {
    let Some(owner) = call.database().cursors.options(id) else { return Ok(()) };
    let own = call.cursor_owner();
    if call.server.accounts.enabled && owner.user != own.user {
        let text = format!("cursor id {id} was not created by the authenticated user");
        return Err(Error::new(Code::UNAUTHORIZED, text));
    }
    let shown =
        |session: &[u8]| session::from_bytes(session).map_or_else(String::new, |session| session.id.to_string());
    let refused =
        |code, text: String| Err(Error::new(Code(code), format!("Cannot run getMore on cursor {id}, {text}")));
    match (&owner.session, &own.session) {
        (None, Some(own)) if call.session.is_some() => {
            return refused(50736, format!("which was not created in a session, in session {}", shown(own)));
        }
        (Some(owner), None) => {
            return refused(50737, format!("which was created in session {}, without an lsid", shown(owner)));
        }
        (Some(owner), Some(own)) if owner != own => {
            let text = format!("which was created in session {}, in session {}", shown(owner), shown(own));
            return refused(50738, text);
        }
        _ => {}
    }
    match (owner.transaction, own.transaction) {
        (None, Some(own)) => refused(50739, format!("which was not created in a transaction, in transaction {own}")),
        (Some(owner), None) => refused(50740, format!("which was created in transaction {owner}, without a txnNumber")),
        (Some(owner), Some(own)) if owner != own => {
            refused(50741, format!("which was created in transaction {owner}, in transaction {own}"))
        }
        _ => Ok(()),
    }
}
