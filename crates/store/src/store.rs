//! [`Store`]: entry point to collections: lookups, holding one for a write, opening.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arbor_base::invariants::PARANOID;
use arbor_base::{Position, TreeId};
use arbor_bson::Doc;
use arbor_txn::{Durability, Error as TxnError, Patience, ReadView, Transaction, Transactions, View};
use arc_swap::ArcSwap;
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::build::Builds;
use crate::catalogue::in_step::WatchedCollections;
use crate::catalogue::{self, CATALOGUE, Catalogue};
use crate::latch::ExclusiveGuard;
use crate::prepared::PreparedLatches;
use crate::switch::Switches;
use crate::{Collection, CollectionGuard, Error, Namespace, Result, TreeDefaults, UnfinishedBuild};

#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Directory for the sorted runs of index builds; created when needed.
    pub scratch: PathBuf,
    /// Memory of one index build before it spills, when the caller says nothing else.
    pub build_memory_bytes: usize,
    /// Collections up to this size are indexed inside one transaction, without a checkpoint.
    pub build_in_transaction_bytes: u64,
    /// Default options of new trees.
    pub trees: TreeDefaults,
}

impl Default for StoreOptions {
    fn default() -> StoreOptions {
        StoreOptions {
            scratch: std::env::temp_dir(),
            build_memory_bytes: 200 << 20,
            build_in_transaction_bytes: 1 << 20,
            trees: TreeDefaults::default(),
        }
    }
}

/// Collections and their indexes over one [`Transactions`]. Shared by all threads.
///
/// Readers: [`Store::snapshot`], then plan (an index in the catalogue is whole in every later snapshot, and multikey
/// flags are set before the commit that needs them). A caller that takes collection and view by itself, in this order, may
/// get `UnknownTree`: the collection or index was dropped in between.
///
/// Writers: [`Store::hold`] the collection before the transaction begins, until it is committed.
///
/// Lock order: `several`, then latches by namespace, then `changing`, then what `txn` locks. A collection may be
/// renamed while a thread waits for its latch, so the order of the names alone is not enough: a thread that takes more than
/// one latch holds `several`.
pub struct Store {
    pub(crate) transactions: Arc<Transactions>,
    catalogue: ArcSwap<Catalogue>,
    pub(crate) options: StoreOptions,
    pub(crate) switches: Switches,
    pub(crate) builds: Builds,
    /// Known when the store was opened by a leader, or last took over.
    pub(crate) unfinished: Mutex<Vec<UnfinishedBuild>>,
    /// One holder of several latches at a time.
    several: Mutex<()>,
    /// One change of the catalogue at a time.
    changing: Mutex<()>,
    /// One replacement of the catalogue in memory at a time. Nothing is locked while it is held: the thread that applies what another member
    /// has committed takes it with the commit lock held, when `changing` may be held by one that waits for the commit lock.
    showing: Mutex<()>,
    /// Collections whose changes by another member are reported.
    pub(crate) watched: OnceLock<WatchedCollections>,
    /// A change is being committed: snapshots may show it while the catalogue does not yet.
    publishing: AtomicBool,
    /// Signalled when it no longer is.
    published: (Mutex<()>, Condvar),
    pub(crate) prepared: PreparedLatches,
}

impl Store {
    /// Loads the catalogue. Under a [`Transactions`] that takes commits, it does what [`Store::lead`] does; else it writes nothing.
    pub fn open(transactions: Arc<Transactions>, mut options: StoreOptions) -> Result<Store> {
        if options.trees.engines.is_empty() {
            let name = transactions.engine().name();
            (options.trees.default, options.trees.home) = (name, name);
        }
        let store = Store {
            transactions,
            catalogue: ArcSwap::default(),
            options,
            switches: Switches::default(),
            builds: Builds::default(),
            unfinished: Mutex::default(),
            several: Mutex::new(()),
            changing: Mutex::new(()),
            showing: Mutex::new(()),
            watched: OnceLock::new(),
            publishing: AtomicBool::new(false),
            published: Default::default(),
            prepared: PreparedLatches::default(),
        };
        match store.transactions.is_leading() {
            true => store.lead()?,
            // The data is no state; the catalogue comes when the initial sync has ended.
            false if store.transactions.is_syncing() => {}
            false => store.set_catalogue(store.load()?.catalogue),
        }
        Ok(store)
    }

    /// Takes over from another member, or from the process before this one: what broken-off index builds and switches of engines left is
    /// dropped. The builds themselves are for the caller to begin again ([`Store::unfinished_builds`]).
    ///
    /// Requires that no other thread changes collections yet.
    pub fn lead(&self) -> Result<()> {
        assert!(self.builds.is_idle(), "builds of an earlier term have ended: their trees are dropped now");
        let mut txn = self.transactions.begin()?;
        txn.create_fixed_tree(CATALOGUE, Default::default())?;
        txn.commit(Durability::Applied)?;
        let catalogue::Loaded { catalogue, interrupted, unfinished } = self.load()?;
        interrupted.into_iter().try_for_each(|tree| drop_interrupted(&self.transactions, tree))?;
        *self.unfinished.lock() = unfinished;
        // The one in memory is in step, and others share its latches.
        if self.with_catalogue(|known| known.databases.is_empty()) {
            self.set_catalogue(catalogue);
        }
        self.latch_prepared();
        Ok(())
    }

