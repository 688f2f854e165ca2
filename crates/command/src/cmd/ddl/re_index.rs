//! `reIndex`: rebuilds the indexes of a collection.

use arbor_bson::{ArrayBuf, Code};

use crate::call::Call;
use crate::watcher::Watcher;
use crate::{Error, Result};

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(&[])?;
    let namespace = call.namespace()?;
    let store = &call.database().store;
    store.refuse_view(&namespace)?;
    let Some(collection) = store.collection(&namespace) else {
        return Err(Error::new(Code::NAMESPACE_NOT_FOUND, "collection does not exist"));
    };
    let watcher = Watcher::of(call);
    watcher.explained(store.rebuild_indexes(&namespace, watcher.build_settings()))?;
    let specs = collection.index_specs();
    let reply = &mut call.reply;
    reply.append("nIndexesWas", specs.len() as i32).append("nIndexes", specs.len() as i32);
    reply.append("indexes", &specs.iter().collect::<ArrayBuf>());
    Ok(())
}
