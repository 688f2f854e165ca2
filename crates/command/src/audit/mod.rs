//! The audit: one document for each event that concerns security, in MongoDB's form, to a file or to standard output.
//!
//! | file | contents |
//! |---|---|
//! | `writer` | the thread that writes, and its queue |
//! | `commands` | which commands are events, and what is noted of them |
//!
//! `{atype, ts, uuid, local, remote, users, roles, param, result}`; `uuid` names the connection, `result` is the code of the error, or 0.
//!
//! Requests do not wait for the file: an event that finds the queue full is lost and counted (`serverStatus().audit.lost`), and so is one
//! that cannot be written.

mod commands;
mod writer;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::{fmt, io};

use arbor_bson::{ArrayBuf, Code, Doc, DocBuf, ValueRef, extjson};
use arbor_lang::{Context, Filter};
use arbor_protocol::log::now_ms;
use arbor_protocol::transport::Peer;
use uuid::Uuid;

use self::writer::Writer;
use crate::access::Identity;
use crate::{Commands, Connection, Error};

/// Settings of the audit.
#[derive(Clone, Debug, Default)]
pub struct AuditOptions {
    /// None: standard output.
    pub path: Option<PathBuf>,
    /// Documents one after another, in place of a line of JSON for each.
    pub bson: bool,
    /// Chooses the events; None: all.
    pub filter: Option<DocBuf>,
}

pub struct Audit {
    bson: bool,
    filter: Option<Filter>,
    /// Requests that were permitted are events as well (`auditAuthorizationSuccess`).
    successes: AtomicBool,
    writer: Writer,
    /// Part of the names of connections.
    process: u64,
    events: AtomicU64,
}

impl fmt::Debug for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Audit").field("events", &self.events).finish_non_exhaustive()
    }
}

impl Audit {
    /// Opens the file and starts the thread that writes. Errors: the file cannot be opened, or the filter is none.
    pub fn open(options: AuditOptions) -> Result<Audit, String> {
        let filter = options.filter.as_ref().map(|filter| Filter::parse(filter.as_doc(), &Context::new(now_ms())));
        let filter = filter.transpose().map_err(|error| format!("auditLog.filter: {}", Error::from(error).message))?;
        let path = options.path.clone().map_or_else(|| "standard output".to_owned(), |path| path.display().to_string());
        let writer = Writer::start(options.path).map_err(|error| format!("auditLog.path {path}: {error}"))?;
        Ok(Audit {
            bson: options.bson,
            filter,
            successes: AtomicBool::new(false),
            writer,
            process: rand::random(),
            events: AtomicU64::new(0),
        })
    }

    pub(crate) fn set_successes(&self, successes: bool) {
        self.successes.store(successes, Ordering::Relaxed);
    }

    /// Returns true if requests that were permitted are events.
    pub(crate) fn has_successes(&self) -> bool {
        self.successes.load(Ordering::Relaxed)
    }

    /// Moves the file away and begins a new one, behind all events so far.
    pub(crate) fn rotate(&self) -> io::Result<()> {
        self.writer.rotate()
    }

    /// Writes what is left. No event follows.
    pub fn close(&self) {
        self.writer.close();
    }

    /// Returns what `serverStatus` shows.
    pub(crate) fn statistics(&self) -> DocBuf {
        DocBuf::new()
            .with("events", self.events.load(Ordering::Relaxed) as i64)
            .with("written", self.writer.written() as i64)
            .with("lost", self.writer.lost() as i64)
    }

    /// Notes an event; `peer` and `user` are missing for those of the server itself.
    fn note(&self, kind: &str, peer: Option<&Peer>, user: Option<&Identity>, param: &DocBuf, result: Code) {
        let doc = self.event(kind, peer, user, param, result);
        if !self.wants(doc.as_doc()) {
            return;
        }
        self.events.fetch_add(1, Ordering::Relaxed);
        let bytes = match self.bson {
            true => doc.as_bytes().to_vec(),
            false => format!("{}\n", extjson::doc(doc.as_doc(), extjson::Form::Relaxed)).into_bytes(),
        };
        self.writer.write(bytes);
    }

