//! `drop`: a collection or a view. One that is not there is no error, as in MongoDB since 7.0.

use arbor_bson::Code;
use arbor_store::Namespace;

use crate::call::Call;
use crate::cmd::admin::profile;
use crate::{Error, Result};

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(&["collectionUUID"])?;
    let namespace = call.namespace()?;
    profile::check_may_drop(call, namespace.collection())?;
    if namespace.is_system_views() {
        return drop_views(call, &namespace);
    }
    if let Some(buckets) = call.database().store.buckets_of(&namespace)
        && call.database().store.drop_time_series(&namespace)?
    {
        call.server.usages.forget(namespace.as_str());
        call.reply.append("nIndexesWas", buckets.indexes.len() as i32 + 1).append("ns", namespace.as_str());
        return Ok(());
    }
    if namespace.is_buckets() && call.database().store.collection(&namespace).is_some() {
        let text = format!("cannot drop {namespace}: it goes with its time-series collection");
        return Err(Error::new(Code::ILLEGAL_OPERATION, text));
    }
    let Some(collection) = call.database().store.collection(&namespace) else {
        if call.database().store.drop_view(&namespace)? {
            call.server.usages.forget(namespace.as_str());
            call.reply.append("ns", namespace.as_str());
        }
        return Ok(());
    };
    let indexes = collection.indexes.len() as i32 + 1;
    match call.database().store.drop_collection(&namespace) {
        // Somebody else was faster.
        Err(arbor_store::Error::NamespaceNotFound(_)) => Ok(()),
        Err(error) => Err(error.into()),
        Ok(_) => {
            call.server.usages.forget(namespace.as_str());
            call.reply.append("nIndexesWas", indexes).append("ns", namespace.as_str());
            Ok(())
        }
    }
}

/// `system.views` is shown while a database has views; they go with it.
fn drop_views(call: &mut Call<'_>, namespace: &Namespace) -> Result<()> {
    let store = &call.database().store;
    let views = store.list_views(call.db);
    if let Some(series) = views.iter().find(|view| store.buckets_of(&view.namespace).is_some()) {
        let text =
            format!("cannot drop {namespace} while the database has time-series collections: {}", series.namespace);
        return Err(Error::new(Code::ILLEGAL_OPERATION, text));
    }
    let mut dropped = false;
    for view in &views {
        if store.drop_view(&view.namespace)? {
            call.server.usages.forget(view.namespace.as_str());
            dropped = true;
        }
    }
    if dropped {
        call.reply.append("nIndexesWas", 1i32).append("ns", namespace.as_str());
    }
    Ok(())
}
