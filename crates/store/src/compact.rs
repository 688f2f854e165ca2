//! Compacting a collection: its records and its indexes, one tree after the other. Readers and writers continue meanwhile.

use std::sync::Arc;

use arbor_engine::Error as EngineError;
use arbor_txn::Error as TxnError;

use crate::{Collection, Error, Namespace, Result, Store};

impl Store {
    /// Returns the bytes that went back to the file system; when `stop` answers true, those up to then.
    ///
    /// Trees on engines that compact nothing are passed over. Errors: `Unsupported` when none of the trees is on another;
    /// `NamespaceNotFound`, also when the collection was dropped meanwhile.
    pub fn compact(&self, namespace: &Namespace, stop: &dyn Fn() -> bool) -> Result<u64> {
        let collection = self.existing(namespace)?;
        let engine = self.transactions.engine();
        let (mut freed, mut compacted, mut unsupported) = (0, 0, None);
        for tree in collection.trees() {
            if stop() {
                break;
            }
            let is_its_only = |tree| tree == collection.tree && collection.partitions.is_empty();
            match engine.compact(tree, stop) {
                Ok(bytes) => {
                    freed += bytes;
                    compacted += 1;
                }
                Err(error @ EngineError::Unsupported { .. }) => unsupported = Some(error),
                // An index, or a partition, that was dropped meanwhile takes no space.
                Err(EngineError::UnknownTree(_)) if !is_its_only(tree) => {}
                Err(EngineError::UnknownTree(_)) => return Err(Error::NamespaceNotFound(namespace.clone())),
                Err(error) => return Err(TxnError::from(error).into()),
            }
        }
        match unsupported {
            Some(error) if compacted == 0 => Err(TxnError::from(error).into()),
            _ => Ok(freed),
        }
    }

    /// Returns about the number of bytes that compaction could free: free space in the engine's files, and in those of the trees.
    pub fn compactable_bytes(&self, namespace: &Namespace) -> Result<u64> {
        let collection = self.existing(namespace)?;
        let engine = self.transactions.engine();
        let mut bytes = engine.stats().map_err(TxnError::from)?.free_bytes;
        for tree in collection.trees() {
            bytes += engine.tree_stats(tree).map_or(0, |stats| stats.free_bytes);
        }
        Ok(bytes)
    }

    fn existing(&self, namespace: &Namespace) -> Result<Arc<Collection>> {
        self.collection(namespace).ok_or_else(|| Error::NamespaceNotFound(namespace.clone()))
    }
}