    /// A filter that fails on an event lets it pass.
    fn wants(&self, event: Doc<'_>) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.matches(event).unwrap_or(true))
    }

    fn event(&self, kind: &str, peer: Option<&Peer>, user: Option<&Identity>, param: &DocBuf, result: Code) -> DocBuf {
        let connection = Uuid::from_u64_pair(self.process, peer.map_or(0, |peer| peer.connection));
        let (mut users, mut roles) = (ArrayBuf::new(), ArrayBuf::new());
        if let Some(user) = user {
            users.push(&user.name.to_doc());
            user.granted.roles.iter().chain(user.is_system().then_some(&user.roles).into_iter().flatten()).for_each(
                |role| {
                    roles.push(&role.to_doc());
                },
            );
        }
        let (local, remote) = ends(peer);
        DocBuf::new()
            .with("atype", kind)
            .with("ts", ValueRef::DateTime(now_ms()))
            .with("uuid", ValueRef::Binary { subtype: 4, bytes: connection.as_bytes() })
            .with("local", &local)
            .with("remote", &remote)
            .with("users", &users)
            .with("roles", &roles)
            .with("param", param)
            .with("result", result.0)
    }
}

/// Returns both ends of a connection.
fn ends(peer: Option<&Peer>) -> (DocBuf, DocBuf) {
    let Some(peer) = peer else {
        let own = DocBuf::new().with("isSystemUser", true);
        return (own.clone(), own);
    };
    if let Some(path) = &peer.unix {
        return (DocBuf::new().with("unix", &**path), DocBuf::new().with("unix", "anonymous"));
    }
    let end = |address: std::net::SocketAddr| {
        DocBuf::new().with("ip", &address.ip().to_string()).with("port", i32::from(address.port()))
    };
    (end(peer.local), end(peer.remote))
}

impl Commands {
    /// Notes an event of a connection, if there is an audit. `param` is made only then.
    pub(crate) fn audit(&self, connection: &Connection, kind: &str, result: Code, param: impl FnOnce() -> DocBuf) {
        if let Some(audit) = &self.audit {
            audit.note(kind, Some(&connection.peer), connection.login.user.as_deref(), &param(), result);
        }
    }

    /// Notes the start of the server.
    pub fn audit_start(&self) {
        if let Some(audit) = &self.audit {
            audit.note("startup", None, None, &DocBuf::new().with("options", &self.options.parsed), Code(0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(audit: &Audit, kind: &str, db: &str) -> DocBuf {
        let address = "127.0.0.1:5".parse().unwrap();
        let peer = Peer::new(7, address, address, 1);
        audit.event(kind, Some(&peer), Some(&Identity::system()), &DocBuf::new().with("db", db), Code::UNAUTHORIZED)
    }

    #[test]
    fn events_have_mongodbs_fields() {
        let audit = Audit::open(AuditOptions::default()).unwrap();
        let doc = event(&audit, "authCheck", "d");
        let names: Vec<&str> = doc.as_doc().iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["atype", "ts", "uuid", "local", "remote", "users", "roles", "param", "result"]);
        let text = extjson::doc(doc.as_doc(), extjson::Form::Relaxed).to_string();
        for part in [r#""remote":{"ip":"127.0.0.1","port":5}"#, r#""user":"__system""#, r#""result":13"#] {
            assert!(text.replace(": ", ":").contains(part), "{text}");
        }
        audit.close();
    }

    #[test]
    fn a_filter_chooses() {
        let filter = DocBuf::new().with("atype", "authenticate").with("param.db", "d");
        let audit = Audit::open(AuditOptions { filter: Some(filter), ..AuditOptions::default() }).unwrap();
        assert!(audit.wants(event(&audit, "authenticate", "d").as_doc()));
        assert!(!audit.wants(event(&audit, "authenticate", "e").as_doc()));
        assert!(!audit.wants(event(&audit, "logout", "d").as_doc()));
        let wrong = DocBuf::new().with("$nosuch", 1i32);
        assert!(Audit::open(AuditOptions { filter: Some(wrong), ..AuditOptions::default() }).is_err());
        audit.close();
    }
}
