//! `replSetStepDown`: the primary hands over to a member that has caught up. The only member of a set has no successor: the command requires `force`, and the
//! member becomes primary again when the period expires.

use std::time::Duration;

use arbor_bson::Code;

use crate::call::Call;
use crate::replication::no_successor;
use crate::{Error, Result};

const CATCH_UP_SECONDS: i64 = 10;

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    let (mut force, mut catch_up) = (false, None);
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        match name {
            "force" => force = field.bool(value)?,
            "secondaryCatchUpPeriodSecs" => catch_up = Some(field.integer(value)?),
            _ => call.unknown(field)?,
        }
    }
    let replication = call.replication()?;
    let seconds = call.field("replSetStepDown").integer(call.target())?;
    if !replication.is_primary() {
        return Err(Error::new(Code::NOT_WRITABLE_PRIMARY, "not primary so can't step down"));
    }
    let catch_up = catch_up.unwrap_or(if force { 0 } else { CATCH_UP_SECONDS });
    check(seconds, catch_up)?;
    if let Some(handle) = call.server.several.handle() {
        let (frozen, wait) =
            (Duration::from_secs(seconds.unsigned_abs()), Duration::from_secs(catch_up.unsigned_abs()));
        return call.server.step_down_several(handle, frozen, wait, force);
    }
    if !force {
        return Err(no_successor());
    }
    call.server.step_down(replication, Duration::from_secs(seconds.unsigned_abs()));
    Ok(())
}

fn check(seconds: i64, catch_up: i64) -> Result<()> {
    if seconds < 0 {
        return Err(Error::bad_value("stepdown period must be a positive integer"));
    }
    if catch_up < 0 {
        return Err(Error::bad_value("secondaryCatchUpPeriodSecs period must be a positive or absent"));
    }
    if seconds < catch_up {
        return Err(Error::bad_value("stepdown period must be longer than secondaryCatchUpPeriodSecs"));
    }
    Ok(())
}
