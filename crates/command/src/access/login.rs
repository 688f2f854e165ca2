//! Conversations of SASL on a connection, and the user whom they log in.

use std::sync::Arc;
use std::time::Duration;

use arbor_auth::scram::{ClientFirst, Conversation, Fakes};
use arbor_auth::{Mechanism, Stored, UserName};
use arbor_bson::{ArrayBuf, Code, Doc, DocBuf, Value, ValueRef};
use arbor_protocol::arguments::Field;
use arbor_protocol::log::{events, now_ms};

use super::Identity;
use super::attempts::Kind;
use super::certificate::X509;
use crate::{Commands, Connection, Error, Result};

/// A connection's user, and its conversation until that ends.
#[derive(Default)]
pub(crate) struct Login {
    pub user: Option<Arc<Identity>>,
    pending: Option<Pending>,
    conversations: i32,
    /// The present login is part of the handshake.
    pub speculative: bool,
}

struct Pending {
    id: i32,
    user: UserName,
    mechanism: Mechanism,
    conversation: Conversation,
    /// The client wants no empty message at the end.
    skips_empty: bool,
    /// The password was right; the empty message is missing.
    proven: bool,
}

/// Fields of `saslStart`.
pub struct Started<'a> {
    pub db: &'a str,
    mechanism: &'a str,
    payload: &'a [u8],
    skips_empty: bool,
}

impl<'a> Started<'a> {
    /// Reads `saslStart`, sent by itself or within a `hello`; `unknown` decides on other fields.
    pub fn read(db: &'a str, fields: impl Iterator<Item = (&'a str, ValueRef<'a>)>) -> Result<Started<'a>> {
        let (mut mechanism, mut payload, mut skips_empty) = (None, None, false);
        for (name, value) in fields {
            let field = Field::new("saslStart", name);
            match name {
                "mechanism" => mechanism = Some(field.string(value)?),
                "payload" => payload = Some(read_payload(field, value)?),
                "options" => {
                    for (name, value) in field.document(value)? {
                        match name {
                            "skipEmptyExchange" => skips_empty = Field::new("saslStart.options", name).bool(value)?,
                            _ => return Err(Field::new("saslStart.options", name).unknown().into()),
                        }
                    }
                }
                "autoAuthorize" | "saslStart" | "db" => {}
                _ => return Err(field.unknown().into()),
            }
        }
        let missing = |name| Error::from(Field::new("saslStart", name).missing());
        let mechanism = mechanism.ok_or_else(|| missing("mechanism"))?;
        Ok(Started { db, mechanism, payload: payload.ok_or_else(|| missing("payload"))?, skips_empty })
    }
}

/// COMPAT: a payload is binary; MongoDB takes base64 in a string as well, which no driver sends.
pub(crate) fn read_payload<'a>(field: Field<'_>, value: ValueRef<'a>) -> Result<&'a [u8]> {
    match value {
        ValueRef::Binary { bytes, .. } => Ok(bytes),
        other => Err(field.wrong_types(other, "[binData, string]").into()),
    }
}

/// Refuses a mechanism that is not known, or not in the parameter `authenticationMechanisms`.
pub(crate) fn unavailable(mechanism: &str) -> Error {
    let text = format!("Received authentication for mechanism {mechanism} which is unknown or not enabled");
    Error::new(Code::MECHANISM_UNAVAILABLE, text)
}

fn failed() -> Error {
    Error::new(Code::AUTHENTICATION_FAILED, "Authentication failed.")
}

impl Commands {
    /// Returns true if users may log in by a mechanism.
    pub(crate) fn is_enabled(&self, mechanism: &str) -> bool {
        match self.parameters.get("authenticationMechanisms") {
            Some(Value::Array(names)) => {
                names.as_array().iter().any(|name| matches!(name, ValueRef::String(name) if name == mechanism))
            }
            _ => false,
        }
    }

