//! `killSessions`, `killAllSessions` and `killAllSessionsByPattern`: end sessions together with what runs in them.

use arbor_auth::{Action, Target, UserName};
use arbor_bson::{ArrayBuf, Doc, DocBuf, ValueRef};
use arbor_protocol::arguments::{Field, is_present, present};
use arbor_protocol::request::{self, NO_USER};

use crate::call::Call;
use crate::cmd::session::end_sessions::session_ids;
use crate::session::{self, CONNECTION, SessionId};
use crate::{Error, Result};

/// Without ids: all.
pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(&[])?;
    let named = session_ids(call)?;
    match named.is_empty() {
        true => {
            let own = call.server.session_user(call.connection);
            let any = call.server.permits(call.connection, Target::Cluster, Action::KillAnySession);
            kill_chosen(call, |session| any || session.user == own);
            let uid = ValueRef::Binary { subtype: 0, bytes: &own };
            let patterns: ArrayBuf = (!any).then(|| DocBuf::new().with("uid", uid)).iter().collect();
            on_shards(call, "killAllSessionsByPattern", &patterns)
        }
        false => {
            named.iter().for_each(|session| kill(call, *session));
            on_shards(
                call,
                "killSessions",
                &named.iter().map(|session| session.to_doc()).collect::<Vec<_>>().iter().collect(),
            )
        }
    }
}

/// `[{ user, db }]`; without users: all.
pub(crate) fn run_all(call: &mut Call<'_>) -> Result<()> {
    call.only(&[])?;
    if !is_present(call.target()) {
        return Err(call.field(call.info.name).missing().into());
    }
    let given: ArrayBuf =
        call.field(call.info.name).array(call.target())?.iter().filter(|value| is_present(*value)).collect();
    let users = call.field(call.info.name).documents((&given).into())?;
    let named = users.iter().map(|doc| owner("killAllSessions", *doc)).collect::<Result<Vec<_>>>()?;
    kill_chosen(call, |session| named.is_empty() || named.contains(&session.user));
    on_shards(call, call.info.name, &given)
}

/// `[{ lsid } | { uid } | { users, roles }]`; without patterns: all.
pub(crate) fn run_by_pattern(call: &mut Call<'_>) -> Result<()> {
    call.only(&[])?;
    let patterns = call.field(call.info.name).documents(call.target())?;
    let patterns = patterns.into_iter().map(Pattern::parse).collect::<Result<Vec<_>>>()?;
    kill_chosen(call, |session| patterns.is_empty() || patterns.iter().any(|pattern| pattern.matches(session)));
    let given: ArrayBuf = call.field(call.info.name).array(call.target())?.iter().collect();
    on_shards(call, call.info.name, &given)
}

/// Which sessions are meant.
enum Pattern {
    Session(SessionId),
    User([u8; 32]),
    Users(Vec<[u8; 32]>),
    Nothing,
}

impl Pattern {
    fn parse(doc: Doc<'_>) -> Result<Pattern> {
        let mut pattern = Pattern::Nothing;
        for (name, value) in doc {
            let field = Field::new("killAllSessionsByPattern", name);
            match (name, value) {
                ("lsid", value) => pattern = Pattern::Session(request::lsid(field.document(value)?)?),
                ("uid", ValueRef::Binary { bytes, .. }) => {
                    let wrong = || Error::new(arbor_bson::Code::UNSUPPORTED_FORMAT, "Unsupported SHA256Hash length");
                    pattern = Pattern::User(bytes.try_into().map_err(|_| wrong())?);
                }
                ("uid", other) => return Err(field.wrong_type(other, "binData").into()),
                ("users", value) => {
                    let users = field.documents(value)?.into_iter().map(|doc| owner("killAllSessionsByPattern", doc));
                    pattern = Pattern::Users(users.collect::<Result<_>>()?);
                }
                ("roles", value) => drop(field.documents(value)?),
                _ => return Err(field.unknown().into()),
            }
        }
        Ok(pattern)
    }

    fn matches(&self, session: SessionId) -> bool {
        match self {
            Pattern::Session(own) => *own == session,
            Pattern::User(user) => *user == session.user,
            Pattern::Users(users) => users.contains(&session.user),
            Pattern::Nothing => false,
        }
    }
}

/// Returns the owner of the sessions of `{ user, db }`; empty names are those of no user.
fn owner(command: &str, doc: Doc<'_>) -> Result<[u8; 32]> {
    let (mut user, mut db) = (None, None);
    for (name, value) in present(doc) {
        let field = Field::new(command, name);
        match name {
            "user" => user = Some(field.string(value)?),
            "db" => db = Some(field.string(value)?),
            _ => return Err(field.unknown().into()),
        }
    }
    let user = user.ok_or_else(|| Field::new(command, "user").missing())?;
    let db = db.ok_or_else(|| Field::new(command, "db").missing())?;
    Ok(if user.is_empty() && db.is_empty() { NO_USER } else { UserName::new(user, db).digest() })
}

/// Lets the shards of a router do the same.
pub(crate) fn on_shards(call: &Call<'_>, command: &str, chosen: &ArrayBuf) -> Result<()> {
    match &call.server.router {
        Some(router) => router.broadcast(&DocBuf::new().with(command, chosen), &call.interrupt),
        None => Ok(()),
    }
}

fn kill_chosen(call: &Call<'_>, chosen: impl Fn(SessionId) -> bool) {
    let all = call.server.sessions.all().into_iter().map(|listed| listed.id);
    all.filter(|id| id.user != CONNECTION && chosen(*id)).for_each(|id| kill(call, id));
}

fn kill(call: &Call<'_>, session: SessionId) {
    if call.generic.session != Some(session) {
        call.server.operations.kill_session(session);
    }
    call.server.sessions.end(session);
    call.database().cursors.kill_session(&session::bytes(session));
}
