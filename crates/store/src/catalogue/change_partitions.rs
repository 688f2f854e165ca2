//! `convertToPartitioned`, `addPartition` and `dropPartition` (TokuMX). Each is one short transaction, whatever the collection holds.

use std::sync::Arc;

use arbor_bson::{Doc, DocBuf, ValueRef};
use arbor_txn::{Transaction, TreeOptions, View};

use crate::catalogue::change_collections::{drop_records, put_collection};
use crate::catalogue::{self, CATALOGUE};
use crate::collection::count_counter;
use crate::index::parts::IndexPart;
use crate::latch::ExclusiveGuard;
use crate::noting::commands as noting;
use crate::partition::{INFO_BYTES_MAX, PartitionMax, ROW_BYTES_MAX};
use crate::{
    Collection, Error, Index, Namespace, PARTITIONS_MAX, Partition, PartitionsDropped, RecordCursor, Result, Store,
};

fn refused<T>(reason: impl Into<String>) -> Result<T> {
    Err(Error::IllegalOperation(reason.into()))
}

impl Store {
    fn hold_to_partition(&self, namespace: &Namespace) -> Result<(Arc<Collection>, ExclusiveGuard)> {
        let held = self.hold_exclusive(namespace).ok_or_else(|| Error::NamespaceNotFound(namespace.clone()))?;
        self.switches.refuse(&held.0, "partition")?;
        self.builds.refuse(&held.0)?;
        Ok(held)
    }

    /// The only partition is then the tree that it has, and so it is in its indexes. Requires a collection without unique indexes that is not capped.
    pub fn convert_to_partitioned(&self, namespace: &Namespace) -> Result<()> {
        let (old, _guard) = self.hold_to_partition(namespace)?;
        if !old.partitions.is_empty() {
            return refused(format!("{namespace} is partitioned already"));
        }
        if old.order.is_some() {
            return refused(format!("{namespace} is capped, and a capped collection cannot be partitioned"));
        }
        if let Some(unique) = old.indexes.iter().find(|index| index.unique || index.prepare_unique) {
            let name = &unique.name;
            return refused(format!(
                "{namespace} has the unique index {name}, which a partitioned collection cannot have"
            ));
        }
        if old.clustered_index().is_some() {
            return refused(format!("{namespace} is a clustered collection, which cannot be partitioned"));
        }
        let _changing = self.lock_changes();
        let options = old.options.clone().with("partitioned", true);
        let mut txn = self.transactions.begin()?;
        let first = Arc::new(Partition::first(old.tree));
        let indexes = old.indexes.iter().map(|index| self.convert_index(&mut txn, &old, index, &first));
        let indexes = indexes.collect::<Result<Vec<_>>>()?;
        let new = Collection { options, indexes, partitions: [first].into(), ..old.copy() };
        let says = DocBuf::new().with("convertToPartitioned", namespace.collection());
        noting::partitions_changed(&mut txn, &old, &says);
        self.commit_partitions(txn, &old, new)
    }