    /// The catalogue on disk; empty before the first leader of a new store has made it.
    fn load(&self) -> Result<catalogue::Loaded> {
        match catalogue::load(&self.transactions.read()?, self.options.trees.home) {
            Err(Error::Txn(TxnError::UnknownTree(_))) => Ok(catalogue::Loaded::default()),
            loaded => loaded,
        }
    }

    /// Changes the catalogue in memory.
    pub(crate) fn change_shown(&self, change: impl FnOnce(&mut Catalogue)) {
        let _one_at_a_time = self.showing.lock();
        let mut catalogue = Catalogue::clone(&self.catalogue.load());
        change(&mut catalogue);
        self.set_catalogue(catalogue);
    }

    pub(crate) fn set_catalogue(&self, catalogue: Catalogue) {
        self.catalogue.store(Arc::new(catalogue));
    }

    pub(crate) fn set_publishing(&self, publishing: bool) {
        self.publishing.store(publishing, Ordering::SeqCst);
        if !publishing {
            let _registered_or_not_yet = self.published.0.lock();
            self.published.1.notify_all();
        }
    }

    /// Waits until the change that is being committed is in the catalogue. In a set of several members that takes a round trip.
    pub(crate) fn wait_published(&self) {
        let mut waiting = self.published.0.lock();
        while self.publishing.load(Ordering::SeqCst) {
            self.published.1.wait(&mut waiting);
        }
    }

    /// Directory for what does not fit into memory; created when needed.
    pub fn scratch(&self) -> &Path {
        &self.options.scratch
    }

    pub fn transactions(&self) -> &Arc<Transactions> {
        &self.transactions
    }

    /// The collection as it is now. Takes no lock. Hot reads use [`Store::look`].
    pub fn collection(&self, namespace: &Namespace) -> Option<Arc<Collection>> {
        self.catalogue.load().collection(namespace).cloned()
    }

    /// Shows the collection to `work` without touching a counter that threads share: what hot reads use. The work is
    /// short, since it keeps the catalogue of this moment in memory.
    pub fn look<T>(&self, namespace: &Namespace, work: impl FnOnce(Option<&Arc<Collection>>) -> T) -> T {
        work(self.catalogue.load().collection(namespace))
    }

    /// Sets the key by which a collection is sharded, which names its documents in the history from now on. It is not stored: it
    /// is set again when this server becomes the primary.
    pub fn set_shard_key(&self, namespace: &Namespace, key: Option<Doc<'_>>) {
        assert!(key.is_none_or(|key| !key.is_empty()), "a shard key has fields");
        self.look(namespace, |collection| {
            if let Some(collection) = collection {
                collection.shard_key.store(key.map(|key| Arc::new(key.to_buf())));
            }
        });
    }

    /// The collection with a snapshot in which it and its indexes are. None: there is no such collection.
    pub fn snapshot(&self, namespace: &Namespace) -> Result<Option<(Arc<Collection>, ReadView)>> {
        loop {
            let Some(collection) = self.collection(namespace) else { return Ok(None) };
            let view = self.transactions.read()?;
            // In this order: a change that the view shows is either being published still, or in the catalogue.
            if self.publishing.load(Ordering::SeqCst) && !collection.is_whole_in(&view) {
                self.wait_published();
                continue;
            }
            if self.collection(namespace).is_some_and(|now| Arc::ptr_eq(&now, &collection)) {
                return Ok(Some((collection, view)));
            }
        }
    }

    /// The collection with its latch held shared. Not twice by one thread.
    pub fn hold(&self, namespace: &Namespace) -> Option<CollectionGuard> {
        loop {
            let collection = self.collection(namespace)?;
            let guard = collection.latch.read();
            let now = self.collection(namespace)?;
            if collection.latch.is(&now.latch) {
                debug_assert!(now.namespace == *namespace, "{namespace} was renamed while it was held");
                return Some(CollectionGuard { collection: now, _guard: guard });
            }
        }
    }

    /// The collection held for a write, created without options when it does not exist.
    pub fn hold_or_create(&self, namespace: &Namespace) -> Result<CollectionGuard> {
        loop {
            if let Some(held) = self.hold(namespace) {
                return Ok(held);
            }
            self.ensure_collection(namespace)?;
        }
    }

    /// The collection with its latch held exclusively: no writer is at work on it.
    pub(crate) fn hold_exclusive(&self, namespace: &Namespace) -> Option<(Arc<Collection>, ExclusiveGuard)> {
        loop {
            let collection = self.collection(namespace)?;
            let guard = collection.latch.write();
            let now = self.collection(namespace)?;
            if collection.latch.is(&now.latch) {
                debug_assert!(now.latch.is_held_exclusively(), "no writer is at work on {namespace}");
                return Some((now, guard));
            }
        }
    }

