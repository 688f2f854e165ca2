//! Lookup of collections by name. Kept by stages that look up again while the cursor is read.

use std::sync::Arc;

use arbor_store::{Collection, Namespace, Store};
use arbor_txn::ReadView;

use crate::Result;

#[derive(Clone)]
pub struct Names {
    store: Arc<Store>,
    /// None: names are those of the moment at which they are looked up.
    view: Option<ReadView>,
}

impl Names {
    pub fn now(store: &Arc<Store>) -> Names {
        Names { store: store.clone(), view: None }
    }

    /// As the view shows them.
    pub fn at(store: &Arc<Store>, view: ReadView) -> Names {
        Names { store: store.clone(), view: Some(view) }
    }

    /// Views have no past: they are those of now.
    pub fn store(&self) -> &Store {
        &self.store
    }

    pub fn collection(&self, namespace: &Namespace) -> Result<Option<Arc<Collection>>> {
        match &self.view {
            None => Ok(self.store.collection(namespace)),
            Some(view) => Ok(self.store.collection_in(view, namespace)?),
        }
    }
}
