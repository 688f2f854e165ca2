//! `dbStats`: the sums of `collStats` over a database.

use crate::Result;
use crate::call::Call;
use crate::cmd::diagnostics::coll_stats::{Statistics, read_scale};

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    let mut scale = 1;
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        match name {
            "scale" => scale = read_scale(field, value)?,
            "freeStorage" => drop(field.integer(value)?),
            _ => call.unknown(field)?,
        }
    }
    let sums = sums(call, call.db)?;
    let views = call.database().store.list_views(call.db).len();
    let scaled = |bytes: u64| (bytes / scale) as f64;
    let (total, used) = file_system(&call.server.options.dbpath);
    let reply = &mut call.reply;
    reply.append("db", call.db).append("collections", sums.collections as i64).append("views", views as i64);
    reply.append("objects", sums.documents as i64);
    let average = if sums.documents == 0 { 0.0 } else { sums.data_bytes as f64 / sums.documents as f64 };
    reply.append("avgObjSize", average).append("dataSize", scaled(sums.data_bytes));
    reply.append("storageSize", scaled(sums.storage_bytes));
    reply.append("indexes", sums.indexes as i64).append("indexSize", scaled(sums.index_bytes));
    reply.append("totalSize", scaled(sums.storage_bytes + sums.index_bytes)).append("scaleFactor", scale as i64);
    reply.append("fsUsedSize", scaled(used)).append("fsTotalSize", scaled(total));
    Ok(())
}

#[derive(Default)]
struct Sums {
    collections: u64,
    documents: u64,
    data_bytes: u64,
    storage_bytes: u64,
    indexes: u64,
    index_bytes: u64,
}

fn sums(call: &Call<'_>, db: &str) -> Result<Sums> {
    let mut sums = Sums::default();
    for collection in call.database().store.list_collections(db) {
        call.interrupt.check()?;
        let statistics = Statistics::reachable(call, &collection)?;
        sums.collections += 1;
        sums.documents += statistics.documents;
        sums.data_bytes += statistics.data_bytes;
        sums.storage_bytes += statistics.disk.disk_bytes;
        sums.indexes += statistics.indexes.len() as u64 + 1;
        sums.index_bytes += statistics.index_bytes();
    }
    Ok(sums)
}

/// Bytes that a database's trees take on disk.
pub(crate) fn disk_bytes(call: &Call<'_>, db: &str) -> Result<u64> {
    let sums = sums(call, db)?;
    Ok(sums.storage_bytes + sums.index_bytes)
}

/// Total and used bytes of the file system below a directory.
fn file_system(directory: &std::path::Path) -> (u64, u64) {
    match rustix::fs::statvfs(directory) {
        Ok(stat) => {
            let total = stat.f_blocks * stat.f_frsize;
            (total, total.saturating_sub(stat.f_bfree * stat.f_frsize))
        }
        Err(_) => (0, 0),
    }
}
