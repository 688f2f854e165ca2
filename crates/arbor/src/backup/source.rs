//! The server that is backed up.

use std::time::Duration;

use arbor_base::TreeId;
use arbor_bson::{DocBuf, ValueRef};
use arbor_client::{Client, ClientError, Options, Uri};
use arbor_member::RemotePeer;
use arbor_txn::fetch::{Begun, Peer, PeerError};

use super::manifest::Listed;
use super::{Error, Result};

const COMMAND: &str = "arborBackup";
/// A block of a slow disk takes its time.
const REPLY_TIMEOUT: Duration = Duration::from_secs(120);
/// Attempts for a block, with a second between them.
const TRIES: u32 = 30;

fn says(hello: &DocBuf, field: &str) -> bool {
    matches!(hello.get(field), Some(ValueRef::Bool(true)))
}

pub(super) struct Source {
    pub address: String,
    peer: RemotePeer,
}

/// The state that the server holds for a backup.
pub(super) struct State {
    pub begun: Begun,
    pub deployment: String,
    pub set: Option<String>,
    pub host: String,
    pub version: String,
    pub home: String,
    pub collections: Vec<Listed>,
}

/// The log of the server behind a position.
pub(super) enum LogAnswer {
    Block(Vec<u8>),
    Nothing,
    Trimmed {
        first: u64,
    },
    /// It is not the log that was archived.
    Differs,
}

impl Source {
    /// The first host, or of several the first secondary, else the primary.
    pub(super) fn choose(uri: &str) -> Result<Source> {
        let uri = Uri::parse(uri).map_err(|error| Error::Refused(format!("--uri: {error}")))?;
        let mut options = uri.options();
        options.app_name = "arbor backup".to_owned();
        Source::among(&uri.addresses, &options)
    }

    /// The first of the addresses, or of several the first secondary, else the primary.
    pub(super) fn among(addresses: &[String], options: &Options) -> Result<Source> {
        let options = Options { timeout: options.timeout.or(Some(REPLY_TIMEOUT)), ..options.clone() };
        let (mut other, mut reason) = (None, None);
        for address in addresses {
            let hello = |mut client: Client| -> std::result::Result<DocBuf, ClientError> {
                Ok(client.command("admin", &DocBuf::new().with("hello", 1))?.doc.to_buf())
            };
            match Client::connect_with(address, options.clone()).and_then(hello) {
                Ok(hello) if says(&hello, "secondary") => {
                    return Ok(Source::of(address, options));
                }
                Ok(hello) => {
                    let is_usable = addresses.len() == 1 || says(&hello, "isWritablePrimary");
                    other = other.or(is_usable.then(|| address.clone()));
                }
                Err(error) => reason = Some(format!("{address}: {error}")),
            }
        }
        match other {
            Some(address) => Ok(Source::of(&address, options)),
            None => Err(Error::Refused(reason.unwrap_or_else(|| "no host is a primary or secondary".to_owned()))),
        }
    }

    fn of(address: &str, options: Options) -> Source {
        let own = address.to_owned();
        let connect = Box::new(move || Client::connect_with(&own, options.clone()));
        Source { address: address.to_owned(), peer: RemotePeer::over(address, COMMAND, connect) }
    }

    pub(super) fn begin(&self) -> Result<State> {
        let (begun, reply) = self.peer.begin_described().map_err(|error| Error::Refused(error.to_string()))?;
        let text = |name: &str| match reply.get(name) {
            Some(ValueRef::String(text)) => Some(text.to_owned()),
            _ => None,
        };
        let needed =
            |name: &str| text(name).ok_or_else(|| Error::Refused(format!("{}: the reply has no {name}", self.address)));
        let mut collections = Vec::new();
        if let Some(ValueRef::Array(listed)) = reply.get("collections") {
            for listed in listed.iter() {
                let ValueRef::Document(listed) = listed else { continue };
                let text = |name: &str| match listed.get(name) {
                    Some(ValueRef::String(text)) => Some(text.to_owned()),
                    _ => None,
                };
                let indexes = match listed.get("indexes") {
                    Some(ValueRef::Int32(indexes)) => Some(indexes),
                    _ => None,
                };
                let ns = text("ns").unwrap_or_default();
                collections.push(Listed { ns, uuid: text("uuid"), engine: text("engine"), indexes });
            }
        }
        let (deployment, host) = (needed("deployment")?, needed("host")?);
        let (version, home) = (needed("version")?, needed("home")?);
        Ok(State { begun, deployment, set: text("set"), host, version, home, collections })
    }

    /// Asks for the log behind a position. Errors: the server cannot be reached, or is not of the deployment.
    pub(super) fn log_behind(
        &self,
        hold: Option<u64>,
        after: u64,
        epoch: Option<u64>,
        deployment: &str,
    ) -> Result<(Option<u64>, LogAnswer)> {
        let mut command = DocBuf::new().with(COMMAND, 1).with("logAfter", after as i64);
        for (name, value) in [("hold", hold), ("epoch", epoch)] {
            if let Some(value) = value {
                command.append(name, value as i64);
            }
        }
        let reply = self.peer.ask(&command).map_err(|error| Error::Refused(error.to_string()))?;
        match reply.get("deployment") {
            Some(ValueRef::String(own)) if own == deployment => {}
            _ => {
                let text = format!("{} is another deployment than that of the backups (id {deployment})", self.address);
                return Err(Error::Refused(text));
            }
        }
        let number = |name: &str| match reply.get(name) {
            Some(ValueRef::Int64(number)) => u64::try_from(number).ok(),
            _ => None,
        };
        let answer = match (reply.get("block"), number("trimmed"), reply.get("differs")) {
            (Some(ValueRef::Binary { bytes, .. }), ..) => LogAnswer::Block(bytes.to_vec()),
            (_, Some(first), _) => LogAnswer::Trimmed { first },
            (_, _, Some(_)) => LogAnswer::Differs,
            _ => LogAnswer::Nothing,
        };
        Ok((number("hold"), answer))
    }

    /// Tries again when the connection breaks: the snapshot is held for minutes.
    /// Also returns for how long the server wants requests to rest.
    pub(super) fn block(&self, snapshot: u64, tree: TreeId, after: Option<&[u8]>) -> Result<(Vec<u8>, Duration)> {
        let mut tries = 0;
        loop {
            tries += 1;
            match self.peer.block_and_rest(snapshot, tree, after) {
                Ok(block) => return Ok(block),
                Err(PeerError::Failed(_)) if tries < TRIES => std::thread::sleep(Duration::from_secs(1)),
                Err(PeerError::Expired) => {
                    let text = "the server does not hold the state of this backup any more (it was restarted, or was not asked for long)";
                    return Err(Error::Refused(format!("{}: {text}", self.address)));
                }
                Err(error) => return Err(Error::Refused(format!("{}: {error}", self.address))),
            }
        }
    }

    pub(super) fn end(&self, snapshot: u64) {
        self.peer.end(snapshot);
    }
}
