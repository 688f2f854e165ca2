//! `showPendingLockRequests` of TokuMX: the commits that wait for keys of other transactions. Those of one server never do: the later one
//! fails at once. They wait for transactions over several shards that are prepared here.

use std::collections::BTreeSet;

use arbor_bson::{ArrayBuf, DocBuf, ValueRef};
use arbor_protocol::log::now_ms;

use crate::Result;
use crate::call::Call;
use crate::session::two_phase;

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(&[])?;
    let pending = call.database().transactions.pending_locks();
    let mut requests = ArrayBuf::new();
    for pending in &pending {
        let names = namespaces(call, |tree| pending.trees.contains(&tree));
        let names: ArrayBuf = names.iter().map(|name| ValueRef::from(name.as_str())).collect();
        let started = now_ms() - pending.waiting_for.as_millis() as i64;
        let mut request = DocBuf::new().with("blockingTxnid", two_phase::binary(&pending.owner));
        request.append("namespaces", &names).append("started", ValueRef::DateTime(started));
        requests.push(&request);
    }
    call.reply.append("requests", &requests);
    Ok(())
}

/// The collections with one of the trees.
fn namespaces(call: &Call<'_>, has: impl Fn(arbor_base::TreeId) -> bool) -> BTreeSet<String> {
    let store = &call.database().store;
    let all = store.list_databases().into_iter().flat_map(|db| store.list_collections(&db));
    all.filter(|own| own.trees().any(&has)).map(|own| own.namespace.to_string()).collect()
}
