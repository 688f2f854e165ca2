//! Commands of replica sets that have little to do in a set of one: `replSetMaintenance`, `replSetSyncFrom`,
//! `replSetStepUp`, `replSetAbortPrimaryCatchUp`, `replSetGetRBID`, `replSetTestEgress`.

use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use arbor_bson::Code;
use arbor_repl::{MemberId, Role, not_yet_initialized};

use crate::call::Call;
use crate::replication::status::sync_source;
use crate::{Error, Result};

pub(crate) fn maintenance(call: &mut Call<'_>) -> Result<()> {
    call.only(&[])?;
    if call.replication()?.is_primary() {
        return Err(Error::new(Code::NOT_SECONDARY, "primaries can't modify maintenance mode"));
    }
    Err(Error::not_supported("maintenance mode of the only member"))
}

pub(crate) fn sync_from(call: &mut Call<'_>) -> Result<()> {
    call.only(&[])?;
    let replication = call.replication()?;
    let host = call.field("replSetSyncFrom").string(call.target())?;
    let state = replication.state();
    let (Some(config), Some(own)) = (&state.config, state.own()) else { return Err(not_yet_initialized().into()) };
    if state.role == Role::Primary {
        return Err(Error::new(Code::NOT_SECONDARY, "primaries don't sync"));
    }
    let Some(source) = config.members.iter().find(|member| member.host == host) else { return Err(no_member(host)) };
    let refused = |reason: &str| {
        let text = format!("Cannot sync from \"{host}\" because {reason}");
        Err(Error::new(Code::INVALID_OPTIONS, text))
    };
    match () {
        () if own.id == source.id => return refused("it is this member"),
        () if own.arbiter => return Err(Error::new(Code::NOT_SECONDARY, "arbiters don't sync")),
        () if source.arbiter => return refused("it is an arbiter"),
        () if own.build_indexes && !source.build_indexes => return refused("it does not build indexes"),
        () if own.votes > 0 && source.votes == 0 => return refused("it has no vote and this member has one"),
        () => {}
    }
    let Some(handle) = call.server.several.handle() else { return Err(not_yet_initialized().into()) };
    let id = MemberId(source.id as u32);
    if !is_reachable(host, 5) {
        return Err(Error::new(Code::HOST_UNREACHABLE, format!("I cannot reach the requested member: {host}")));
    }
    call.reply.append("syncFromRequested", host);
    if let Some((previous, _)) = sync_source(&state, handle.status().source) {
        call.reply.append("prevSyncTarget", previous);
    }
    let is_primary =
        state.primary.and_then(|index| config.members.get(index)).is_some_and(|primary| primary.id == source.id);
    if is_primary {
        handle.sync_from(None);
    } else if config.settings.chaining_allowed {
        handle.sync_from(Some(id));
    }
    Ok(())
}

fn no_member(host: &str) -> Error {
    Error::new(Code::NODE_NOT_FOUND, format!("Could not find member \"{host}\" in replica set"))
}

/// Makes a member that stepped down primary again before the stepdown period ends.
pub(crate) fn step_up(call: &mut Call<'_>) -> Result<()> {
    call.only(&["skipDryRun"])?;
    let replication = call.replication()?;
    match replication.state().role {
        Role::Startup => Err(not_yet_initialized().into()),
        Role::Secondary if call.server.several.handle().is_some() => {
            Err(Error::new(Code::COMMAND_FAILED, "Election failed: have the primary step down"))
        }
        Role::Secondary => {
            call.server.become_primary(replication);
            Ok(())
        }
        Role::Primary => Ok(()),
        Role::Startup2 => Err(Error::new(Code::NODE_NOT_ELECTABLE, "Not standing for election; this node copies data")),
        Role::Removed => Err(Error::new(Code::NODE_NOT_ELECTABLE, "Not standing for election; this node is removed")),
    }
}

pub(crate) fn abort_catch_up(call: &mut Call<'_>) -> Result<()> {
    call.only(&[])?;
    match call.replication()?.state().role {
        Role::Startup => Err(not_yet_initialized().into()),
        Role::Primary => Err(Error::new(Code::ILLEGAL_OPERATION, "The node is not in catch-up mode.")),
        _ => Err(arbor_repl::not_primary().into()),
    }
}

/// Nothing is ever rolled back in a set of one.
pub(crate) fn rollback_id(call: &mut Call<'_>) -> Result<()> {
    call.replication()?;
    call.reply.append("rbid", 1i32);
    Ok(())
}

/// Checks that a member is reachable.
pub(crate) fn test_egress(call: &mut Call<'_>) -> Result<()> {
    let (mut target, mut seconds) = (None, 5);
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        match name {
            "target" => target = Some(field.string(value)?),
            "timeoutSecs" => seconds = field.unsigned(value)?.clamp(1, 60),
            _ => call.unknown(field)?,
        }
    }
    let config = call.replication()?.state().config.ok_or_else(not_yet_initialized)?;
    let host = match target {
        None => return Ok(()),
        Some(target) if config.members.iter().any(|member| member.host == target) => target,
        Some(target) => return Err(no_member(target)),
    };
    if is_reachable(host, seconds) {
        return Ok(());
    }
    Err(Error::new(Code::HOST_UNREACHABLE, format!("cannot reach {host}")))
}

fn is_reachable(host: &str, seconds: u64) -> bool {
    let address = host.to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
    address.is_some_and(|address| TcpStream::connect_timeout(&address, Duration::from_secs(seconds)).is_ok())
}
