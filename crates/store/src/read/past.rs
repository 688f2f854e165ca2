//! Collections as a view shows them, which may be another state than that of the catalogue in memory.

use std::sync::Arc;

use arbor_txn::View;

use crate::catalogue::{self, CATALOGUE};
use crate::{Collection, Namespace, Result, Store};

impl Store {
    /// Returns the collection with the indexes that it has in the view; without changes since, it is the collection of the
    /// catalogue. `None`: it does not exist there. For reading only.
    pub fn collection_in(&self, view: &(impl View + ?Sized), namespace: &Namespace) -> Result<Option<Arc<Collection>>> {
        let Some(row) = view.get(CATALOGUE, &catalogue::collection_key(namespace))? else { return Ok(None) };
        let now = self.collection(namespace);
        if let Some(now) = now.as_ref().filter(|now| now.has_row(&row)) {
            return Ok(Some(now.clone()));
        }
        let then = catalogue::decode_collection(view, namespace.clone(), &row, self.options.trees.home)?;
        // entries of older releases have other bytes and say the same
        match now.filter(|now| now.has_row(catalogue::encode_collection(&then).as_bytes())) {
            Some(now) => Ok(Some(now)),
            None => Ok(Some(Arc::new(then))),
        }
    }

    /// Returns the collections and views of a view, in order; `None`: it is a view.
    pub fn listed_in(&self, view: &(impl View + ?Sized)) -> Result<Vec<(Namespace, Option<Collection>)>> {
        catalogue::listed(view, self.options.trees.home)
    }
}

impl Collection {
    fn has_row(&self, row: &[u8]) -> bool {
        catalogue::encode_collection(self).as_bytes() == row
    }
}
