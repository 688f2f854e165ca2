//! The catalogue in memory and the door to collections.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use arbor_txn::Transactions;
use arc_swap::ArcSwap;

use crate::{Collection, Held, Namespace, Result};

#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Folder for the sorted runs of index builds; emptied at the start.
    pub scratch: PathBuf,
    /// Memory of one index build before it spills.
    pub build_memory_bytes: usize,
}

impl Default for StoreOptions {
    fn default() -> StoreOptions {
        StoreOptions { scratch: std::env::temp_dir().join("arbor-scratch"), build_memory_bytes: 200 << 20 }
    }
}

/// Collections and their indexes over one [`Transactions`]. Shared by all threads.
///
/// Readers: take the collection, then the snapshot, then plan (an index in the catalogue is whole in every later
/// snapshot, and multikey flags are set before the commit that needs them). `UnknownTree` from a view means that the
/// collection or index was dropped in between: take it anew.
///
/// Writers: [`Store::hold`] the collection before the transaction begins, until it is committed.
pub struct Store {
    pub(crate) transactions: Arc<Transactions>,
    pub(crate) catalogue: ArcSwap<Catalogue>,
    pub(crate) options: StoreOptions,
    /// One change of the catalogue at a time. Lock order: latches by namespace, then this.
    pub(crate) changing: Mutex<()>,
}

/// One database's collections by name.
pub(crate) type Database = BTreeMap<String, Arc<Collection>>;

/// All databases by name. A database is there while it has collections.
#[derive(Clone, Default)]
pub(crate) struct Catalogue {
    pub databases: BTreeMap<String, Arc<Database>>,
}

impl Catalogue {
    pub fn collection(&self, namespace: &Namespace) -> Option<&Arc<Collection>> {
        self.databases.get(namespace.db())?.get(namespace.collection())
    }
}

impl Store {
    pub fn transactions(&self) -> &Arc<Transactions> {
        &self.transactions
    }

    /// The collection as it is now. Takes no lock.
    pub fn collection(&self, namespace: &Namespace) -> Option<Arc<Collection>> {
        self.catalogue.load().collection(namespace).cloned()
    }

    /// The collection with its latch held shared.
    pub fn hold(&self, namespace: &Namespace) -> Option<Held> {
        loop {
            let collection = self.collection(namespace)?;
            let guard = collection.latch.read();
            let now = self.collection(namespace)?;
            if Arc::ptr_eq(&collection.latch, &now.latch) {
                return Some(Held { collection: now, _guard: guard });
            }
        }
    }

    /// Names in order.
    pub fn list_databases(&self) -> Vec<String> {
        self.catalogue.load().databases.keys().cloned().collect()
    }

    /// Collections in order of their names.
    pub fn list_collections(&self, db: &str) -> Vec<Arc<Collection>> {
        let catalogue = self.catalogue.load();
        catalogue.databases.get(db).map(|all| all.values().cloned().collect()).unwrap_or_default()
    }
}

/// Whether `create_collection` made something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    Now,
    /// It was there with the same options.
    Before,
}

/// What `create_indexes` did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexesCreated {
    pub before: usize,
    pub after: usize,
    pub created_collection: bool,
}

/// Which indexes to drop.
#[derive(Clone, Debug)]
pub enum IndexSelection {
    /// `*`: all but `_id_`.
    All,
    Names(Vec<String>),
    Key(arbor_bson::DocBuf),
}

#[allow(unused_variables)]
impl Store {
    /// Loads the catalogue; what a broken-off index build left is dropped.
    pub fn open(transactions: Arc<Transactions>, options: StoreOptions) -> Result<Store> {
        todo!()
    }
    pub fn create_collection(&self, namespace: &Namespace, options: &arbor_bson::DocBuf) -> Result<Created> {
        todo!()
    }
    /// The collection held for a write, created without options when it does not exist.
    pub fn hold_or_create(&self, namespace: &Namespace) -> Result<Held> {
        todo!()
    }
    pub fn drop_collection(&self, namespace: &Namespace) -> Result<Arc<Collection>> {
        todo!()
    }
    /// Answers whether there was such a database.
    pub fn drop_database(&self, db: &str) -> Result<bool> {
        todo!()
    }
    pub fn rename(&self, from: &Namespace, to: &Namespace, drop_target: bool) -> Result<()> {
        todo!()
    }
    /// Builds what is not there yet; creates the collection when needed.
    pub fn create_indexes(&self, namespace: &Namespace, specs: &[arbor_bson::DocBuf]) -> Result<IndexesCreated> {
        todo!()
    }
    /// Answers the number of indexes before, `_id_` included.
    pub fn drop_indexes(&self, namespace: &Namespace, which: &IndexSelection) -> Result<usize> {
        todo!()
    }
    pub fn validate(&self, namespace: &Namespace, full: bool) -> Result<crate::validate::Report> {
        todo!()
    }
}
