//! `hello` and its older spellings: what the server is and what a client may send. The first one of a connection also
//! describes the client.

use std::time::{Duration, Instant};

use arbor_auth::UserName;
use arbor_bson::{ArrayBuf, Code, Doc, DocBuf, ValueRef};
use arbor_protocol::arguments::Field;
use arbor_protocol::log::{events, now_ms};
use arbor_protocol::topology::TopologyVersion;
use arbor_wire::Compressor;

use crate::call::Call;
use crate::session::TIMEOUT;
use crate::{Error, Result};

pub(crate) const DOCUMENT_BYTES_MAX: i32 = 16 * 1024 * 1024;

/// Wire version of MongoDB 8.0, from which on drivers send `bulkWrite` and the `sort` of an update; the lowest is 0, for the
/// legacy opcodes.
const WIRE_VERSION_MAX: i32 = 25;

const VERSION: &str = "topologyVersion";

/// Longest wait for a topology change, whatever the request asks for.
const WAIT_MAX: Duration = Duration::from_secs(24 * 3600);

const CLIENT_BYTES_MAX: usize = 512;

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    answer(call, "isWritablePrimary")
}

pub(crate) fn run_legacy(call: &mut Call<'_>) -> Result<()> {
    answer(call, "ismaster")
}

fn answer(call: &mut Call<'_>, primary: &str) -> Result<()> {
    let (mut hello_ok, mut compressors) = (false, None);
    let (mut known, mut wait_ms) = (None, None);
    let (mut asked, mut speculative) = (None, None);
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        match name {
            "helloOk" => hello_ok = field.bool(value)?,
            "client" => describe_client(call, field.document(value)?)?,
            "compression" => compressors = Some(agreed(field, value)?),
            "topologyVersion" => known = Some(topology_version(field.document(value)?)?),
            "maxAwaitTimeMS" => wait_ms = Some(wait_time(field.integer(value)?)?),
            "saslSupportedMechs" => asked = Some(user_name(value)?),
            "speculativeAuthenticate" => speculative = Some(field.document(value)?),
            // drivers send these, and this server has no use for them
            "loadBalanced" | "hostInfo" | "internalClient" | "backpressure" => {}
            _ => call.unknown(field)?,
        }
    }
    if waits(call, known, wait_ms)? {
        return Ok(());
    }
    let mechanisms = asked.map(|user| call.server.mechanisms_of(&user)).transpose()?;
    let speculated = match speculative {
        Some(doc) => call.server.speculate(call.connection, doc)?,
        None => None,
    };
    let reply = &mut call.reply;
    if hello_ok {
        reply.append("helloOk", true);
    }
    reply.append(VERSION, &call.server.topology.version().to_doc());
    match &call.server.replication {
        Some(replication) => {
            let server_name = call.connection.peer.tls.as_ref().and_then(|tls| tls.server_name.as_deref());
            replication.append_hello(primary, call.server.progress(replication), server_name, reply);
        }
        None => drop(reply.append(primary, true)),
    }
    if call.server.router.is_some() {
        reply.append("msg", "isdbgrid");
    }
    reply.append("maxBsonObjectSize", DOCUMENT_BYTES_MAX);
    reply.append("maxMessageSizeBytes", arbor_wire::MESSAGE_BYTES_MAX as i32);
    reply.append("maxWriteBatchSize", crate::cmd::shared::write_reply::STATEMENTS_MAX as i32);
    reply.append("localTime", ValueRef::DateTime(now_ms()));
    reply.append("logicalSessionTimeoutMinutes", (TIMEOUT.as_secs() / 60) as i32);
    reply.append("connectionId", call.connection.peer.connection as i32);
    reply.append("minWireVersion", 0i32).append("maxWireVersion", WIRE_VERSION_MAX).append("readOnly", false);
    if let Some(compressors) = compressors.filter(|agreed| !agreed.is_empty()) {
        reply.append("compression", &compressors);
    }
    if let Some(mechanisms) = mechanisms {
        call.server.accounts.attempts.mechanisms_asked();
        reply.append("saslSupportedMechs", &mechanisms.into_iter().collect::<ArrayBuf>());
    }
    if let Some(speculated) = speculated {
        reply.append("speculativeAuthenticate", &speculated);
    }
    Ok(())
}

/// Checks the client's topology version and `maxAwaitTimeMS`, which are given together or not at all. Returns true if the
/// command is to run again later.
fn waits(call: &mut Call<'_>, known: Option<TopologyVersion>, wait: Option<Duration>) -> Result<bool> {
    let (known, wait) = match (known, wait) {
        (None, None) => return Ok(false),
        (Some(known), Some(wait)) => (known, wait),
        (Some(_), None) => {
            let text = "A request with a 'topologyVersion' must include 'maxAwaitTimeMS'";
            return Err(Error::new(Code(31368), text));
        }
        (None, Some(_)) => {
            let text = "A request with 'maxAwaitTimeMS' must include a 'topologyVersion'";
            return Err(Error::new(Code(31372), text));
        }
    };
    let version = call.server.topology.version();
    if known.process != version.process || known.counter < version.counter {
        return Ok(false);
    }
    if known.counter > version.counter {
        let text = format!(
            "Received a topology version with counter: {} which is greater than the server topology version counter: {}",
            known.counter, version.counter
        );
        return Err(Error::new(Code(31382), text));
    }
    let now = Instant::now();
    let until = call.waited_until.unwrap_or(now + wait);
    if now < until {
        call.wait_until = Some(until);
    }
    Ok(now < until)
}

