//! `local.oplog.rs` in commands that list collections and their statistics.

use arbor_bson::DocBuf;
use arbor_engine::TreeStats;
use arbor_store::{CappedBounds, Namespace};

use crate::call::Call;
use crate::cmd::diagnostics::coll_stats::Statistics;

const DB: &str = "local";
const COLLECTION: &str = "oplog.rs";

/// Returns the statistics of the oplog. None: another name, or there is no oplog.
pub(crate) fn statistics(call: &Call<'_>, namespace: &Namespace) -> Option<Statistics> {
    let transactions = &call.database().transactions;
    let retention = transactions.retention()?;
    if (namespace.db(), namespace.collection()) != (DB, COLLECTION) {
        return None;
    }
    let stats = transactions.log().stats();
    // COMPAT: entries are made when they are read; records are counted in their place
    let documents = (stats.appended.0 + 1).saturating_sub(stats.first.0.max(1));
    Some(Statistics {
        engine: "log".to_owned(),
        capped: Some(CappedBounds { bytes_max: retention.bytes, docs_max: None }),
        clustered: true,
        documents,
        data_bytes: stats.disk_bytes,
        disk: TreeStats { disk_bytes: stats.disk_bytes, ..TreeStats::default() },
        ..Statistics::default()
    })
}

/// Its entry in `listCollections` of its database.
pub(crate) fn listed(call: &Call<'_>, db: &str, name_only: bool) -> Option<DocBuf> {
    let retention = call.database().transactions.retention().filter(|_| db == DB)?;
    let entry = DocBuf::new().with("name", COLLECTION).with("type", "collection");
    if name_only {
        return Some(entry);
    }
    let bytes = i64::try_from(retention.bytes).unwrap_or(i64::MAX);
    let options = DocBuf::new().with("capped", true).with("size", bytes).with("autoIndexId", false);
    Some(entry.with("options", &options).with("info", &DocBuf::new().with("readOnly", true)))
}
