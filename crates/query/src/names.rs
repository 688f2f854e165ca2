//! Lookup of collections by name. Kept by stages that look up again while the cursor is read.

use std::sync::Arc;

use arbor_store::{Collection, Namespace, Store};
use arbor_txn::ReadView;

use crate::Result;
use crate::elsewhere::Elsewhere;

#[derive(Clone)]
pub(crate) struct Names {
    store: Arc<Store>,
    /// None: names are those of the moment at which they are looked up.
    view: Option<ReadView>,
    /// The collections are on other servers.
    elsewhere: Option<Arc<dyn Elsewhere>>,
}

impl Names {
    pub(crate) fn now(store: &Arc<Store>) -> Names {
        Names { store: store.clone(), view: None, elsewhere: None }
    }

    /// As the view shows them.
    pub(crate) fn at(store: &Arc<Store>, view: ReadView) -> Names {
        Names { store: store.clone(), view: Some(view), elsewhere: None }
    }

    /// Returns the names of collections that are on other servers, if there are such.
    pub(crate) fn reading(self, elsewhere: Option<Arc<dyn Elsewhere>>) -> Names {
        Names { elsewhere, ..self }
    }

    pub(crate) fn elsewhere(&self) -> Option<&Arc<dyn Elsewhere>> {
        self.elsewhere.as_ref()
    }

    /// Views have no past: they are those of now.
    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    pub(crate) fn collection(&self, namespace: &Namespace) -> Result<Option<Arc<Collection>>> {
        match &self.view {
            None => Ok(self.store.collection(namespace)),
            Some(view) => Ok(self.store.collection_in(view, namespace)?),
        }
    }
}