    /// Like [`Store::hold_exclusive`], with a timeout: `None` if the latch is still held after it.
    /// Errors: `NamespaceNotFound`.
    pub(crate) fn hold_exclusive_within(
        &self,
        namespace: &Namespace,
        timeout: Duration,
    ) -> Result<Option<(Arc<Collection>, ExclusiveGuard)>> {
        let missing = || Error::NamespaceNotFound(namespace.clone());
        let collection = self.collection(namespace).ok_or_else(missing)?;
        let Some(guard) = collection.latch.write_within(timeout) else { return Ok(None) };
        let now = self.collection(namespace).ok_or_else(missing)?;
        Ok(collection.latch.is(&now.latch).then_some((now, guard)))
    }

    /// Names in order.
    pub fn list_databases(&self) -> Vec<String> {
        self.catalogue.load().databases.keys().cloned().collect()
    }

    /// Returns the collection that a tree belongs to, by its records or an index, and the tree's engine. Searches all: for errors.
    pub fn owner_of(&self, tree: TreeId) -> Option<(Namespace, Arc<str>)> {
        let catalogue = self.catalogue.load();
        let mut all = catalogue.databases.values().flat_map(|database| database.collections.values());
        all.find_map(|collection| {
            let of_index = || {
                collection.indexes.iter().find(|index| index.trees().any(|own| own == tree)).map(|index| &index.engine)
            };
            let engine =
                collection.record_trees().any(|own| own == tree).then_some(&collection.engine).or_else(of_index)?;
            Some((collection.namespace.clone(), engine.clone()))
        })
    }

    /// Collections in order of their names.
    pub fn list_collections(&self, db: &str) -> Vec<Arc<Collection>> {
        let catalogue = self.catalogue.load();
        catalogue.databases.get(db).map(|own| own.collections.values().cloned().collect()).unwrap_or_default()
    }

    pub(crate) fn with_catalogue<T>(&self, work: impl FnOnce(&Catalogue) -> T) -> T {
        work(&self.catalogue.load())
    }

    /// Panics where the catalogue breaks its own rules. For tests: it visits all collections.
    #[doc(hidden)]
    pub fn validate_catalogue(&self) {
        self.catalogue.load().validate(&Catalogue::default());
    }

    /// To be held by a thread that takes more than one latch, from before the first of them.
    pub(crate) fn lock_several(&self) -> MutexGuard<'_, ()> {
        self.several.lock()
    }

    pub(crate) fn is_locking_several(&self) -> bool {
        self.several.is_locked()
    }

    pub(crate) fn lock_changes(&self) -> MutexGuard<'_, ()> {
        self.changing.lock()
    }

    /// Requires the lock of [`Store::lock_changes`].
    pub(crate) fn current(&self) -> Arc<Catalogue> {
        self.catalogue.load_full()
    }

    /// Commits a change of the catalogue and shows it. A change that is committed but not applied yet is shown too,
    /// since it will happen.
    ///
    /// Requires the lock of [`Store::lock_changes`].
    pub(crate) fn commit_change(&self, txn: Transaction, change: impl FnOnce(&mut Catalogue)) -> Result<()> {
        self.commit_change_at(txn, change).map(drop)
    }

    /// Like [`Store::commit_change`], but returns the position of the commit.
    pub(crate) fn commit_change_at(&self, txn: Transaction, change: impl FnOnce(&mut Catalogue)) -> Result<Position> {
        assert!(self.changing.is_locked(), "one change of the catalogue at a time");
        let _publishing = Publishing::begin(self);
        // The catalogue shows the change only once snapshots do.
        let _however_long = Patience::until(None);
        let committed = txn.commit(Durability::Applied);
        if matches!(committed, Ok(_) | Err(TxnError::CommittedNotApplied { .. })) {
            self.change_shown(|catalogue| {
                change(catalogue);
                if PARANOID {
                    catalogue.validate(&self.catalogue.load());
                }
            });
        }
        Ok(committed?)
    }

    /// Returns true if a snapshot may show a change that the catalogue does not.
    pub(crate) fn is_publishing(&self) -> bool {
        self.publishing.load(Ordering::SeqCst)
    }
}

/// A tree of an engine that cannot be opened waits for a start at which it can.
fn drop_interrupted(transactions: &Transactions, tree: TreeId) -> Result<()> {
    let mut txn = transactions.begin()?;
    txn.drop_tree(tree);
    txn.delete(CATALOGUE, catalogue::build_key(tree));
    match txn.commit(Durability::Applied) {
        Ok(_) | Err(TxnError::Engine(arbor_engine::Error::Unavailable { .. })) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Raises the flag for as long as it lives.
struct Publishing<'s>(&'s Store);

impl Publishing<'_> {
    fn begin(store: &Store) -> Publishing<'_> {
        store.set_publishing(true);
        Publishing(store)
    }
}

impl Drop for Publishing<'_> {
    fn drop(&mut self) {
        self.0.set_publishing(false);
    }
}

impl Collection {
    /// Returns true if all of its trees exist in this view.
    pub fn is_whole_in(&self, view: &ReadView) -> bool {
        self.trees().all(|tree| view.cursor(tree).is_ok())
    }
}