    /// Begins a conversation; returns the fields of the reply.
    pub fn begin_login(&self, connection: &mut Connection, started: &Started<'_>) -> Result<DocBuf> {
        connection.login.pending = None;
        let enabled = self.is_enabled(started.mechanism);
        let Some(mechanism) = Mechanism::by_name(started.mechanism).filter(|_| enabled) else {
            return Err(unavailable(started.mechanism));
        };
        let first = match ClientFirst::read(started.payload) {
            Ok(first) => first,
            Err(malformed) => return Err(self.login_failed(connection, None, started.mechanism, &malformed.0)),
        };
        let user = UserName::new(&first.user, started.db);
        let kind = Kind { speculative: connection.login.speculative, cluster: user.is_system() };
        self.accounts.attempts.received(mechanism.name(), kind);
        let stored: Vec<Stored> = match user.is_system() {
            true => self.accounts.of_members(mechanism),
            false => {
                self.find_user(&user)?.and_then(|user| user.credentials.get(mechanism).cloned()).into_iter().collect()
            }
        };
        let fakes = Fakes { secret: &self.accounts.secret, db: started.db, rounds: mechanism.rounds() };
        let conversation = Conversation::begin(mechanism, first, &stored, &fakes);
        connection.login.conversations += 1;
        let id = connection.login.conversations;
        let reply = turn(id, false, conversation.server_first().as_bytes());
        let skips_empty = started.skips_empty;
        connection.login.pending = Some(Pending { id, user, mechanism, conversation, skips_empty, proven: false });
        Ok(reply)
    }

    /// Continues a conversation; returns the fields of the reply.
    pub fn continue_login(&self, connection: &mut Connection, id: i32, payload: &[u8]) -> Result<DocBuf> {
        let Some(mut pending) = connection.login.pending.take() else {
            return Err(Error::new(Code::PROTOCOL_ERROR, "No SASL session state found"));
        };
        if pending.id != id {
            return Err(Error::new(Code::PROTOCOL_ERROR, "sasl: Mismatched conversation id"));
        }
        if pending.proven {
            if !payload.is_empty() {
                return Err(failed());
            }
            self.log_in(connection, &pending.user, pending.mechanism.name())?;
            return Ok(turn(id, true, b""));
        }
        let name = pending.mechanism.name();
        if self.is_locked_out(connection, &pending.user) {
            // as a wrong password, even if it was right
            return Err(self.login_failed(connection, Some(&pending.user), name, "too many failed logins before"));
        }
        let last = match pending.conversation.finish(payload) {
            Ok(Ok(last)) => last,
            Ok(Err(_)) => {
                self.note_wrong_password(connection, &pending.user);
                return Err(self.login_failed(connection, Some(&pending.user), name, "wrong password"));
            }
            Err(malformed) => return Err(self.login_failed(connection, Some(&pending.user), name, &malformed.0)),
        };
        if pending.skips_empty {
            self.log_in(connection, &pending.user, name)?;
            return Ok(turn(id, true, last.as_bytes()));
        }
        pending.proven = true;
        connection.login.pending = Some(pending);
        Ok(turn(id, false, last.as_bytes()))
    }

    /// Makes a user that has proven its name the user of the connection.
    pub fn log_in(&self, connection: &mut Connection, name: &UserName, mechanism: &str) -> Result<()> {
        if let Some(user) = connection.login.user.as_ref().filter(|user| user.name != *name) {
            let text = format!(
                "Each client connection may only be authenticated once. Previously authenticated as: {}",
                user.name
            );
            return Err(Error::new(Code::AUTHENTICATION_FAILED, text));
        }
        let Some(identity) = self.identity(name)? else {
            return Err(self.login_failed(connection, Some(name), mechanism, "the user does not exist"));
        };
        if !identity.may_connect(&connection.peer) {
            return Err(self.login_failed(connection, Some(name), mechanism, "authentication restrictions unmet"));
        }
        self.accounts.failures.forget(&connection.peer, name);
        let kind = Kind { speculative: connection.login.speculative, cluster: name.is_system() };
        self.accounts.attempts.successful(mechanism, kind);
        let attributes = self.about_login(connection, Some(name), mechanism);
        self.log.info(events::LOGGED_IN, &connection.name, attributes);
        connection.slot.set_user(Some((identity.digest, identity.name.to_doc())));
        connection.login.user = Some(identity);
        self.audit(connection, "authenticate", Code(0), || audited_login(Some(name), mechanism));
        Ok(())
    }

