//! Logical sessions as commands see them: who sends a request, and the transaction or the retryable write that it is part of.
//!
//! | file | what |
//! |---|---|
//! | `rules` | what may run inside a transaction |
//! | `in_session` | [`InSession`]: one command with its session, from before it runs to after it |
//! | `statements` | statements of retryable writes, and their answers as bytes |
//! | `collections` | `config.transactions` and its like, which are views of the session journal |
//! | `upkeep` | what is done now and then: transactions and sessions that have expired |
//! | `remembered` | statements that routers run in transactions of their own |
//! | `two_phase` | transactions over several shards: prepare, decision, recovery |
pub(crate) mod collections;
mod in_session;
pub(crate) mod remembered;
pub(crate) mod rules;
pub(crate) mod statements;
pub(crate) mod two_phase;
mod upkeep;

use std::time::Duration;

pub(crate) use arbor_session::{SESSIONS_MAX, SessionId, TIMEOUT};
pub(crate) use in_session::{InSession, Work};

/// All sessions of this server.
pub(crate) type Sessions = arbor_session::Sessions<Work>;

/// A connection refreshes its session again after this time, so that requests do not contend for a lock.
pub(crate) const REFRESH: Duration = Duration::from_secs(60);

/// User digest of sessions that belong to a connection (TokuMX's transactions); they are never listed.
pub(crate) const CONNECTION: [u8; 32] = [0; 32];

/// A session as cursors carry it.
pub(crate) fn bytes(id: SessionId) -> Vec<u8> {
    [id.id.as_bytes(), &id.user[..]].concat()
}

/// The session in [`bytes`].
pub(crate) fn from_bytes(bytes: &[u8]) -> Option<SessionId> {
    let (id, user) = bytes.split_first_chunk::<16>()?;
    Some(SessionId { id: uuid::Uuid::from_bytes(*id), user: user.try_into().ok()? })
}
