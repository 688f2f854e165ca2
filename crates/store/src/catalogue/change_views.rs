//! Creating, changing and dropping views.

use std::sync::Arc;

use crate::noting::commands as noting;
use crate::{Created, Error, Namespace, Result, Store, ViewDefinition};

impl Store {
    /// Errors: `NamespaceExists` for a collection, or for a view that is another; `ViewCycle`, `ViewTooDeep`.
    pub fn create_view(&self, view: ViewDefinition) -> Result<Created> {
        view.namespace.check_creatable()?;
        let _changing = self.lock_changes();
        let catalogue = self.current();
        match catalogue.view(&view.namespace) {
            Some(existing) if existing.is_same(&view) => return Ok(Created::Before),
            None if catalogue.collection(&view.namespace).is_none() => {}
            _ => return Err(Error::NamespaceExists(view.namespace)),
        }
        catalogue.check_case(view.namespace.db())?;
        view.check_nesting(&catalogue)?;
        self.put_view(view)?;
        Ok(Created::Now)
    }

    /// Gives a view another definition. Errors: `NamespaceNotFound`, `ViewCycle`, `ViewTooDeep`.
    pub fn change_view(&self, view: ViewDefinition) -> Result<()> {
        let _changing = self.lock_changes();
        let catalogue = self.current();
        if catalogue.view(&view.namespace).is_none() {
            return Err(Error::NamespaceNotFound(view.namespace));
        }
        view.check_nesting(&catalogue)?;
        self.put_view(view)
    }

    /// Returns true if there was one.
    pub fn drop_view(&self, namespace: &Namespace) -> Result<bool> {
        let _changing = self.lock_changes();
        if self.view(namespace).is_none() {
            return Ok(false);
        }
        let mut txn = self.transactions.begin()?;
        noting::delete_view(&mut txn, namespace);
        self.commit_change(txn, |catalogue| catalogue.remove(namespace))?;
        Ok(true)
    }

    /// The view of this name.
    pub fn view(&self, namespace: &Namespace) -> Option<Arc<ViewDefinition>> {
        self.with_catalogue(|catalogue| catalogue.view(namespace).cloned())
    }

    /// For callers that expected a collection and found none of this name. Errors: `NamespaceIsView`.
    pub fn refuse_view(&self, namespace: &Namespace) -> Result<()> {
        match self.view(namespace) {
            Some(_) => Err(Error::NamespaceIsView(namespace.clone())),
            None => Ok(()),
        }
    }

    /// Views in order of their names.
    pub fn list_views(&self, db: &str) -> Vec<Arc<ViewDefinition>> {
        self.with_catalogue(|catalogue| {
            catalogue.databases.get(db).map(|own| own.views.values().cloned().collect()).unwrap_or_default()
        })
    }

    /// Requires the lock of [`Store::lock_changes`].
    fn put_view(&self, view: ViewDefinition) -> Result<()> {
        let mut txn = self.transactions.begin()?;
        noting::put_view(&mut txn, &view, self.view(&view.namespace).is_none());
        self.commit_change(txn, |catalogue| catalogue.put_view(Arc::new(view)))
    }
}
