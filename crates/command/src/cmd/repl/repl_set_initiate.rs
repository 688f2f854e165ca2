//! `replSetInitiate`: makes the first configuration of the set. What the directory holds stays and becomes the set's.

use arbor_bson::{Code, DocBuf, ValueRef};

use crate::call::Call;
use crate::{Error, Result};

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    let Some(replication) = &call.server.replication else {
        let text = "This node was not started with replication enabled.";
        return Err(Error::new(Code::NO_REPLICATION_ENABLED, text));
    };
    let given = match call.target() {
        ValueRef::Document(doc) if !doc.is_empty() => Some(doc),
        _ => None,
    };
    let config = replication.first_config(given)?;
    if config.members.len() > 1 {
        return call.server.initiate_several(replication, &config);
    }
    replication.initiate(config)?;
    call.server.begin_alone(replication)?;
    call.server.configuration_changed(replication, &DocBuf::new().with("msg", "initiating set"));
    if given.is_none() {
        call.reply.append("info2", "no configuration specified. Using a default configuration for the set");
        if let Some(own) = replication.state().own() {
            call.reply.append("me", own.host.as_str());
        }
    }
    Ok(())
}
