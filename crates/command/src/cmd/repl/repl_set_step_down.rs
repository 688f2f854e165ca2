//! `replSetStepDown`: the primary steps down. The only member of a set has no successor: the command requires `force`, and the
//! member becomes primary again when the period expires.

use std::time::Duration;

use arbor_bson::Code;
use arbor_protocol::log::{iso8601, now_ms};

use crate::call::Call;
use crate::{Error, Result};

const CATCH_UP_SECONDS: i64 = 10;

pub fn run(call: &mut Call<'_>) -> Result<()> {
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
    check(seconds, catch_up.unwrap_or(if force { 0 } else { CATCH_UP_SECONDS }))?;
    if !force {
        let text = format!(
            "No electable secondaries caught up as of {}. Please use the replSetStepDown command with the argument \
             {{force: true}} to force node to step down.",
            iso8601(now_ms())
        );
        return Err(Error::new(Code::EXCEEDED_TIME_LIMIT, text));
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
