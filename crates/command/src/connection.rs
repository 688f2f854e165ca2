//! State of one client connection.

use std::sync::Arc;
use std::time::Instant;

use arbor_base::memory::Reservation;
use arbor_bson::DocBuf;
use arbor_protocol::CommandInfo;
use arbor_protocol::operation::{Slot, User};
use arbor_protocol::request::Numbered;
use arbor_protocol::transport::{News, Peer};
use arbor_repl::MemberId;
use arbor_session::Intent;
use arbor_wire::{ReplyTo, Scratch};

use crate::access::Login;
use crate::routing::Forwarded;
use crate::session::{CONNECTION, SessionId, rules};
use crate::usage::Usage;

pub struct Connection {
    pub(crate) peer: Peer,
    /// `conn12`, as log lines name it.
    pub(crate) name: String,
    pub(crate) slot: Arc<Slot>,
    pub(crate) login: Login,
    /// The user for whom a member of the cluster sends the request that runs.
    pub(crate) on_behalf: Option<User>,
    /// `hello` has sent the client's metadata.
    pub(crate) described: bool,
    pub(crate) scratch: Scratch,
    reply_id: i32,
    /// Session of the last request, and when it was last refreshed in [`Sessions`](crate::session::Sessions).
    pub(crate) session_touched: Option<(SessionId, Instant)>,
    pub(crate) stream: Option<Stream>,
    /// A request that is not answered yet.
    pub(crate) waiting: Option<Waiting>,
    /// Event that the request waits for, unless it is a change of the server's role.
    pub(crate) news: Option<News>,
    /// A request to another server whose reply completes the one that waits.
    pub(crate) sent: Option<Sent>,
    /// Reads that were done for the request before it began.
    pub(crate) read_first: Option<ReadFirst>,
    /// The cursor that had nothing to answer last time: asking it again takes no time.
    pub(crate) idle_cursor: Option<i64>,
    /// Reply of the last unacknowledged write, for `getLastError`.
    pub(crate) last_write: Option<LastWrite>,
    /// Memory of the last reply, until the network has reserved it too.
    pub reply_memory: Option<Reservation>,
    /// The collection of the last request that had one.
    pub(crate) last_used: Option<Arc<Usage>>,
    /// The transaction that `beginTransaction` began.
    pub(crate) bound: Option<Bound>,
    /// The member of the set that fetches by this connection.
    pub(crate) member: Option<MemberId>,
}

/// Reads that were done before a request began: their time is part of its time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadFirst {
    pub begun: Instant,
    pub bytes: u64,
}

/// A transaction that all statements of a connection are part of, as TokuMX had them: one of a session that only the
/// connection knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    pub session: SessionId,
    pub number: i64,
}

impl Bound {
    pub(crate) fn new() -> Bound {
        Bound { session: SessionId { id: uuid::Uuid::new_v4(), user: CONNECTION }, number: 1 }
    }

    /// Returns how a command of this connection takes part in the transaction; None: it runs outside it.
    pub(crate) fn part(self, info: &CommandInfo) -> Option<(SessionId, Numbered)> {
        let intent = match info.name {
            "commitTransaction" => Intent::Commit,
            "abortTransaction" | "rollbackTransaction" => Intent::Abort,
            "count" => Intent::Continue,
            name if rules::runs_in_transaction(name) => Intent::Continue,
            _ => return None,
        };
        Some((self.session, Numbered { number: self.number, intent }))
    }
}

/// A write whose reply was not sent.
#[derive(Clone, Default)]
pub(crate) struct LastWrite {
    pub inserts: bool,
    pub reply: DocBuf,
}

/// A request on its way to another server.
pub(crate) struct Sent {
    pub forwarded: Box<dyn Forwarded>,
    pub begun: Instant,
}

/// A request that waits for news, at the latest until then.
pub(crate) struct Waiting {
    pub request: Stream,
    pub may_stream: bool,
    pub until: Instant,
}

/// A `getMore` or a `hello` that is answered again and again without being asked (exhaustAllowed).
pub(crate) struct Stream {
    pub db: String,
    pub command: DocBuf,
    pub reply_to: ReplyTo,
}

impl Connection {
    pub(crate) fn new(peer: Peer, slot: Arc<Slot>) -> Connection {
        let name = format!("conn{}", peer.connection);
        Connection {
            peer,
            name,
            slot,
            login: Login::default(),
            on_behalf: None,
            described: false,
            scratch: Scratch::default(),
            reply_id: 0,
            session_touched: None,
            stream: None,
            waiting: None,
            news: None,
            sent: None,
            read_first: None,
            idle_cursor: None,
            last_write: None,
            reply_memory: None,
            last_used: None,
            bound: None,
            member: None,
        }
    }

    /// After [`After::Wait`](arbor_protocol::transport::After::Wait): what is to be waited for, when it is not [`Host::topology_changed`](crate::Host).
    pub fn take_news(&mut self) -> Option<News> {
        self.news.take()
    }

    /// Returns the digest of the user to whom cursors, sessions and operations of the request belong.
    pub(crate) fn user(&self) -> Option<[u8; 32]> {
        let own = self.login.user.as_ref().map(|user| user.digest);
        self.on_behalf.as_ref().map(|(digest, _)| *digest).or(own)
    }

    /// Returns the owner of the cursors and transactions that the connection opens, for their shares: its user, or the connection
    /// itself before a login. A user gets no larger share by more connections.
    pub(crate) fn owner(&self) -> u64 {
        const USERS: u64 = 1 << 63;
        let digest = self.user().and_then(|digest| digest.first_chunk::<8>().copied());
        digest.map_or(self.peer.connection, |digest| u64::from_le_bytes(digest) | USERS)
    }

    /// Returns true if a message of the connection was answered.
    pub(crate) fn has_spoken(&self) -> bool {
        self.reply_id > 0
    }

    /// Number of the next reply.
    pub(crate) fn next_reply_id(&mut self) -> i32 {
        self.reply_id = self.reply_id.wrapping_add(1) & i32::MAX;
        self.reply_id
    }
}
