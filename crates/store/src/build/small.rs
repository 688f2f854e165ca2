//! The build of a small collection: under the latch, inside the transaction that adds the index to the catalogue.

use std::sync::Arc;

use arbor_txn::Transaction;

use super::scan::each_document;
use super::{Build, specs_of};
use crate::index::spec::IndexSpec;
use crate::noting::commands::{self as noting, BuildStep};
use crate::read::record::count;
use crate::write::{check_unique, entry_of};
use crate::{Index, Result};

impl Build<'_> {
    /// Requires the collection's latch held exclusively.
    pub(super) fn run_in_transaction(&self, specs: Vec<IndexSpec>) -> Result<()> {
        debug_assert!(self.collection.latch.is_held_exclusively(), "no writer adds a document without its keys");
        let mut txn = self.transactions().begin()?;
        let indexes = self.create(&mut txn, specs)?;
        self.note_whole(&mut txn, &indexes)?;
        each_document(&self.transactions().read()?, self.collection, |id_key, doc| {
            for index in &indexes {
                let keys = index.keys_of(doc)?;
                index.multikey.expect(&keys.multikey);
                for key in &keys.keys {
                    check_unique(&txn, self.collection, index, key)?;
                    let (entry, value) = entry_of(index, key, id_key, doc);
                    txn.put(index.tree_of(id_key), entry, value);
                }
            }
            Ok(())
        })?;
        self.complete(txn, self.collection, indexes)
    }

    fn note_whole(&self, txn: &mut Transaction, indexes: &[Arc<Index>]) -> Result<()> {
        if let (Some(replaced), [index]) = (&self.replaced, indexes) {
            noting::index_changed(txn, self.collection, replaced, index);
        } else if count(txn, self.collection)? == 0 {
            noting::indexes_created(txn, self.collection, indexes);
        } else {
            self.note_start(txn, indexes);
            noting::build(txn, self.collection, self.uuid, &specs_of(indexes), BuildStep::Committed);
        }
        Ok(())
    }
}