    pub fn log_out(&self, connection: &mut Connection) {
        self.audit_logout(connection, "Client has logged out");
        connection.login.pending = None;
        connection.login.user = None;
        connection.session_touched = None;
        connection.slot.set_user(None);
    }

    /// Notes a login that failed, and waits if failures are to be slow; the client does not learn the reason.
    pub fn login_failed(
        &self,
        connection: &Connection,
        user: Option<&UserName>,
        mechanism: &str,
        reason: &str,
    ) -> Error {
        let attributes = self.about_login(connection, user, mechanism).with("error", reason);
        self.log.info(events::LOGIN_FAILED, &connection.name, attributes);
        self.audit(connection, "authenticate", Code::AUTHENTICATION_FAILED, || audited_login(user, mechanism));
        let delay = self.parameters.int("authFailedDelayMs").unwrap_or(0).clamp(0, 5000) as u64;
        if delay > 0 {
            std::thread::sleep(Duration::from_millis(delay));
        }
        failed()
    }

    /// Notes that the connection's user goes.
    pub(crate) fn audit_logout(&self, connection: &Connection, reason: &str) {
        let Some(user) = &connection.login.user else { return };
        self.audit(connection, "logout", Code(0), || {
            let mut users = ArrayBuf::new();
            users.push(&user.name.to_doc());
            let now = ValueRef::DateTime(now_ms());
            let param = DocBuf::new().with("reason", reason).with("initialUsers", &users);
            param.with("updatedUsers", &ArrayBuf::new()).with("logoutTime", now)
        });
    }

    fn about_login(&self, connection: &Connection, user: Option<&UserName>, mechanism: &str) -> DocBuf {
        let client = connection.peer.client();
        let mut doc = DocBuf::new().with("client", &client).with("mechanism", mechanism);
        if let Some(user) = user {
            doc.append("user", &user.user).append("db", &user.db);
        }
        doc
    }

    /// Returns the answer to `speculativeAuthenticate`; none when it cannot lead to a login.
    pub fn speculate(&self, connection: &mut Connection, doc: Doc<'_>) -> Result<Option<DocBuf>> {
        let db = match doc.get("db") {
            Some(ValueRef::String(db)) => db,
            _ => "admin",
        };
        connection.login.speculative = true;
        match doc.first() {
            Some(("authenticate", _)) if matches!(doc.get("mechanism"), Some(ValueRef::String(X509))) => {
                let user = match doc.get("user") {
                    Some(ValueRef::String(user)) => Some(user),
                    _ => None,
                };
                Ok(self.log_in_by_certificate(connection, db, user).ok())
            }
            Some(("saslStart", _)) => match Started::read(db, doc.iter()) {
                Ok(started) => Ok(self.begin_login(connection, &started).ok()),
                Err(_) => Ok(None),
            },
            _ => Ok(None),
        }
    }

    /// Returns the mechanisms by which a user may log in; of an unknown one, those of a new user.
    pub fn mechanisms_of(&self, name: &UserName) -> Result<Vec<&'static str>> {
        let user = if name.is_system() { None } else { self.find_user(name)? };
        let mut mechanisms = match user {
            Some(user) => user.credentials.mechanisms(),
            None => Mechanism::ALL.map(Mechanism::name).to_vec(),
        };
        mechanisms.retain(|mechanism| Mechanism::by_name(mechanism).is_none() || self.is_enabled(mechanism));
        Ok(mechanisms)
    }
}

fn audited_login(user: Option<&UserName>, mechanism: &str) -> DocBuf {
    let (user, db) = user.map_or(("", ""), |user| (&user.user, &user.db));
    DocBuf::new().with("user", user).with("db", db).with("mechanism", mechanism)
}

fn turn(id: i32, done: bool, payload: &[u8]) -> DocBuf {
    let payload = ValueRef::Binary { subtype: 0, bytes: payload };
    DocBuf::new().with("conversationId", id).with("done", done).with("payload", payload)
}
