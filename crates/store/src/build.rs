//! Index builds in the foreground: the collection's latch is held exclusively all the time.
//!
//! A small collection is indexed inside the transaction that adds the index to the catalogue. A larger one in four steps:
//!
//! | step | a crash after it leaves |
//! |---|---|
//! | 1. commit: create the trees, note the builds in the catalogue | empty trees, dropped at the start |
//! | 2. scan the records, sort the keys, fill each tree with `bulk_load` | empty or whole trees, dropped at the start |
//! | 3. checkpoint: the rows, which are in no log, become durable | the same |
//! | 4. commit: the indexes join the collection, the notes go | ready indexes |

use std::sync::Arc;

use arbor_bson::Doc;
use arbor_bson::keystring::Key;
use arbor_txn::{Durability, Transaction, Transactions};

use crate::catalogue::{self, CATALOGUE};
use crate::change_collections::put_collection;
use crate::index::Multikey;
use crate::index_spec::IndexSpec;
use crate::sorter::{Merge, Row, Sorter};
use crate::write::{check_unique, duplicate_key, entry_of};
use crate::{Collection, Index, RecordCursor, Result, Store, data_size, entry};

/// Requires the collection's latch held exclusively.
pub(crate) struct Build<'a> {
    pub store: &'a Store,
    pub collection: &'a Collection,
    /// The index in whose place the new one comes; its tree goes.
    pub replaced: Option<Arc<Index>>,
}