    /// Ends the range of the last partition at `max` and adds one behind it. Without `max` the range ends at the last record.
    pub fn add_partition(&self, namespace: &Namespace, max: Option<ValueRef<'_>>, info: Option<Doc<'_>>) -> Result<()> {
        let (old, _guard) = self.hold_to_partition(namespace)?;
        let Some((last, before)) = old.partitions.split_last() else { return not_partitioned(namespace) };
        if old.partitions.len() >= PARTITIONS_MAX {
            return refused(format!("{namespace} has {PARTITIONS_MAX} partitions, and cannot have more"));
        }
        if info.is_some_and(|info| info.as_bytes().len() > INFO_BYTES_MAX) {
            return refused(format!("the info of a partition has at most {INFO_BYTES_MAX} bytes"));
        }
        let _changing = self.lock_changes();
        let mut txn = self.transactions.begin()?;
        let newest = last_record(&txn, &old, last)?;
        let max = match (max, newest) {
            (None, None) => return refused("the last partition is empty: addPartition needs a newMax"),
            (None, Some(newest)) => newest,
            (Some(id), newest) => {
                let max = PartitionMax { doc: DocBuf::new().with("_id", id), key: old.id_key(id) };
                if newest.is_some_and(|newest| newest.key > max.key) {
                    return refused("newMax is less than the greatest _id of the collection");
                }
                max
            }
        };
        let ends = before.last().and_then(|own| own.max.as_ref());
        if ends.is_some_and(|ends| ends.key >= max.key) {
            return refused("newMax is not greater than the maximum of the partition before");
        }
        let trees = self.options.trees.of_partition(old.options.as_doc(), &old.engine)?;
        let tree = txn.create_tree(trees.options);
        let mut says = DocBuf::new().with("addPartition", namespace.collection()).with("newMax", &max.doc);
        if let Some(info) = info {
            says.append("info", info);
        }
        let mut partitions = before.to_vec();
        partitions.push(Arc::new(Partition { max: Some(max), ..Partition::clone(last) }));
        partitions.push(Arc::new(last.next(tree, info.map(|info| info.to_buf()))));
        noting::partitions_changed(&mut txn, &old, &says);
        self.commit_partitions(txn, &old, Collection { tree, partitions: partitions.into(), ..old.copy() })
    }

    /// The tree of the index is that of the first partition, and a new one names it.
    fn convert_index(
        &self,
        txn: &mut Transaction,
        old: &Collection,
        index: &Index,
        first: &Arc<Partition>,
    ) -> Result<Arc<Index>> {
        let tree = txn.create_tree(self.tree_of_index(old, index)?);
        if let Some(masks) = txn.get(CATALOGUE, &catalogue::multikey_key(index.tree))?.map(|masks| masks.into_owned()) {
            txn.delete(CATALOGUE, catalogue::multikey_key(index.tree));
            txn.put(CATALOGUE, catalogue::multikey_key(tree), masks);
        }
        let parts = [IndexPart { partition: first.clone(), tree: index.tree }].into();
        Ok(Arc::new(Index { tree, parts, ..index.clone() }))
    }

    fn tree_of_index(&self, collection: &Collection, index: &Index) -> Result<TreeOptions> {
        let trees = &self.options.trees;
        Ok(trees.of_index(index.spec.doc.as_doc(), collection.options.as_doc(), &collection.engine)?.options)
    }

    /// The index over other partitions: new ones get a tree, and the trees of those that are gone go.
    fn cut_index(
        &self,
        txn: &mut Transaction,
        old: &Collection,
        index: &Index,
        partitions: &[Arc<Partition>],
    ) -> Result<Arc<Index>> {
        let mut parts = Vec::with_capacity(partitions.len());
        for partition in partitions {
            let tree = match index.tree_of_partition(partition.id) {
                Some(tree) => tree,
                None => txn.create_tree(self.tree_of_index(old, index)?),
            };
            parts.push(IndexPart { partition: partition.clone(), tree });
        }
        let parts: Arc<[IndexPart]> = parts.into();
        let cut = Arc::new(Index { parts, ..index.clone() });
        let gone = index.parts.iter().filter(|part| cut.tree_of_partition(part.partition.id).is_none());
        gone.for_each(|part| txn.drop_tree(part.tree));
        Ok(cut)
    }

