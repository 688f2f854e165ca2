//! `configureQueryAnalyzer` on a replica set.

use super::analyze_shard_key::{Local, refuse_alone};
use crate::Result;
use crate::analysis::Configuration;
use crate::call::Call;

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    let configuration = Configuration::parse(call.body)?;
    refuse_alone(call, call.info.name)?;
    let reply = configuration.run(call.server, &Local { call }, &call.interrupt)?;
    call.reply = reply;
    Ok(())
}
