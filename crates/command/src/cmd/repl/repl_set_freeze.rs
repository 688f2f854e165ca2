//! `replSetFreeze`: for how long a member that is not primary does not become it; 0 ends that.

use std::time::Duration;

use arbor_bson::Code;
use arbor_repl::{Role, not_yet_initialized};

use crate::call::Call;
use crate::{Error, Result};

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(&[])?;
    let replication = call.replication()?;
    let seconds = call.field("replSetFreeze").unsigned(call.target())?;
    match replication.state().role {
        Role::Startup => return Err(not_yet_initialized().into()),
        Role::Primary => {
            let text = "cannot freeze node when primary or running for election. state: Primary";
            return Err(Error::new(Code::NOT_SECONDARY, text));
        }
        Role::Removed | Role::Startup2 => {}
        Role::Secondary if call.server.several.handle().is_some() => {
            call.server.several.handle().iter().for_each(|handle| handle.freeze(Duration::from_secs(seconds)));
            if seconds == 0 {
                call.reply.append("info", "unfreezing");
            }
        }
        Role::Secondary if seconds == 0 => {
            call.reply.append("info", "unfreezing");
            call.server.become_primary(replication);
        }
        Role::Secondary => replication.freeze(Duration::from_secs(seconds)),
    }
    if seconds == 1 {
        call.reply.append("warning", "you really want to freeze for only 1 second?");
    }
    Ok(())
}
