//! `drop`: a collection or a view. One that is not there is no error, as in MongoDB since 7.0.

use crate::Result;
use crate::call::Call;
use crate::cmd::admin::profile;

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(&["collectionUUID"])?;
    let namespace = call.namespace()?;
    profile::check_may_drop(call, namespace.collection())?;
    if let Some(buckets) = call.database().store.buckets_of(&namespace)
        && call.database().store.drop_time_series(&namespace)?
    {
        call.reply.append("nIndexesWas", buckets.indexes.len() as i32 + 1).append("ns", namespace.as_str());
        return Ok(());
    }
    if namespace.is_buckets() && call.database().store.collection(&namespace).is_some() {
        let text = format!("cannot drop {namespace}: it goes with its time-series collection");
        return Err(crate::Error::new(arbor_bson::Code::ILLEGAL_OPERATION, text));
    }
    let Some(collection) = call.database().store.collection(&namespace) else {
        if call.database().store.drop_view(&namespace)? {
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
