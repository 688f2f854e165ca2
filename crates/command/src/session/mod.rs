//! Logical sessions as commands see them: who sends a request, and the transaction or the retryable write that it is part of.
//!
//! | file | what |
//! |---|---|
//! | `request` | the fields `lsid`, `txnNumber`, `autocommit`, `startTransaction`, and what they may be together |
//! | `rules` | what may run inside a transaction |
//! | `in_session` | [`InSession`]: one command with its session, from before it runs to after it |
//! | `statements` | statements of retryable writes, and their answers as bytes |
//! | `labels` | error labels |
//! | `collections` | `config.transactions` and its like, which are views of the session journal |
//! | `upkeep` | what is done now and then: transactions and sessions that have expired |

pub mod collections;
mod in_session;
pub mod labels;
pub mod request;
pub mod rules;
pub mod statements;
mod upkeep;

use std::time::Duration;

pub use arbor_session::{SESSIONS_MAX, SessionId, TIMEOUT};
pub use in_session::{InSession, Work};

/// All sessions of this server.
pub type Sessions = arbor_session::Sessions<Work>;

/// A connection tells about its session again after this time, so that requests do not meet at a lock.
pub const REFRESH: Duration = Duration::from_secs(60);

/// The digest of the user of whom nothing is known: SHA-256 of nothing.
pub const NOBODY: [u8; 32] = [
    0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24, 0x27, 0xae, 0x41,
    0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
];

/// The digest of sessions that belong to a connection (TokuMX's transactions) and are shown to nobody.
pub const CONNECTION: [u8; 32] = [0; 32];

/// A session as cursors carry it.
pub fn bytes(id: SessionId) -> Vec<u8> {
    [id.id.as_bytes(), &id.user[..]].concat()
}

/// The session in [`bytes`].
pub fn from_bytes(bytes: &[u8]) -> Option<SessionId> {
    let (id, user) = bytes.split_first_chunk::<16>()?;
    Some(SessionId { id: uuid::Uuid::from_bytes(*id), user: user.try_into().ok()? })
}
