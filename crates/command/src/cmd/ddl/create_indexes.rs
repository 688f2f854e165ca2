//! `createIndexes`: concurrent with reads and writes.

use arbor_bson::DocBuf;
use arbor_store::{Error as StoreError, Namespace};
use uuid::Uuid;

use crate::call::Call;
use crate::watcher::Watcher;
use crate::{Error, Result};

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(&["indexes", "commitQuorum", "ignoreUnknownIndexOptions", "v"])?;
    let namespace = call.namespace()?;
    let mut namespace = namespace;
    let mut specs: Vec<DocBuf> = call.documents("indexes")?.into_iter().map(|spec| spec.to_buf()).collect();
    if specs.is_empty() {
        return Err(Error::bad_value("Must specify at least one index to create"));
    }
    if let Some(nameless) = specs.iter().find(|spec| spec.get("key").is_some() && spec.get("name").is_none()) {
        let shown = arbor_bson::display::shell_doc(nameless.as_doc());
        let text = format!("The 'name' field is a required property of an index specification: {shown}");
        return Err(Error::failed_to_parse(text));
    }
    let mut own_indexes = 0;
    if let Some((buckets, own)) = crate::cmd::shared::time_series::specs_of_buckets(call, &namespace, &specs)? {
        (namespace, specs) = (buckets, own);
        // the order of the buckets is none of a time series
        own_indexes = 1;
    }
    let created = match call.scope().transaction() {
        Some(open) => open.create_indexes(&namespace, &specs)?,
        None => {
            let watcher = Watcher::of(call);
            let built = call.database().store.build_indexes(&namespace, &specs, watcher.build_settings());
            match built {
                Err(error) if concerns_documents(&error) => return Err(build_failed(call, &namespace, error)),
                built => watcher.explained(built)?,
            }
        }
    };
    let reply = &mut call.reply;
    let number = |all: usize| all.saturating_sub(own_indexes) as i32;
    reply.append("numIndexesBefore", number(created.before)).append("numIndexesAfter", number(created.after));
    reply.append("createdCollectionAutomatically", created.created_collection);
    if created.before == created.after {
        reply.append("note", "all indexes already exist");
    }
    Ok(())
}

/// Returns true if the documents of the collection, not the specifications, are in the way of the indexes.
fn concerns_documents(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::DuplicateKey { .. }
            | StoreError::CannotIndexParallelArrays { .. }
            | StoreError::AmbiguousArrayField { .. }
            | StoreError::HashedArray { .. }
            | StoreError::Geo { .. }
            | StoreError::TooManyKeys { .. }
    )
}

/// COMPAT: the id of the build is made here: a build that failed has left nothing that could be found by it.
fn build_failed(call: &Call<'_>, namespace: &Namespace, error: StoreError) -> Error {
    let collection = call.database().store.collection(namespace).map(|collection| collection.uuid).unwrap_or_default();
    Error::from(error)
        .during(&format!("Index build failed: {}: Collection {namespace} ( {collection} )", Uuid::new_v4()))
}
