//! Trees that come past the log (rule R10): a follower fetches what its primary offers, and what the log refers to.
//!
//! Another member is reached by the command `_arborTree`, over a connection of its own.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use arbor_base::{Position, TreeId};
use arbor_bson::{Doc, DocBuf, ValueRef};
use arbor_client::{Client, ClientError};
use arbor_txn::fetch::{Begun, Peer, PeerError, TreeFacts};
use arbor_txn::{Transactions, TreeOptions};
use parking_lot::Mutex;

use crate::dial::Dialer;
use crate::shown::Server;

/// Name of the command.
const COMMAND: &str = "_arborTree";

/// A block of a slow disk takes its time.
const REPLY_TIMEOUT: Duration = Duration::from_secs(60);

/// Time after a failed fetch: the next offer comes soon.
const RETRY: Duration = Duration::from_millis(500);

/// Longest rest that a server may ask for: it forgets a snapshot that is not used for longer.
const REST_MAX: Duration = Duration::from_secs(60);

/// Loads that a primary offers; and those that are missing are to be fetched from it.
pub(crate) struct Offer {
    pub host: String,
    pub loads: Vec<u64>,
}

/// Fetches what is offered, one offer after the other.
pub(crate) fn fetch(
    transactions: &Transactions,
    dialer: &Dialer,
    work: &Receiver<Offer>,
    stopped: &AtomicBool,
    server: &dyn Server,
) {
    let mut last_failed = false;
    let is_stopped = || stopped.load(Ordering::Relaxed);
    while let Ok(Offer { host, loads }) = work.recv() {
        let peer = RemotePeer::new(&host, dialer);
        let fetched = transactions
            .fetch_offered(&loads, &peer, &is_stopped)
            .and_then(|_offered| transactions.fetch_missing(&peer, &is_stopped));
        if is_stopped() {
            return;
        }
        // The primary may have changed, or be away; it waits, and offers again.
        if let Err(error) = &fetched {
            if !last_failed {
                server.fetch_failed(&host, &error.to_string());
            }
            std::thread::sleep(RETRY);
        }
        last_failed = fetched.is_err();
    }
}

/// Connects to the server that a [`RemotePeer`] is.
pub type Connect = Box<dyn Fn() -> Result<Client, ClientError> + Send + Sync>;

/// Another server as the source of trees.
pub struct RemotePeer {
    host: String,
    /// `_arborTree`, or one with the same fields.
    command: &'static str,
    connect: Connect,
    connection: Mutex<Option<Client>>,
}

impl RemotePeer {
    pub(crate) fn new(host: &str, dialer: &Dialer) -> RemotePeer {
        let (dialer, address) = (dialer.clone(), host.to_owned());
        RemotePeer::over(host, COMMAND, Box::new(move || dialer.connect(&address, REPLY_TIMEOUT)))
    }

    /// A server that answers `command` as members answer `_arborTree`.
    pub fn over(host: &str, command: &'static str, connect: Connect) -> RemotePeer {
        RemotePeer { host: host.to_owned(), command, connect, connection: Mutex::new(None) }
    }

    /// Like [`Peer::begin`], with the whole reply.
    pub fn begin_described(&self) -> Result<(Begun, DocBuf), PeerError> {
        let reply = self.ask(&DocBuf::new().with(self.command, 1).with("begin", true))?;
        let state = begun(reply.as_doc());
        let state = state.ok_or_else(|| PeerError::Failed(format!("{}: the reply is no state", self.host)))?;
        Ok((state, reply))
    }

    /// Like [`Peer::block`], with the time for which the server wants requests to rest.
    pub fn block_and_rest(
        &self,
        snapshot: u64,
        tree: TreeId,
        after: Option<&[u8]>,
    ) -> Result<(Vec<u8>, Duration), PeerError> {
        let mut command =
            DocBuf::new().with(self.command, 1).with("snapshot", snapshot as i64).with("tree", tree.0 as i64);
        if let Some(bytes) = after {
            command.append("after", ValueRef::Binary { subtype: 0, bytes });
        }
        let reply = self.ask(&command)?;
        let rest = Duration::from_micros(number(reply.as_doc(), "restMicros").unwrap_or(0)).min(REST_MAX);
        match (reply.get("block"), reply.get("noTree"), reply.get("expired")) {
            (Some(ValueRef::Binary { bytes, .. }), ..) => Ok((bytes.to_vec(), rest)),
            (None, Some(_), _) => Err(PeerError::NoTree(tree)),
            (None, None, Some(_)) => Err(PeerError::Expired),
            _ => Err(PeerError::Failed(format!("{}: the reply has no block", self.host))),
        }
    }

    /// Sends a command. Connects first if the last request failed.
    pub fn ask(&self, command: &DocBuf) -> Result<DocBuf, PeerError> {
        let failed = |error: arbor_client::ClientError| PeerError::Failed(format!("{}: {error}", self.host));
        let mut connection = self.connection.lock();
        let mut client = match connection.take() {
            Some(client) => client,
            None => (self.connect)().map_err(failed)?,
        };
        let reply = client.command("admin", command).map_err(failed)?.doc.to_buf();
        *connection = Some(client);
        Ok(reply)
    }
}

fn number(doc: Doc<'_>, name: &str) -> Option<u64> {
    match doc.get(name) {
        Some(ValueRef::Int64(number)) => u64::try_from(number).ok(),
        Some(ValueRef::Int32(number)) => u64::try_from(number).ok(),
        _ => None,
    }
}

fn begun(doc: Doc<'_>) -> Option<Begun> {
    let Some(ValueRef::Array(listed)) = doc.get("trees") else { return None };
    let mut trees = Vec::new();
    for tree in listed.iter() {
        let ValueRef::Document(tree) = tree else { return None };
        let Some(ValueRef::Array(settings)) = tree.get("settings") else { return None };
        let texts: Vec<String> = settings
            .iter()
            .map(|setting| match setting {
                ValueRef::String(text) => Some(text.to_owned()),
                _ => None,
            })
            .collect::<Option<_>>()?;
        let pair = |pair: &[String]| Some((pair.first()?.clone(), pair.get(1)?.clone()));
        let settings = texts.chunks_exact(2).filter_map(pair).collect();
        let (id, rows) = (TreeId(number(tree, "tree")?), number(tree, "rows")?);
        trees.push(TreeFacts { tree: id, options: TreeOptions { settings }, rows });
    }
    let (position, time) = (Position(number(doc, "position")?), number(doc, "time")?);
    Some(Begun { snapshot: number(doc, "snapshot")?, position, epoch: number(doc, "epoch")?, time, trees })
}

impl Peer for RemotePeer {
    fn begin(&self) -> Result<Begun, PeerError> {
        self.begin_described().map(|(begun, _)| begun)
    }

    fn block(&self, snapshot: u64, tree: TreeId, after: Option<&[u8]>) -> Result<Vec<u8>, PeerError> {
        self.block_and_rest(snapshot, tree, after).map(|(block, _)| block)
    }

    fn end(&self, snapshot: u64) {
        let command = DocBuf::new().with(self.command, 1).with("snapshot", snapshot as i64).with("end", true);
        // It expires in any case.
        let _expires = self.ask(&command);
    }
}
