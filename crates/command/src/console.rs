//! The document of the console: what an operator sees of a server at one moment.

use std::sync::atomic::Ordering;

use arbor_base::TreeId;
use arbor_bson::{ArrayBuf, DocBuf, ValueRef};
use arbor_protocol::log::now_ms;
use arbor_store::Collection;

use crate::cmd::diagnostics::current_op;
use crate::{Commands, Result};

/// Collections of the page; the others are counted.
const COLLECTIONS_MAX: usize = 200;

impl Commands {
    /// Returns the document of the console. Statements of clients are only in it with `operations`, sizes of collections, which cost a read
    /// of each, only with `collections`.
    pub fn console(&self, operations: bool, collections: bool) -> DocBuf {
        let mut doc = DocBuf::new()
            .with("now", ValueRef::DateTime(now_ms()))
            .with("host", &*current_op::host(self))
            .with("build", self.options.build)
            .with("isRouter", self.router.is_some())
            .with("statistics", &self.statistics());
        if operations {
            doc.append("operations", &self.running_operations().iter().collect::<ArrayBuf>());
        }
        doc.append("shapes", &self.slow_shapes.all().iter().collect::<ArrayBuf>());
        if collections {
            self.append_collections(&mut doc);
            if let Some(router) = &self.router {
                let map = router.chunk_map();
                doc.append(
                    "chunks",
                    &map.unwrap_or_else(|error| DocBuf::new().with("error", error.to_string().as_str())),
                );
            }
        }
        let backup = self.last_backup_ms.load(Ordering::Relaxed);
        if backup != 0 {
            doc.append("lastBackup", ValueRef::DateTime(backup));
        }
        doc
    }

    /// Returns what runs, as `currentOp` without idle connections shows it.
    pub fn running_operations(&self) -> Vec<DocBuf> {
        current_op::shown(self, current_op::Idle::none(), None)
    }

    /// Ends an operation, as `killOp` does. An operation that is not there is no error.
    pub fn kill_operation(&self, id: u64) {
        self.operations.kill(id);
        self.database.feed.wake_all();
    }

    fn append_collections(&self, doc: &mut DocBuf) {
        let store = &self.database.store;
        let all = store.list_databases().into_iter().flat_map(|db| store.list_collections(&db));
        let all: Vec<_> = all.collect();
        let mut listed = ArrayBuf::new();
        for collection in all.iter().take(COLLECTIONS_MAX) {
            // one whose engine is not available, or that was dropped meanwhile, is left out
            if let Ok(row) = self.collection_row(collection) {
                listed.push(&row);
            }
        }
        doc.append("collections", &listed)
            .append("collectionsHidden", all.len().saturating_sub(COLLECTIONS_MAX) as i64);
    }

    fn collection_row(&self, collection: &Collection) -> Result<DocBuf> {
        let transactions = &self.database.transactions;
        let view = transactions.read()?;
        let disk_bytes = |tree: TreeId| -> Result<u64> {
            Ok(transactions.engine().tree_stats(tree).map_err(arbor_txn::Error::from)?.disk_bytes)
        };
        let mut index_bytes = 0;
        for index in &collection.indexes {
            for tree in index.trees() {
                index_bytes += disk_bytes(tree)?;
            }
        }
        let mut record_bytes = 0;
        for tree in collection.record_trees() {
            record_bytes += disk_bytes(tree)?;
        }
        Ok(DocBuf::new()
            .with("ns", collection.namespace.as_str())
            .with("engine", &*collection.engine.to_string())
            .with("documents", arbor_store::count(&view, collection)? as i64)
            .with("dataBytes", arbor_store::data_size(&view, collection)? as i64)
            .with("diskBytes", record_bytes as i64)
            .with("indexes", collection.indexes.len() as i64)
            .with("indexBytes", index_bytes as i64))
    }
}
