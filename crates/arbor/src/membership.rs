//! The server's part in a replica set of several members: its identity, and the coordinator of the set.

use std::sync::Arc;

use arbor_command::Membership;
use arbor_disk::RealDisk;
use arbor_member::Dialer;
use arbor_protocol::log::Log;
use arbor_server::Listeners;

use crate::config::Settings;
use crate::coordination;
use crate::failure::Failure;
use crate::front::CommandsCell;

/// Returns what the member needs; `None`: this server is no member of a set.
pub(crate) fn of(
    settings: &Settings,
    listeners: &Listeners,
    log: &Arc<Log>,
    commands: &CommandsCell,
    dialer: Dialer,
) -> Result<Option<Membership>, Failure> {
    if settings.replica_set.is_none() {
        return Ok(None);
    }
    let member = arbor_log::Member::open(Arc::new(RealDisk), &settings.dbpath).map_err(Failure::cannot_start)?;
    Ok(Some(Membership {
        coordinators: coordination::of(settings, listeners, log),
        member: Arc::new(member),
        kept: settings.dbpath.join(arbor_repl::KEPT_FILE),
        dialer,
        commands: commands.clone(),
    }))
}
