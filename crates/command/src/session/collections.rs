//! `config.system.sessions`, `config.transactions` and `config.image_collection`: what the registry and the session journal
//! hold, as documents. They are read like collections and cannot be written.

use std::sync::Arc;

use arbor_bson::{DocBuf, Timestamp, ValueRef};
use arbor_protocol::log::now_ms;
use arbor_query::ServerCollections;
use arbor_session::{Ended, Listed, ReadRow};
use arbor_store::Namespace;
use arbor_txn::Transactions;

use super::{CONNECTION, Sessions, statements};

/// Rows of the journal that one statement reads.
const ROWS_MAX: usize = 1_000_000;

/// These collections, of a server.
pub(crate) struct SessionCollections {
    sessions: Arc<Sessions>,
    /// Only a member of a replica set has retryable writes.
    is_member: bool,
}

impl SessionCollections {
    pub(crate) fn new(sessions: Arc<Sessions>, transactions: &Transactions) -> SessionCollections {
        SessionCollections { sessions, is_member: transactions.retention().is_some() }
    }
}

impl ServerCollections for SessionCollections {
    fn has(&self, namespace: &Namespace) -> bool {
        let is_of_members = || matches!(namespace.as_str(), "config.transactions" | "config.image_collection");
        namespace.db() == "config"
            && (namespace.as_str() == "config.system.sessions" || self.is_member && is_of_members())
    }

    fn documents(&self, namespace: &Namespace) -> arbor_query::Result<Vec<DocBuf>> {
        debug_assert!(self.has(namespace), "{namespace} is a collection of the server");
        let rows = || self.sessions.rows(ROWS_MAX).map_err(unreadable);
        Ok(match namespace.as_str() {
            "config.transactions" => rows()?.iter().map(transaction).collect(),
            "config.image_collection" => rows()?.iter().filter_map(image).collect(),
            _ => sessions(&self.sessions, None),
        })
    }
}

fn unreadable(error: arbor_session::Error) -> arbor_query::Error {
    match error {
        arbor_session::Error::Txn(error) => error.into(),
        other => arbor_query::Error::new(other.code().unwrap_or(arbor_bson::Code::INTERNAL_ERROR), other.to_string()),
    }
}

/// Returns the sessions in use, as `$listSessions` has them; of these owners, or of all.
pub(crate) fn sessions(registry: &Sessions, owners: Option<&[[u8; 32]]>) -> Vec<DocBuf> {
    let now = now_ms();
    let shown = registry.all().into_iter().filter(|listed| listed.id.user != CONNECTION);
    let shown = shown.filter(|listed| owners.is_none_or(|owners| owners.contains(&listed.id.user)));
    let describe = |Listed { id, idle }: Listed| {
        DocBuf::new().with("_id", &id.to_doc()).with("lastUse", ValueRef::DateTime(now - idle.as_millis() as i64))
    };
    shown.map(describe).collect()
}

fn transaction(read: &ReadRow) -> DocBuf {
    let ReadRow { session, row } = read;
    let time = DocBuf::new().with("ts", time_of(row.wall)).with("t", 1i64);
    let doc = DocBuf::new()
        .with("_id", &session.to_doc())
        .with("txnNum", row.number)
        .with("lastWriteOpTime", &time)
        .with("lastWriteDate", ValueRef::DateTime(row.wall));
    match row.ended {
        Ended::Statements => doc,
        Ended::Committed => doc.with("state", "committed"),
    }
}

/// The document of the last findAndModify.
fn image(read: &ReadRow) -> Option<DocBuf> {
    let ReadRow { session, row } = read;
    let (image, after) = statements::image(row.last_answer()?)?;
    let doc = DocBuf::new()
        .with("_id", &session.to_doc())
        .with("txnNum", row.number)
        .with("ts", time_of(row.wall))
        .with("imageKind", if after { "postImage" } else { "preImage" })
        .with("image", &image)
        .with("invalidated", false);
    Some(doc)
}

/// The journal keeps when a row was written, not its place in the history.
fn time_of(wall: i64) -> ValueRef<'static> {
    ValueRef::Timestamp(Timestamp { seconds: (wall / 1000) as u32, increment: 1 })
}
