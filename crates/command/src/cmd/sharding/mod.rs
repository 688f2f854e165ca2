//! Commands that routers send to shards and config servers.

pub(crate) mod analyze_shard_key;
pub(crate) mod configure_query_analyzer;
pub(crate) mod sizes;

use arbor_bson::{Code, DocBuf, ObjectId, ValueRef};
use arbor_store::Namespace;

use crate::call::Call;
use crate::{Error, Result};

/// `_shardsvrSetOwnership`: sets what this shard knows of a collection or a database.
pub(crate) fn set_ownership(call: &mut Call<'_>) -> Result<()> {
    call.only(&["state", "version", "key", "kept", "dropped"])?;
    let name = call.field(call.info.name).string(call.target())?;
    let state = call.field("state").string(call.required("state")?)?;
    let version = call.optional("version").map(|value| call.field("version").document(value)).transpose()?;
    let key = call.optional("key").map(|value| call.field("key").document(value)).transpose()?;
    let ids = |name: &str| -> Vec<ObjectId> {
        let ids = match call.optional(name) {
            Some(ValueRef::Array(ids)) => Some(ids),
            _ => None,
        };
        let ids = ids.into_iter().flat_map(|ids| ids.iter());
        ids.filter_map(|id| if let ValueRef::ObjectId(id) = id { Some(id) } else { None }).collect()
    };
    call.server.set_ownership(name, (state, version, key), &ids("kept"), &ids("dropped"))
}

/// `_shardsvrReplaceCollection`: puts another collection in the place of one, which is dropped: `with` names one with another shard key,
/// of which streams show nothing, `renamed` one that gets a new name. Without either this shard has no part of it any more. Once more, it
/// does nothing.
pub(crate) fn replace_collection(call: &mut Call<'_>) -> Result<()> {
    call.only(&["with", "renamed"])?;
    let server = call.server;
    let namespace = Namespace::parse(call.field(call.info.name).string(call.target())?)?;
    let with = call.optional("with").map(|value| call.field("with").string(value)).transpose()?;
    let with = with.map(|name| Namespace::new(namespace.db(), name)).transpose()?;
    if with.as_ref().is_some_and(|with| !with.is_resharding()) {
        return Err(Error::bad_value("only a collection that is being filled can take the place of another one"));
    }
    let renamed = call.optional("renamed").map(|value| call.field("renamed").string(value)).transpose()?;
    let renamed = renamed.map(Namespace::parse).transpose()?;
    let store = &server.database.store;
    let done = match (&with, &renamed) {
        (Some(with), _) => store.replace_unnoted(with, &namespace),
        (None, Some(from)) => store.rename(from, &namespace, true),
        (None, None) => store.drop_unnoted(&namespace),
    };
    match done {
        Err(arbor_store::Error::NamespaceNotFound(_)) => {}
        done => done?,
    }
    for name in [Some(&namespace), with.as_ref(), renamed.as_ref()].into_iter().flatten() {
        server.forget_ranges(name.as_str())?;
        server.usages.forget(name.as_str());
    }
    server.database.make_durable(arbor_txn::Durability::Journaled, None)?;
    Ok(())
}

/// `_shardsvrJoin`: makes this server a part of a cluster, once and for all.
pub(crate) fn join(call: &mut Call<'_>) -> Result<()> {
    call.only(&["shardName", "clusterId", "configsvrConnectionString"])?;
    if !call.server.is_shard() {
        let text = "this server is no shard: it was started without --shardsvr";
        return Err(Error::new(Code::NO_SHARDING_ENABLED, text));
    }
    let name = call.field("shardName").string(call.required("shardName")?)?;
    let config = call.field("configsvrConnectionString").string(call.required("configsvrConnectionString")?)?;
    let cluster = call.required("clusterId")?;
    call.server.fence_earlier_holders(call.body)?;
    if let Some(identity) = call.server.shard_identity()? {
        let same = matches!(identity.get("clusterId"), Some(own) if arbor_bson::identical(own, cluster))
            && matches!(identity.get("shardName"), Some(ValueRef::String(own)) if own == name);
        if same {
            return Ok(());
        }
        let text = format!("this server is already the shard {:?} of a cluster", identity.get("shardName"));
        return Err(Error::new(Code::ILLEGAL_OPERATION, text));
    }
    let identity = DocBuf::new().with("_id", "shardIdentity").with("shardName", name).with("clusterId", cluster);
    call.server.set_shard_identity(&identity.with("configsvrConnectionString", config))
}

/// `_shardsvrLeave`: forgets the cluster.
pub(crate) fn leave(call: &mut Call<'_>) -> Result<()> {
    call.only(&[])?;
    call.server.set_shard_identity(&DocBuf::new().with("_id", "shardIdentity"))
}

/// `_configsvrBalancerStatus`
pub(crate) fn balancer_status(call: &mut Call<'_>) -> Result<()> {
    call.only(&[])?;
    if let Some(balancer) = &call.server.balancer {
        call.reply = balancer.status();
    }
    Ok(())
}
