//! Errors of the client.

use arbor_bson::{Doc, DocBuf, ValueRef};
use arbor_wire::Fault;

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("protocol: {0}")]
    Protocol(String),
    #[error("frame: {0}")]
    Frame(String),
    #[error("connection string: {0}")]
    Uri(String),
    /// Reason why a TLS connection failed, with the option that may help.
    #[error("TLS: {0}")]
    Tls(String),
    /// `user` is named with the database that knows it; `code` is the server's, when it was the server that refused.
    #[error("authentication failed for user {user}: {reason}")]
    Authentication { user: String, reason: String, code: Option<i32> },
    /// The server's own error; the connection stays good.
    #[error("{message} (code {code})")]
    Command { code: i32, message: String, reply: DocBuf },
}

impl From<Fault> for ClientError {
    fn from(fault: Fault) -> ClientError {
        ClientError::Frame(fault.to_string())
    }
}

impl ClientError {
    pub(crate) fn command(reply: Doc<'_>) -> ClientError {
        let code = match reply.get("code") {
            Some(ValueRef::Int32(code)) => code,
            Some(ValueRef::Int64(code)) => code as i32,
            Some(ValueRef::Double(code)) => code as i32,
            _ => 0,
        };
        let message = match reply.get("errmsg") {
            Some(ValueRef::String(message)) => message.to_owned(),
            _ => format!("{reply:?}"),
        };
        ClientError::Command { code, message, reply: reply.to_buf() }
    }

    /// MongoDB's number, for an error the server answered.
    pub fn code(&self) -> Option<i32> {
        match self {
            ClientError::Command { code, .. } => Some(*code),
            ClientError::Authentication { code, .. } => *code,
            _ => None,
        }
    }

    /// The connection is still usable.
    pub fn is_answer(&self) -> bool {
        matches!(self, ClientError::Command { .. })
    }
}
