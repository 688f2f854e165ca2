//! A request in the one shape, and what the log shows of it.

use std::time::Instant;

use arbor_bson::{Doc, DocBuf, ValueRef};
use arbor_protocol::metrics::Kind;
use arbor_wire::{ReplyTo, Sequence};

/// A request in the one shape, whichever way it came.
pub(crate) struct Incoming<'r> {
    pub db: &'r str,
    pub body: Doc<'r>,
    pub sequences: &'r [Sequence<'r>],
    pub reply_to: ReplyTo,
    pub may_stream: bool,
    /// It waited for news, at the latest until then.
    pub waited_until: Option<Instant>,
}

/// Returns a command without its secrets, for the log and for `currentOp`.
pub(crate) fn hidden(body: Doc<'_>) -> DocBuf {
    body.iter()
        .map(|(name, value)| (name, if SECRET.contains(&name) { ValueRef::String("xxx") } else { value }))
        .collect()
}

/// Fields whose values are shown to no client.
const SECRET: &[&str] = &["pwd", "payload", "key", "speculativeAuthenticate"];

pub(crate) fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Insert => "insert",
        Kind::Query => "query",
        Kind::Update => "update",
        Kind::Delete => "remove",
        Kind::GetMore => "getmore",
        Kind::Command => "command",
    }
}
