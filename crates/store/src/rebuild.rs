//! `reIndex`: every index of a collection is built anew, with the collection closed for writes, and put in the place of the old
//! one. One that cannot be built (a unique index that found duplicates) stays as it is, and so do those behind it.

use crate::build::Build;
use crate::change_indexes::by_name;
use crate::index_spec::IndexSpec;
use crate::{Error, Namespace, Result, Store};

impl Store {
    /// Answers how many secondary indexes were built. The index on `_id` is the records themselves.
    pub fn rebuild_indexes(&self, namespace: &Namespace) -> Result<usize> {
        let missing = || Error::NamespaceNotFound(namespace.clone());
        let (mut collection, _guard) = self.hold_exclusive(namespace).ok_or_else(missing)?;
        self.switches.refuse(&collection, "reindex")?;
        let names: Vec<String> = collection.indexes.iter().map(|index| index.name.clone()).collect();
        for name in &names {
            let index = by_name(&collection, name)?;
            let spec = IndexSpec::parse(index.spec.as_doc())?;
            Build { store: self, collection: &collection, replaced: Some(index) }.run(vec![spec])?;
            collection = self.collection(namespace).ok_or_else(missing)?;
        }
        Ok(names.len())
    }
}
