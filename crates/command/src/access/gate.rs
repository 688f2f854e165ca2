//! The one place that every request passes before its command is parsed.

use std::net::IpAddr;

use arbor_auth::{Action, Target, UserName};
use arbor_bson::display::shell_doc;
use arbor_bson::{Code, Doc, DocBuf, SessionId, ValueRef};
use arbor_protocol::CommandInfo;
use arbor_protocol::log::events;
use arbor_protocol::operation::User;
use arbor_protocol::request::NO_USER;

use super::{Access, Identity, Needed};
use crate::incoming::{Incoming, hidden};
use crate::registry::Row;
use crate::{Commands, Connection, Error, Result};

/// Longest text of a command in an error.
const SHOWN_BYTES_MAX: usize = 1024;

impl Commands {
    /// Refuses a request that the connection's user may not make. Requires that access control is enabled.
    pub(crate) fn authorize(&self, connection: &mut Connection, row: &Row, request: &Incoming<'_>) -> Result<()> {
        let (info, _, access) = row;
        self.refresh_user(connection)?;
        connection.on_behalf = on_behalf(connection.login.user.as_deref(), request.body)?;
        if matches!(access, Access::Open) {
            return Ok(());
        }
        let Some(user) = &connection.login.user else {
            if self.is_first_user(connection, info.name, request.db)? {
                return Ok(());
            }
            self.audit_check(connection, request, Code::UNAUTHORIZED);
            let text = format!("Command {} requires authentication", info.name);
            return Err(Error::new(Code::UNAUTHORIZED, text));
        };
        let mut needed = Needed::of(user);
        needed.column(access, request);
        match needed.is_permitted() {
            true => {
                if self.audit.is_some() {
                    self.audit_check(connection, request, Code(0));
                }
                Ok(())
            }
            false => {
                self.audit_check(connection, request, Code::UNAUTHORIZED);
                let error = unauthorized(info, request);
                let attributes = DocBuf::new().with("user", &user.name.to_doc()).with("error", &error.message);
                self.log.info(events::NOT_AUTHORIZED, &connection.name, attributes);
                Err(error)
            }
        }
    }

    /// Returns true if the rights of a connection need not be read again.
    pub(crate) fn knows_user(&self, connection: &Connection) -> bool {
        let is_known = |user: &Identity| user.generation == self.accounts.generation() || user.is_system();
        !self.accounts.enabled || connection.login.user.as_deref().is_some_and(is_known)
    }

    /// Reads the connection's user again after a change of users or roles. A user that is gone, or may not connect from
    /// there any more, is logged out.
    pub(crate) fn refresh_user(&self, connection: &mut Connection) -> Result<()> {
        let Some(user) = &connection.login.user else { return Ok(()) };
        // the generation first: it decides for all but members' connections
        if user.generation == self.accounts.generation() || user.is_system() {
            return Ok(());
        }
        let user = user.clone();
        let now = self.identity_again(&user)?.filter(|now| now.id == user.id && now.may_connect(&connection.peer));
        match now {
            Some(now) => connection.login.user = Some(now),
            None => self.log_out(connection),
        }
        Ok(())
    }

    /// Returns true for the command that makes the first user, from the server's own machine.
    pub(crate) fn is_first_user(&self, connection: &Connection, command: &str, db: &str) -> Result<bool> {
        let opens = matches!(command, "createUser" | "createRole" | "replSetInitiate") && db == "admin";
        let local = is_loopback(connection.peer.remote.ip());
        Ok(opens && local && self.parameters.bool("enableLocalhostAuthBypass") && !self.has_accounts()?)
    }

    /// Returns true if an action is permitted to the connection's user.
    pub(crate) fn permits(&self, connection: &Connection, target: Target<'_>, action: Action) -> bool {
        let user = connection.login.user.as_ref();
        !self.accounts.enabled || user.is_some_and(|user| user.privileges().allow(target, action))
    }

    /// Returns true if an action is permitted to the connection's user somewhere in a database.
    pub(crate) fn reaches(&self, connection: &Connection, db: &str, action: Action) -> bool {
        let user = connection.login.user.as_ref();
        !self.accounts.enabled || user.is_some_and(|user| user.privileges().reach(db, action))
    }

    /// Refuses an action that is not permitted to the connection's user.
    pub(crate) fn need(&self, connection: &Connection, target: Target<'_>, action: Action) -> Result<()> {
        match self.permits(connection, target, action) {
            true => Ok(()),
            false => {
                let on = match target {
                    Target::Cluster => "the cluster".to_owned(),
                    Target::Database(db) => db.to_owned(),
                    Target::Collection { db, collection } => format!("{db}.{collection}"),
                };
                let text = format!("not authorized on {on} to execute {}", action.name());
                Err(Error::new(Code::UNAUTHORIZED, text))
            }
        }
    }

    /// Returns the session that a request means: one of its own user, unless the user may act for others.
    pub(crate) fn session_of(&self, connection: &Connection, given: SessionId) -> Result<SessionId> {
        let Some(user) = &connection.login.user else {
            let foreign = self.accounts.enabled && given.user != NO_USER;
            return if foreign { Err(foreign_session()) } else { Ok(given) };
        };
        if given.user == NO_USER || given.user == user.digest {
            return Ok(SessionId { user: user.digest, ..given });
        }
        match self.permits(connection, Target::Cluster, Action::Impersonate) {
            true => Ok(given),
            false => Err(foreign_session()),
        }
    }

    /// Returns the owner of the sessions that a connection begins.
    pub(crate) fn session_user(&self, connection: &Connection) -> [u8; 32] {
        connection.user().unwrap_or(NO_USER)
    }
}

/// Returns the user for whom a member of the cluster asks (`$audit`). Errors: others may not name one.
fn on_behalf(user: Option<&Identity>, body: Doc<'_>) -> Result<Option<User>> {
    let Some(given) = body.get("$audit") else { return Ok(None) };
    if !user.is_some_and(|user| user.privileges().allow(Target::Cluster, Action::Impersonate)) {
        return Err(Error::new(Code::UNAUTHORIZED, "Unauthorized use of impersonation metadata."));
    }
    let named = match given {
        ValueRef::Document(given) => given.get("$impersonatedUser"),
        _ => None,
    };
    let named = named.map(|named| UserName::read(named, "")).transpose()?;
    Ok(named.map(|name| (name.digest(), name.to_doc())))
}

fn foreign_session() -> Error {
    Error::new(Code::UNAUTHORIZED, "Not authorized to use a session of another user")
}

/// A Unix socket has no address, and counts as one's own machine.
fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// Refuses a request, with its text but for secrets.
fn unauthorized(info: &CommandInfo, request: &Incoming<'_>) -> Error {
    let without_secrets = info.has_secrets().then(|| hidden(request.body));
    let shown = without_secrets.as_ref().map_or(request.body, DocBuf::as_doc);
    let mut text = shell_doc(shown).to_string();
    if text.len() > SHOWN_BYTES_MAX {
        text.truncate(text.floor_char_boundary(SHOWN_BYTES_MAX));
        text.push_str("...");
    }
    Error::new(Code::UNAUTHORIZED, format!("not authorized on {} to execute command {text}", request.db))
}
