//! Creating, dropping and renaming collections.

use std::collections::BTreeMap;
use std::sync::Arc;

use arbor_base::TreeId;
use arbor_bson::{DocBuf, compare_docs};
use arbor_txn::Transaction;
use uuid::Uuid;

use crate::catalogue::change_indexes::INDEXES_MAX;
use crate::catalogue::{self, CATALOGUE};
use crate::collection::{bytes_counter, count_counter, unread_counter};
use crate::noting::commands as noting;
use crate::read::record::count;
use crate::{Collection, Error, Index, Namespace, Partition, Result, Store, capped, check_database_name, partition};

/// Reasons for which index builds end.
pub(crate) const COLLECTION_DROPPED: &str = "collection dropped";
const DATABASE_DROPPED: &str = "database dropped";

/// The result of `create_collection`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    Now,
    /// It existed, with the same options.
    Before,
}

impl Store {
    /// Refuses what no collection may be called: with a history, its name as well.
    pub(crate) fn check_name(&self, namespace: &Namespace) -> Result<()> {
        if namespace.as_str() == "local.oplog.rs" && self.transactions().retention().is_some() {
            let reason = "it shows the log, and takes no writes";
            return Err(Error::InvalidNamespace { namespace: namespace.to_string(), reason });
        }
        namespace.check_creatable()
    }

    /// Errors: `NamespaceExists` when it is there with other options, `NamespaceIsView`.
    pub fn create_collection(&self, namespace: &Namespace, options: &DocBuf) -> Result<Created> {
        self.check_name(namespace)?;
        let _changing = self.lock_changes();
        let catalogue = self.current();
        if let Some(existing) = catalogue.collection(namespace) {
            let same = compare_docs(existing.options.as_doc(), options.as_doc()).is_eq();
            return if same { Ok(Created::Before) } else { Err(Error::NamespaceExists(namespace.clone())) };
        }
        if catalogue.view(namespace).is_some() {
            return Err(Error::NamespaceIsView(namespace.clone()));
        }
        catalogue.check_case(namespace.db())?;
        let mut txn = self.transactions.begin()?;
        let collection = self.put_new_collection(&mut txn, namespace, options)?;
        self.commit_change(txn, |catalogue| catalogue.put(Arc::new(collection)))?;
        Ok(Created::Now)
    }

    /// A collection with its trees and its row.
    pub(crate) fn put_new_collection(
        &self,
        txn: &mut Transaction,
        namespace: &Namespace,
        options: &DocBuf,
    ) -> Result<Collection> {
        let new = self.options.trees.of_collection(options.as_doc())?;
        let order = capped::is_capped(options.as_doc()).then(|| txn.create_tree(new.options.clone()));
        let tree = txn.create_tree(new.options);
        let is_partitioned = partition::is_partitioned(options.as_doc());
        let collection = Collection {
            uuid: Uuid::new_v4(),
            namespace: namespace.clone(),
            options: options.clone(),
            collation: catalogue::collation_in(options.as_doc())?,
            engine: new.engine.into(),
            order,
            tree,
            partitions: is_partitioned.then(|| Arc::new(Partition::first(tree))).into_iter().collect(),
            indexes: Vec::new(),
            latch: Default::default(),
            arrivals: Arc::default(),
            shard_key: Arc::default(),
            usage: Arc::default(),
        };
        put_collection(txn, &collection);
        noting::created(txn, &collection);
        Ok(collection)
    }

    /// Creates it without options unless it is there with any. Returns true if it was created.
    pub(crate) fn ensure_collection(&self, namespace: &Namespace) -> Result<bool> {
        if self.collection(namespace).is_some() {
            return Ok(false);
        }
        match self.create_collection(namespace, &DocBuf::new()) {
            Ok(created) => Ok(created == Created::Now),
            Err(Error::NamespaceExists(_)) => Ok(false),
            Err(other) => Err(other),
        }
    }

    /// Replaces the options that `listCollections` shows (collMod).
    pub fn set_options(&self, namespace: &Namespace, options: &DocBuf) -> Result<()> {
        let (old, _guard) =
            self.hold_exclusive(namespace).ok_or_else(|| Error::NamespaceNotFound(namespace.clone()))?;
        self.switches.refuse(&old, "change the options of")?;
        let _changing = self.lock_changes();
        let collection = Collection { options: options.clone(), ..old.copy() };
        let mut txn = self.transactions.begin()?;
        put_collection(&mut txn, &collection);
        noting::options_changed(&mut txn, &old, options);
        self.commit_change(txn, |catalogue| catalogue.put(Arc::new(collection)))
    }

    /// Returns what was dropped.
    pub fn drop_collection(&self, namespace: &Namespace) -> Result<Arc<Collection>> {
        self.drop_checked(namespace, true)
    }

    /// Drops a collection without a note: its documents are on other shards.
    pub fn drop_unnoted(&self, namespace: &Namespace) -> Result<()> {
        self.drop_checked(namespace, false).map(drop)
    }

    fn drop_checked(&self, namespace: &Namespace, noted: bool) -> Result<Arc<Collection>> {
        let (collection, _guard) =
            self.hold_exclusive(namespace).ok_or_else(|| Error::NamespaceNotFound(namespace.clone()))?;
        self.switches.break_off(&collection);
        self.builds.break_off(&collection, COLLECTION_DROPPED);
        let _changing = self.lock_changes();
        let mut txn = self.transactions.begin()?;
        match noted {
            true => drop_collection(&mut txn, &collection)?,
            false => remove_collection(&mut txn, &collection),
        }
        self.commit_change(txn, |catalogue| catalogue.remove(namespace))?;
        Ok(collection)
    }

