//! The commands between members: `_arborMember`, with one of these fields besides the name of the set.
//!
//! | field | what |
//! |---|---|
//! | `message` | a message of the state machine; the reply to a fetch comes with the reply, after a while if there is no news |
//! | `probe` | who is there: whether it is initiated and empty, and its data's identity |
//! | `join` | the agreement of the set that the receiver is to be a member of, and its version |

use std::time::Duration;

use arbor_bson::{Doc, DocBuf, ValueRef};
use arbor_client::ClientError;
use arbor_repl::{Agreement, Version};

use crate::dial::Dialer;

const TIMEOUT: Duration = Duration::from_secs(5);

/// Name of the command.
pub const COMMAND: &str = "_arborMember";

/// A request to a member.
#[derive(Clone, Debug)]
pub enum Ask {
    Probe,
    Join(Version, Agreement),
}

impl Ask {
    pub fn to_command(&self, set: &str) -> DocBuf {
        let command = DocBuf::new().with(COMMAND, 1).with("set", set);
        match self {
            Ask::Probe => command.with("probe", true),
            Ask::Join(version, agreement) => {
                let join = DocBuf::new().with("version", version.0 as i64).with("agreement", &agreement.to_doc());
                command.with("join", &join)
            }
        }
    }

    /// Reads the field `join`.
    pub fn join(doc: Doc<'_>) -> Option<(Version, Agreement)> {
        let ValueRef::Int64(version) = doc.get("version")? else { return None };
        let ValueRef::Document(agreement) = doc.get("agreement")? else { return None };
        Some((Version(u64::try_from(version).ok()?), Agreement::from_doc(agreement)?))
    }
}

/// Sends one request over a connection of its own, and returns the reply.
pub fn ask(host: &str, set: &str, request: &Ask, dialer: &Dialer) -> Result<DocBuf, ClientError> {
    let mut client = dialer.connect(host, TIMEOUT)?;
    Ok(client.command("admin", &request.to_command(set))?.doc.to_buf())
}

/// The command that carries a message of the state machine.
pub(crate) fn carry(set: &str, envelope: &[u8]) -> DocBuf {
    DocBuf::new().with(COMMAND, 1).with("set", set).with("message", ValueRef::Binary { subtype: 0, bytes: envelope })
}
