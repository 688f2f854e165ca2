//! `createIndexes`: concurrent with reads and writes.

use arbor_bson::DocBuf;

use crate::call::Call;
use crate::watcher::Watcher;
use crate::{Error, Result};

pub fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(&["indexes", "commitQuorum", "ignoreUnknownIndexOptions", "v"])?;
    let namespace = call.namespace()?;
    let mut namespace = namespace;
    let mut specs: Vec<DocBuf> = call.documents("indexes")?.into_iter().map(|spec| spec.to_buf()).collect();
    if specs.is_empty() {
        return Err(Error::bad_value("Must specify at least one index to create"));
    }
    if let Some((buckets, own)) = crate::cmd::shared::time_series::specs_of_buckets(call, &namespace, &specs)? {
        (namespace, specs) = (buckets, own);
    }
    let created = match call.scope().transaction() {
        Some(open) => open.create_indexes(&namespace, &specs)?,
        None => {
            let watcher = Watcher::of(call);
            watcher.explained(call.database().store.build_indexes(&namespace, &specs, watcher.build_settings()))?
        }
    };
    let reply = &mut call.reply;
    reply.append("numIndexesBefore", created.before as i32).append("numIndexesAfter", created.after as i32);
    reply.append("createdCollectionAutomatically", created.created_collection);
    if created.before == created.after {
        reply.append("note", "all indexes already exist");
    }
    Ok(())
}