/// Reads `db.user`, or `{user, db}`.
fn user_name(value: ValueRef<'_>) -> Result<UserName> {
    let text = match value {
        ValueRef::String(text) => text,
        ValueRef::Document(name) if name.get("user").is_none() || name.get("db").is_none() => {
            return Err(Error::bad_value("User name has to have both a user and a db"));
        }
        ValueRef::Document(_) => return Ok(UserName::read(value, "")?),
        other => return Err(Field::new("hello", "saslSupportedMechs").wrong_types(other, "[string, object]'").into()),
    };
    match text.split_once('.') {
        Some((db, user)) => Ok(UserName::new(user, db)),
        None => Err(Error::bad_value("UserName must contain a '.' separated database.user pair")),
    }
}

fn topology_version(doc: Doc<'_>) -> Result<TopologyVersion> {
    let field = |name| Field::new("topologyVersion", name);
    let process = match doc.get("processId") {
        Some(ValueRef::ObjectId(id)) => id,
        Some(other) => return Err(field("processId").wrong_type(other, "objectId").into()),
        None => return Err(field("processId").missing().into()),
    };
    match doc.get("counter") {
        Some(ValueRef::Int64(counter)) => Ok(TopologyVersion { process, counter }),
        Some(other) => Err(field("counter").wrong_type(other, "long").into()),
        None => Err(field("counter").missing().into()),
    }
}

fn wait_time(ms: i64) -> Result<Duration> {
    match u64::try_from(ms) {
        Ok(ms) => Ok(Duration::from_millis(ms).min(WAIT_MAX)),
        Err(_) => Err(Error::new(Code(31373), "'maxAwaitTimeMS' must be a non-negative integer")),
    }
}

/// Returns true if the command is a `hello`.
pub(crate) fn is_one(command: Doc<'_>) -> bool {
    matches!(command.first(), Some(("hello" | "isMaster" | "ismaster", _)))
}

/// Returns true if the command is a `hello` that waits for a topology change.
pub(crate) fn is_awaited(command: Doc<'_>) -> bool {
    is_one(command) && command.get(VERSION).is_some()
}

/// The command that the client would send next, had it read the reply: with what it knows then.
pub(crate) fn next(command: Doc<'_>, reply: Doc<'_>) -> DocBuf {
    match reply.get(VERSION) {
        Some(version) if is_one(command) => {
            command.iter().map(|(name, value)| (name, if name == VERSION { version } else { value })).collect()
        }
        _ => command.to_buf(),
    }
}

/// The client's compressors that this server has, in the client's order.
fn agreed(field: Field<'_>, value: ValueRef<'_>) -> Result<ArrayBuf> {
    let offered = field.array(value)?;
    let known = |name: &str| Compressor::by_name(name).is_some_and(|compressor| compressor != Compressor::Noop);
    Ok(offered.iter().filter(|value| matches!(value, ValueRef::String(name) if known(name))).collect())
}

/// Keeps what the client says of itself, for `currentOp` and the log.
fn describe_client(call: &mut Call<'_>, client: Doc<'_>) -> Result<()> {
    if call.connection.described {
        let text = "The client metadata document may only be sent in the first hello";
        return Err(Error::new(Code::CLIENT_METADATA_CANNOT_BE_MUTATED, text));
    }
    if client.as_bytes().len() > CLIENT_BYTES_MAX {
        let bytes = client.as_bytes().len();
        let text = format!(
            "The client metadata document must be less then or equal to {CLIENT_BYTES_MAX} bytes but was {bytes}"
        );
        return Err(Error::new(Code::CLIENT_METADATA_DOCUMENT_TOO_LARGE, text));
    }
    for required in ["driver", "os"] {
        if client.get(required).is_none() {
            let text = format!("Missing required sub-document '{required}' in the client metadata document");
            return Err(Error::new(Code::CLIENT_METADATA_MISSING_FIELD, text));
        }
    }
    let app_name = app_name(client).map(str::to_owned);
    call.connection.described = true;
    if !call.server.log.is_quiet() {
        let attributes = arbor_bson::DocBuf::new()
            .with("remote", &call.connection.peer.client())
            .with("client", &call.connection.name)
            .with("doc", client);
        call.server.log.info(events::CLIENT_METADATA, &call.connection.name, attributes);
    }
    call.server.audit(call.connection, "clientMetadata", Code(0), || DocBuf::new().with("clientMetadata", client));
    call.connection.slot.set_client(app_name, client.to_buf());
    Ok(())
}

/// `application.name` in what a client says of itself.
pub(crate) fn app_name(client: Doc<'_>) -> Option<&str> {
    let Some(ValueRef::Document(application)) = client.get("application") else { return None };
    match application.get("name") {
        Some(ValueRef::String(name)) => Some(name),
        _ => None,
    }
}
