//! The build of a small collection: under the latch, inside the transaction that adds the index to the catalogue.

use super::Build;
use super::scan::each_document;
use crate::Result;
use crate::index_spec::IndexSpec;
use crate::write::{check_unique, entry_of};

impl Build<'_> {
    /// Requires the collection's latch held exclusively.
    pub(super) fn run_in_transaction(&self, specs: Vec<IndexSpec>) -> Result<()> {
        let mut txn = self.transactions().begin()?;
        let indexes = self.create(&mut txn, specs)?;
        each_document(&self.transactions().read()?, self.collection, |id_key, doc| {
            for index in &indexes {
                let keys = index.keys_of(doc)?;
                index.multikey.expect(&keys.multikey);
                for key in &keys.keys {
                    check_unique(&txn, self.collection, index, key)?;
                    let (entry, value) = entry_of(index, key, id_key, doc);
                    txn.put(index.tree, entry, value);
                }
            }
            Ok(())
        })?;
        self.complete(txn, self.collection, indexes)
    }
}
