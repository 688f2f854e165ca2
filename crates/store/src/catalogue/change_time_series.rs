//! Time series: a view, and the collection `system.buckets.NAME` behind it, which come and go together.

use std::sync::Arc;

use arbor_bson::{ArrayBuf, DocBuf, ValueRef, compare_docs};

use crate::catalogue::change_collections::{COLLECTION_DROPPED, drop_collection};
use crate::namespace::BUCKETS_PREFIX;
use crate::noting::commands as noting;
use crate::{Collection, Created, Error, Namespace, Result, Store, ViewDefinition};

impl Collection {
    /// `timeseries` of a collection of buckets.
    pub fn time_series(&self) -> Option<arbor_bson::Doc<'_>> {
        match self.options.get("timeseries") {
            Some(ValueRef::Document(options)) => Some(options),
            _ => None,
        }
    }
}

impl ViewDefinition {
    /// It shows the measurements of a collection of buckets.
    pub fn is_time_series(&self) -> bool {
        self.view_on.is_buckets()
            && self.view_on.collection().strip_prefix(BUCKETS_PREFIX) == Some(self.namespace.collection())
    }
}

impl Store {
    /// The buckets behind a time series of this name. None: there is no such time series.
    pub fn buckets_of(&self, namespace: &Namespace) -> Option<Arc<Collection>> {
        self.with_catalogue(|catalogue| {
            let view = catalogue.view(namespace).filter(|view| view.is_time_series())?;
            catalogue.collection(&view.view_on).filter(|own| own.time_series().is_some()).cloned()
        })
    }

    /// Creates view and buckets. `options` are those of the buckets.
    /// Errors: `NamespaceExists` when something else has the name.
    pub fn create_time_series(&self, namespace: &Namespace, options: &DocBuf, stages: ArrayBuf) -> Result<Created> {
        namespace.check_creatable()?;
        let view_on = Namespace::new(namespace.db(), &format!("{BUCKETS_PREFIX}{}", namespace.collection()))?;
        let _changing = self.lock_changes();
        let catalogue = self.current();
        match (catalogue.view(namespace), catalogue.collection(&view_on)) {
            (Some(view), Some(buckets)) if view.is_time_series() => {
                let same = compare_docs(buckets.options.as_doc(), options.as_doc()).is_eq();
                return if same { Ok(Created::Before) } else { Err(Error::NamespaceExists(namespace.clone())) };
            }
            (None, None) if catalogue.collection(namespace).is_none() => {}
            _ => return Err(Error::NamespaceExists(namespace.clone())),
        }
        catalogue.check_case(namespace.db())?;
        let mut txn = self.transactions.begin()?;
        let buckets = self.put_new_collection(&mut txn, &view_on, options)?;
        let collation = buckets.collation.clone();
        let view = ViewDefinition { namespace: namespace.clone(), view_on, pipeline: stages, collation };
        noting::put_view(&mut txn, &view, true);
        self.commit_change(txn, |catalogue| {
            catalogue.put(Arc::new(buckets));
            catalogue.put_view(Arc::new(view));
        })?;
        Ok(Created::Now)
    }

    /// Gives the time series `to` the buckets of `from`, which ceases to be. Both must exist, and have the same options.
    pub fn replace_time_series(&self, from: &Namespace, to: &Namespace) -> Result<()> {
        let buckets =
            |series: &Namespace| self.buckets_of(series).ok_or_else(|| Error::NamespaceNotFound(series.clone()));
        self.rename_checked(&buckets(from)?.namespace, &buckets(to)?.namespace, true, true)?;
        self.drop_view(from).map(drop)
    }

    /// Returns true if there was one.
    pub fn drop_time_series(&self, namespace: &Namespace) -> Result<bool> {
        let Some(buckets) = self.buckets_of(namespace) else { return Ok(false) };
        let Some((buckets, _guard)) = self.hold_exclusive(&buckets.namespace) else { return Ok(false) };
        self.switches.break_off(&buckets);
        self.builds.break_off(&buckets, COLLECTION_DROPPED);
        let _changing = self.lock_changes();
        let mut txn = self.transactions.begin()?;
        drop_collection(&mut txn, &buckets)?;
        noting::delete_view(&mut txn, namespace);
        self.commit_change(txn, |catalogue| {
            catalogue.remove(&buckets.namespace);
            catalogue.remove(namespace);
        })?;
        Ok(true)
    }

    /// Gives the buckets other options, and the view other stages (collMod). The view is first: it may expect buckets that are
    /// larger than those that are written, not the reverse.
    pub fn change_time_series(&self, namespace: &Namespace, options: &DocBuf, stages: ArrayBuf) -> Result<()> {
        let missing = || Error::NamespaceNotFound(namespace.clone());
        let buckets = self.buckets_of(namespace).ok_or_else(missing)?;
        let view_on = buckets.namespace.clone();
        let collation = buckets.collation.clone();
        self.change_view(ViewDefinition { namespace: namespace.clone(), view_on, pipeline: stages, collation })?;
        self.set_options(&buckets.namespace, options)
    }
}
