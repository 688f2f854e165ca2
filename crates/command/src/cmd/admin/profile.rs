//! `profile`: there is no profiler yet, but the threshold of the slow query log is read and set here.

use std::sync::atomic::Ordering;

use crate::call::Call;
use crate::{Error, Result};

pub fn run(call: &mut Call<'_>) -> Result<()> {
    let level = call.field("profile").integer(call.target())?;
    if level > 0 {
        return Err(Error::not_supported("the profiler; slow operations are in the log"));
    }
    let before = call.server.slow_ms.load(Ordering::Relaxed);
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        match name {
            "slowms" => {
                let slow_ms = field.integer(value)?.clamp(-1, i64::from(i32::MAX)) as i32;
                call.server.slow_ms.store(slow_ms, Ordering::Relaxed);
            }
            "sampleRate" | "filter" => return Err(Error::not_supported(&format!("profile.{name}"))),
            _ => call.unknown(field)?,
        }
    }
    call.reply.append("was", 0i32).append("slowms", before).append("sampleRate", call.server.options.slow_sample_rate);
    Ok(())
}
