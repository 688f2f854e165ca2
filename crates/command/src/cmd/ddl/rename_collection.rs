//! `renameCollection`.

use arbor_store::Namespace;

use crate::call::Call;
use crate::cmd::shared::collection_uuid;
use crate::error_map::invalid_namespace;
use crate::{Error, Result};

/// Reads the command: the names, and `dropTarget`.
pub(crate) fn parse(call: &Call<'_>) -> Result<(Namespace, Namespace, bool)> {
    call.only(&["to", "dropTarget", "stayTemp", "collectionUUID"])?;
    let parse = |name: &str| Namespace::parse(name).map_err(|_| invalid_namespace(name));
    let from = parse(call.field("renameCollection").string(call.target())?)?;
    let to = call.body.get("to").ok_or_else(|| call.field("to").missing())?;
    let to = parse(call.field("to").string(to)?)?;
    arbor_query::check_writable(&to)?;
    let drop_target = match call.body.get("dropTarget") {
        Some(value) => call.field("dropTarget").bool(value)?,
        None => false,
    };
    if let Some(value) = call.optional("stayTemp") {
        call.field("stayTemp").strict_bool(value)?;
    }
    if let Some(value) = call.optional("collectionUUID") {
        collection_uuid::read(call, value)?;
    }
    Ok((from, to, drop_target))
}

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    let (from, to, drop_target) = parse(call)?;
    if from.is_buckets() || to.is_buckets() || call.database().store.buckets_of(&from).is_some() {
        let text = "Renaming a time-series collection is not supported";
        return Err(Error::new(arbor_bson::Code::ILLEGAL_OPERATION, text));
    }
    if let Some(value) = call.optional("collectionUUID") {
        collection_uuid::check(call, &from, value)?;
    }
    match call.database().store.rename(&from, &to, drop_target) {
        Err(arbor_store::Error::NamespaceNotFound(_)) => {
            let text = format!("Source collection {from} does not exist");
            Err(Error::new(arbor_bson::Code::NAMESPACE_NOT_FOUND, text))
        }
        Err(arbor_store::Error::NamespaceExists(_)) => {
            Err(Error::new(arbor_bson::Code::NAMESPACE_EXISTS, "target namespace exists"))
        }
        Err(arbor_store::Error::NamespaceIsView(_)) => {
            let text = format!("cannot rename view: {from}");
            Err(Error::new(arbor_bson::Code::COMMAND_NOT_SUPPORTED_ON_VIEW, text))
        }
        done => {
            done?;
            call.server.usages.forget(from.as_str());
            call.server.usages.forget(to.as_str());
            Ok(())
        }
    }
}
