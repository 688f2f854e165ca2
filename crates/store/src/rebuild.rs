//! `reIndex`: every index of a collection is rebuilt, one after the other, like any index build, and put in the place
//! of the old one. One that cannot be built stays as it is, and so do those after it.

use uuid::Uuid;

use crate::build::{Build, BuildSettings};
use crate::index::spec::IndexSpec;
use crate::{Error, Namespace, Result, Store};

impl Store {
    /// Returns the number of secondary indexes built. The index on `_id` is the records themselves. Indexes that are dropped
    /// meanwhile are skipped.
    pub fn rebuild_indexes(&self, namespace: &Namespace, settings: BuildSettings<'_>) -> Result<usize> {
        let missing = || Error::NamespaceNotFound(namespace.clone());
        let collection = self.collection(namespace).ok_or_else(missing)?;
        let mut built = 0;
        for index in &collection.indexes {
            let (collection, latch) = self.hold_exclusive_watched(namespace, settings.watch)?;
            self.switches.refuse(&collection, "reindex")?;
            self.builds.refuse(&collection)?;
            let Some(index) = collection.index(&index.name).cloned() else { continue };
            let spec = IndexSpec::parse(index.spec.doc.as_doc())?;
            let uuid = Uuid::new_v4();
            Build { store: self, collection: &collection, replaced: Some(index), settings, uuid }
                .run(vec![spec], latch)?;
            built += 1;
        }
        Ok(built)
    }
}