    /// Drops partitions with their records; their ranges become part of the next partition, or of the one before where they
    /// were the last. Returns the number of partitions dropped. One of them has to stay.
    pub fn drop_partitions(&self, namespace: &Namespace, which: PartitionsDropped<'_>) -> Result<usize> {
        let (old, _guard) = self.hold_to_partition(namespace)?;
        if old.partitions.is_empty() {
            return not_partitioned(namespace);
        }
        let says = DocBuf::new().with("dropPartition", namespace.collection());
        let (says, through) = match which {
            PartitionsDropped::Id(id) => (says.with("id", id), None),
            PartitionsDropped::Through(id) => (says.with("max", &DocBuf::new().with("_id", id)), Some(old.id_key(id))),
        };
        let goes = |own: &Arc<Partition>| match which {
            PartitionsDropped::Id(id) => own.id == id,
            PartitionsDropped::Through(_) => own.max.as_ref().is_some_and(|max| Some(&max.key) <= through.as_ref()),
        };
        let (gone, mut partitions): (Vec<_>, Vec<_>) = old.partitions.iter().cloned().partition(goes);
        if let (PartitionsDropped::Id(id), []) = (which, gone.as_slice()) {
            return refused(format!("{namespace} has no partition {id}"));
        }
        if gone.is_empty() {
            return Ok(0);
        }
        let Some(last) = partitions.pop() else {
            return refused(format!("partition of {namespace} is the only one: drop the collection instead"));
        };
        let tree = last.tree;
        partitions.push(Arc::new(Partition { max: None, ..Partition::clone(&last) }));
        let _changing = self.lock_changes();
        let mut txn = self.transactions.begin()?;
        let mut records = 0;
        for own in &gone {
            records += txn.counter(count_counter(own.tree))?.max(0) as u64;
            drop_records(&mut txn, own.tree);
        }
        noting::partitions_dropped(&mut txn, &old, &says, &range_of(&old, &gone), records);
        self.commit_partitions(txn, &old, Collection { tree, partitions: partitions.into(), ..old.copy() })?;
        Ok(gone.len())
    }

    /// Requires the lock of [`Store::lock_changes`].
    fn commit_partitions(&self, mut txn: Transaction, old: &Collection, mut new: Collection) -> Result<()> {
        if !old.partitions.is_empty() {
            let indexes = old.indexes.iter().map(|index| self.cut_index(&mut txn, old, index, &new.partitions));
            new.indexes = indexes.collect::<Result<_>>()?;
        }
        new.validate_partitions();
        let row_bytes = catalogue::encode_collection(&new).as_bytes().len();
        if row_bytes > ROW_BYTES_MAX && new.partitions.len() > old.partitions.len() {
            return refused(format!("the partitions of {} need more than {ROW_BYTES_MAX} bytes", new.namespace));
        }
        put_collection(&mut txn, &new);
        self.commit_change(txn, |catalogue| catalogue.put(Arc::new(new)))
    }
}

/// `{min, max}` of partitions that follow each other: of `min < _id <= max`. One that has no end lacks it.
fn range_of(collection: &Collection, partitions: &[Arc<Partition>]) -> DocBuf {
    let mut range = DocBuf::new();
    let first = partitions.first().map_or(0, |first| first.id);
    let before = collection.partitions.iter().rev().find(|own| own.id < first);
    for (name, end) in [("min", before), ("max", partitions.last())] {
        if let Some(end) = end.and_then(|own| own.max.as_ref()) {
            range.append(name, &end.doc);
        }
    }
    range
}

fn not_partitioned<T>(namespace: &Namespace) -> Result<T> {
    refused(format!("{namespace} is not partitioned"))
}

/// The place of the last record, if it is in the last partition.
fn last_record(txn: &Transaction, collection: &Collection, last: &Partition) -> Result<Option<PartitionMax>> {
    let mut cursor = RecordCursor::new(txn, collection)?;
    if !cursor.last()? || collection.tree_of(cursor.id_key()) != last.tree {
        return Ok(None);
    }
    let id = cursor.doc().get("_id").ok_or_else(|| Error::Corrupt {
        place: format!("a record of {}", collection.namespace),
        reason: "it has no _id".into(),
    })?;
    Ok(Some(PartitionMax { doc: DocBuf::new().with("_id", id), key: cursor.id_key().to_vec() }))
}
