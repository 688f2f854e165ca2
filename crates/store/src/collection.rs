//! One collection, as a catalogue shows it. A change makes a new `Collection`; the latch and unchanged indexes are shared.

use std::ops::Deref;
use std::sync::Arc;

use arbor_base::TreeId;
use arbor_bson::{Doc, DocBuf, ValueRef};
use arbor_lang::Collation;
use arbor_txn::CounterId;
use arc_swap::ArcSwapOption;
use uuid::Uuid;

use crate::capped::Arrivals;
use crate::latch::{Latch, SharedGuard};
use crate::{CollectionUsage, Index, Namespace, Partition};

#[derive(Debug)]
pub struct Collection {
    pub uuid: Uuid,
    pub namespace: Namespace,
    /// The options of `create` that MongoDB shows in `listCollections`, verbatim.
    pub options: DocBuf,
    /// Collation of statements that name none, and of `_id`. Also part of the options.
    pub collation: Collation,
    /// Name of the engine of the tree of records.
    pub engine: Arc<str>,
    /// Records: KeyString of `_id` under the collation -> document.
    /// The last partition of a partitioned collection; [`Collection::tree_of`] says where a record is.
    pub tree: TreeId,
    /// In the order of their ranges, see [`crate::Partition`]. Empty: the collection is not partitioned.
    pub partitions: Arc<[Arc<Partition>]>,
    /// The order of insertion, see [`crate::capped`]. None: the collection is not capped.
    pub order: Option<TreeId>,
    /// Secondary indexes, ready ones only, in order of creation. The `_id` index is the tree of records itself.
    pub indexes: Vec<Arc<Index>>,
    pub(crate) latch: Latch,
    pub(crate) arrivals: Arc<Arrivals>,
    /// The key by which it is sharded, as this shard knows it ([`crate::Store::set_shard_key`]).
    pub(crate) shard_key: Arc<ArcSwapOption<DocBuf>>,
    pub usage: Arc<CollectionUsage>,
}

impl Collection {
    pub fn index(&self, name: &str) -> Option<&Arc<Index>> {
        self.indexes.iter().find(|index| index.name == name)
    }

    /// `clusteredIndex` of a clustered collection: `{v, key, name, unique}`. All collections are kept by `_id`; these say so.
    pub fn clustered_index(&self) -> Option<Doc<'_>> {
        match self.options.get("clusteredIndex") {
            Some(ValueRef::Document(spec)) => Some(spec),
            _ => None,
        }
    }

    /// The name of the index on `_id`.
    pub fn id_index_name(&self) -> &str {
        match self.clustered_index().and_then(|spec| spec.get("name")) {
            Some(ValueRef::String(name)) => name,
            _ => "_id_",
        }
    }

    /// `expireAfterSeconds` of the collection itself.
    pub fn expire_after_seconds(&self) -> Option<i64> {
        arbor_lang::number::exact_i64(self.options.get("expireAfterSeconds")?)
    }

    /// Returns the key of the record with this `_id`.
    pub fn id_key(&self, id: ValueRef<'_>) -> Vec<u8> {
        self.collation.key_of(id).bytes
    }

    /// The text index that queries may use, with its place.
    pub fn text_index(&self) -> Option<(usize, &Arc<Index>)> {
        let is_text = |(_, index): &(usize, &Arc<Index>)| index.generator.text().is_some() && !index.hidden;
        self.indexes.iter().enumerate().find(is_text)
    }

    /// The specification of the `_id` index.
    pub fn id_index_spec(&self) -> DocBuf {
        let plain = || DocBuf::new().with("v", 2i32).with("key", &DocBuf::new().with("_id", 1i32)).with("name", "_id_");
        let clustered = self.clustered_index().map(|spec| spec.to_buf().with("clustered", true));
        let mut spec = clustered.unwrap_or_else(plain);
        if !self.collation.is_simple() {
            spec.append("collation", &self.collation.to_doc());
        }
        spec
    }

    /// Specifications that give equal indexes on another collection with these options: one that does not take the
    /// collection's collation says so.
    pub fn index_specs_to_copy(&self) -> Vec<DocBuf> {
        let simple = Collation::simple().to_doc();
        let copied = self.indexes.iter().map(|index| match index.collation.is_simple() {
            true => index.spec.doc.clone().with("collation", &simple),
            false => index.spec.doc.clone(),
        });
        copied.collect()
    }

    /// All specifications as `listIndexes` shows them, `_id_` first.
    pub fn index_specs(&self) -> Vec<DocBuf> {
        std::iter::once(self.id_index_spec()).chain(self.indexes.iter().map(|index| index.spec.doc.clone())).collect()
    }

    /// A new version to be changed; latch and indexes are shared.
    pub(crate) fn copy(&self) -> Collection {
        Collection {
            uuid: self.uuid,
            namespace: self.namespace.clone(),
            options: self.options.clone(),
            collation: self.collation.clone(),
            engine: self.engine.clone(),
            tree: self.tree,
            partitions: self.partitions.clone(),
            order: self.order,
            indexes: self.indexes.clone(),
            latch: self.latch.clone(),
            arrivals: self.arrivals.clone(),
            shard_key: self.shard_key.clone(),
            usage: self.usage.clone(),
        }
    }

    /// `changeStreamPreAndPostImages`: the history has documents as they were before a change.
    pub fn keeps_pre_images(&self) -> bool {
        match self.options.get("changeStreamPreAndPostImages") {
            Some(ValueRef::Document(images)) => matches!(images.get("enabled"), Some(ValueRef::Bool(true))),
            _ => false,
        }
    }

    /// All trees that are its own.
    pub fn trees(&self) -> impl Iterator<Item = TreeId> + '_ {
        self.record_trees().chain(self.order).chain(self.indexes.iter().flat_map(|index| index.trees()))
    }

    /// Notifies of writers that are done; of a capped collection only.
    pub fn arrivals(&self) -> &Arc<Arrivals> {
        &self.arrivals
    }
}

/// The counter of the documents in a tree of records.
pub(crate) fn count_counter(records: TreeId) -> CounterId {
    CounterId(records.0 * 2)
}

/// The counter of the bytes of the documents in a tree of records.
pub(crate) fn bytes_counter(records: TreeId) -> CounterId {
    CounterId(records.0 * 2 + 1)
}

/// Counts updates of documents that were not read: by what they have changed the size of the documents is not counted.
pub(crate) fn unread_counter(records: TreeId) -> CounterId {
    CounterId(records.0 | 1 << 63)
}

/// A collection whose catalogue entry stays as it is while this is held. Writers need one from before their transaction
/// begins until it is committed; readers need none.
#[derive(Debug)]
pub struct CollectionGuard {
    pub(crate) collection: Arc<Collection>,
    pub(crate) _guard: SharedGuard,
}

impl CollectionGuard {
    pub fn collection(&self) -> &Arc<Collection> {
        &self.collection
    }
}

impl Deref for CollectionGuard {
    type Target = Collection;
    fn deref(&self) -> &Collection {
        &self.collection
    }
}

/// Notifies waiting readers: the writer that held it has committed or given up.
impl Drop for CollectionGuard {
    fn drop(&mut self) {
        if self.collection.order.is_some() {
            self.collection.arrivals.note();
        }
    }
}
