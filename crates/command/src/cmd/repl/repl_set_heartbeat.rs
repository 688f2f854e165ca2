//! `replSetHeartbeat`: what this member says of itself to the others.

use arbor_bson::{Code, DocBuf, ValueRef};
use arbor_repl::not_yet_initialized;

use crate::call::Call;
use crate::replication::status::sync_source;
use crate::{Error, Result};

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    for (name, _) in call.own_fields() {
        let known = [
            "configVersion",
            "configTerm",
            "from",
            "fromId",
            "hbv",
            "term",
            "checkEmpty",
            "primaryId",
            "maxTimeMSOpOnly",
        ];
        if !known.contains(&name) {
            call.unknown(call.field(name))?;
        }
    }
    let replication = call.replication()?;
    let set = call.field("replSetHeartbeat").string(call.target())?;
    if set != replication.name() {
        let text = format!("Our set name of {} does not match the requested set name of {set}", replication.name());
        return Err(Error::new(Code::INCONSISTENT_REPLICA_SET_NAMES, text));
    }
    let state = replication.state();
    let config = state.config.as_ref().ok_or_else(not_yet_initialized)?;
    let progress = call.server.progress(replication);
    let position = call.database().transactions.log().durable();
    let store = call.server.several.store().map(|store| store.0).unwrap_or_default();
    let source = call.server.several.handle().and_then(|handle| handle.status().source);
    let source = sync_source(&state, source).map_or("", |(host, _)| host);
    let primary = state.primary.and_then(|index| config.members.get(index)).map_or(-1, |member| member.id as i32);
    call.reply = DocBuf::new()
        .with("set", config.name.as_str())
        .with("state", state.role.code().0)
        .with("v", config.version as i32)
        .with("configTerm", state.term)
        .with("term", state.term)
        .with("primaryId", primary)
        .with("syncingTo", source)
        .with("opTime", &progress.applied.to_doc(state.term))
        .with("wallTime", ValueRef::DateTime(progress.applied.wall))
        .with("durableOpTime", &progress.durable.to_doc(state.term))
        .with("durableWallTime", ValueRef::DateTime(progress.durable.wall))
        .with("position", position.0 as i64)
        .with("uptime", call.server.started.elapsed().as_secs() as i64)
        .with("store", ValueRef::Binary { subtype: 4, bytes: &store });
    Ok(())
}