impl Build<'_> {
    /// Ensures on `Ok`: the indexes are ready and in the catalogue.
    pub fn run(&self, specs: Vec<IndexSpec>) -> Result<()> {
        let size = data_size(&self.transactions().read()?, self.collection)?;
        if size <= self.store.options.build_in_transaction_bytes {
            return self.run_in_transaction(specs);
        }
        let indexes = self.begin(specs)?;
        let built = self.fill(&indexes).and_then(|()| Ok(self.transactions().checkpoint_now().map(drop)?));
        match built {
            Ok(()) => self.complete(self.transactions().begin()?, indexes),
            Err(error) => {
                // What cannot be dropped now is dropped at the next start.
                let _kept_for_later = self.give_up(&indexes);
                Err(error)
            }
        }
    }

    fn transactions(&self) -> &Transactions {
        &self.store.transactions
    }

    fn create(&self, txn: &mut Transaction, specs: Vec<IndexSpec>) -> Result<Vec<Arc<Index>>> {
        let create = |spec: IndexSpec| {
            let multikey = Multikey::new(&vec![0; spec.key_pattern.len()]);
            let own = self.collection;
            let new = self.store.options.trees.of_index(spec.doc.as_doc(), own.options.as_doc(), &own.engine)?;
            Ok(Arc::new(spec.into_index(txn.create_tree(new.options), new.engine.into(), multikey)))
        };
        specs.into_iter().map(create).collect()
    }

    fn run_in_transaction(&self, specs: Vec<IndexSpec>) -> Result<()> {
        let mut txn = self.transactions().begin()?;
        let indexes = self.create(&mut txn, specs)?;
        self.scan(&indexes, |at, key, (entry, value)| {
            if let Some(index) = indexes.get(at) {
                check_unique(&txn, self.collection, index, key)?;
                txn.put(index.tree, entry, value);
            }
            Ok(())
        })?;
        self.complete(txn, indexes)
    }

    /// Calls `each` with every key of every document and the entry for it, and notes the multikey components.
    fn scan(&self, indexes: &[Arc<Index>], mut each: impl FnMut(usize, &Key, Row) -> Result<()>) -> Result<()> {
        let view = self.transactions().read()?;
        let mut cursor = RecordCursor::new(&view, self.collection)?;
        let mut stands = cursor.first()?;
        while stands {
            let doc: Doc<'_> = cursor.doc();
            for (at, index) in indexes.iter().enumerate() {
                let keys = index.keys_of(doc)?;
                index.multikey.expect(&keys.multikey);
                let row = |key| (entry_of(index, key, cursor.id_key(), doc), key);
                keys.keys.iter().map(row).try_for_each(|(row, key)| each(at, key, row))?;
            }
            stands = cursor.next()?;
        }
        Ok(())
    }

    fn begin(&self, specs: Vec<IndexSpec>) -> Result<Vec<Arc<Index>>> {
        let mut txn = self.transactions().begin()?;
        let indexes = self.create(&mut txn, specs)?;
        for index in &indexes {
            txn.put(CATALOGUE, catalogue::build_key(index.tree), self.collection.namespace.as_str());
        }
        txn.commit(Durability::Applied)?;
        Ok(indexes)
    }

    fn fill(&self, indexes: &[Arc<Index>]) -> Result<()> {
        let options = &self.store.options;
        let memory = options.build_memory_bytes / indexes.len().max(1);
        let mut sorters: Vec<Sorter> = indexes.iter().map(|_| Sorter::new(&options.scratch, memory)).collect();
        self.scan(indexes, |at, _, row| match sorters.get_mut(at) {
            Some(sorter) => sorter.push(row),
            None => Ok(()),
        })?;
        indexes.iter().zip(sorters).try_for_each(|(index, sorter)| self.load(index, sorter.finish()?))
    }

    fn load(&self, index: &Index, merge: Merge) -> Result<()> {
        let mut rows = Rows { merge, index, collection: self.collection, last_key: Vec::new(), error: None };
        let loaded = self.transactions().engine().bulk_load(index.tree, &mut rows);
        match rows.error {
            Some(error) => Err(error),
            None => Ok(loaded?),
        }
    }

    /// Adds the indexes to the collection and commits.
    fn complete(&self, mut txn: Transaction, built: Vec<Arc<Index>>) -> Result<()> {
        for index in &built {
            let masks = index.multikey.expected();
            if masks.iter().any(|mask| *mask != 0) {
                txn.put(CATALOGUE, catalogue::multikey_key(index.tree), catalogue::encode_masks(&masks));
            }
            txn.delete(CATALOGUE, catalogue::build_key(index.tree));
        }
        let _changing = self.store.lock_changes();
        let changed = self.joined_by(&mut txn, built);
        put_collection(&mut txn, &changed);
        self.store.commit_change(txn, |catalogue| catalogue.put(Arc::new(changed)))
    }

    /// The collection with the new indexes.
    fn joined_by(&self, txn: &mut Transaction, built: Vec<Arc<Index>>) -> Collection {
        let mut changed = self.collection.copy();
        for new in built {
            match &self.replaced {
                Some(old) => {
                    txn.drop_tree(old.tree);
                    txn.delete(CATALOGUE, catalogue::multikey_key(old.tree));
                    changed = changed.with_index_replaced(old, new);
                }
                None => changed.indexes.push(new),
            }
        }
        changed
    }

    fn give_up(&self, indexes: &[Arc<Index>]) -> Result<()> {
        let mut txn = self.transactions().begin()?;
        for index in indexes {
            txn.drop_tree(index.tree);
            txn.delete(CATALOGUE, catalogue::build_key(index.tree));
        }
        txn.commit(Durability::Applied)?;
        Ok(())
    }
}

/// Sorted rows for `bulk_load`; ends early at a duplicate or a failed read, and keeps the error.
struct Rows<'a> {
    merge: Merge,
    index: &'a Index,
    collection: &'a Collection,
    last_key: Vec<u8>,
    error: Option<crate::Error>,
}

impl Rows<'_> {
    fn checked_next(&mut self) -> Result<Option<Row>> {
        let Some((key, value)) = self.merge.next()? else { return Ok(None) };
        if self.index.unique && key == self.last_key {
            let type_bits = entry::decode(self.index, &key, &value)?.type_bits.to_vec();
            return Err(duplicate_key(self.collection, self.index, &Key { bytes: key, type_bits }));
        }
        if self.index.unique {
            self.last_key.clone_from(&key);
        }
        Ok(Some((key, value)))
    }
}

impl Iterator for Rows<'_> {
    type Item = Row;

    fn next(&mut self) -> Option<Row> {
        if self.error.is_some() {
            return None;
        }
        self.checked_next().unwrap_or_else(|error| {
            self.error = Some(error);
            None
        })
    }
}