    /// Drops the collections and views that are there when it begins. Returns true if there were any.
    pub fn drop_database(&self, db: &str) -> Result<bool> {
        check_database_name(db)?;
        let _several = self.lock_several();
        let listed = self.list_collections(db);
        let held: Vec<_> = listed.iter().filter_map(|own| self.hold_exclusive(&own.namespace)).collect();
        for (collection, _) in &held {
            self.switches.break_off(collection);
            self.builds.break_off(collection, DATABASE_DROPPED);
        }
        let _changing = self.lock_changes();
        let views = self.list_views(db);
        if held.is_empty() && views.is_empty() {
            return Ok(false);
        }
        let mut txn = self.transactions.begin()?;
        held.iter().try_for_each(|(collection, _)| drop_collection(&mut txn, collection))?;
        views.iter().for_each(|view| noting::delete_view(&mut txn, &view.namespace));
        noting::database_dropped(&mut txn, db);
        self.commit_change(txn, |catalogue| {
            held.iter().for_each(|(own, _)| catalogue.remove(&own.namespace));
            views.iter().for_each(|view| catalogue.remove(&view.namespace));
        })?;
        Ok(true)
    }

    /// Gives the collection another name, maybe in another database. A target that exists is dropped if asked for.
    pub fn rename(&self, from: &Namespace, to: &Namespace, drop_target: bool) -> Result<()> {
        self.check_name(to)?;
        self.rename_checked(from, to, drop_target, true)
    }

    /// Puts a collection in the place of another one, which is dropped, without notes: streams do not show it.
    pub fn replace_unnoted(&self, from: &Namespace, to: &Namespace) -> Result<()> {
        self.rename_checked(from, to, true, false)
    }

    /// Like `rename`, to any name, and without notes if it is not to be `noted`.
    pub(crate) fn rename_checked(
        &self,
        from: &Namespace,
        to: &Namespace,
        drop_target: bool,
        noted: bool,
    ) -> Result<()> {
        if from == to {
            return Err(Error::IllegalOperation("Can't rename a collection to itself".into()));
        }
        let _several = self.lock_several();
        loop {
            let held: BTreeMap<&Namespace, _> =
                [from, to].into_iter().filter_map(|name| Some((name, self.hold_exclusive(name)?))).collect();
            let _changing = self.lock_changes();
            let catalogue = self.current();
            let Some((source, _)) = held.get(from) else {
                self.refuse_view(from)?;
                return Err(Error::NamespaceNotFound(from.clone()));
            };
            let target = held.get(to).map(|(collection, _)| collection);
            if target.is_none() && catalogue.collection(to).is_some() {
                continue;
            }
            if catalogue.view(to).is_some() || (target.is_some() && !drop_target) {
                return Err(Error::NamespaceExists(to.clone()));
            }
            catalogue.check_case(to.db())?;
            debug_assert!(self.is_locking_several(), "a thread that holds two latches is the only one");
            self.switches.refuse(source, "rename")?;
            self.builds.refuse(source)?;
            let mut txn = self.transactions.begin()?;
            if let Some(target) = target {
                self.switches.break_off(target);
                self.builds.break_off(target, COLLECTION_DROPPED);
                let records = count(&txn, target)?;
                if noted {
                    noting::renamed(&mut txn, source, to, Some((target, records)));
                }
                remove_collection(&mut txn, target);
            } else if noted {
                noting::renamed(&mut txn, source, to, None);
            }
            let renamed = Collection { namespace: to.clone(), ..source.copy() };
            txn.delete(CATALOGUE, catalogue::collection_key(from));
            put_collection(&mut txn, &renamed);
            return self.commit_change(txn, |catalogue| {
                catalogue.remove(from);
                catalogue.put(Arc::new(renamed));
            });
        }
    }
}

pub(crate) fn put_collection(txn: &mut Transaction, collection: &Collection) {
    assert!(
        collection.indexes.len() < INDEXES_MAX,
        "{} has {} indexes",
        collection.namespace,
        collection.indexes.len()
    );
    let key = catalogue::collection_key(&collection.namespace);
    txn.put(CATALOGUE, key, catalogue::encode_collection(collection).into_bytes());
}

pub(crate) fn drop_collection(txn: &mut Transaction, collection: &Collection) -> Result<()> {
    noting::dropped(txn, collection, count(txn, collection)?);
    remove_collection(txn, collection);
    Ok(())
}

fn remove_collection(txn: &mut Transaction, collection: &Collection) {
    for index in &collection.indexes {
        drop_index(txn, index);
    }
    collection.record_trees().for_each(|tree| drop_records(txn, tree));
    collection.order.into_iter().for_each(|order| txn.drop_tree(order));
    txn.delete(CATALOGUE, catalogue::collection_key(&collection.namespace));
}

/// Drops the trees of an index with its flags.
pub(crate) fn drop_index(txn: &mut Transaction, index: &Index) {
    index.trees().for_each(|tree| txn.drop_tree(tree));
    txn.delete(CATALOGUE, catalogue::multikey_key(index.tree));
}

/// Drops a tree of records with its counters.
pub(crate) fn drop_records(txn: &mut Transaction, tree: TreeId) {
    txn.drop_tree(tree);
    txn.drop_counter(count_counter(tree));
    txn.drop_counter(bytes_counter(tree));
    txn.drop_counter(unread_counter(tree));
}
