//! Transactions of several statements: a snapshot and writes of many collections, committed together or not at all.
//!
//! No latch is held between two statements. A collection that is first accessed must be in the catalogue as the snapshot
//! has it; one that was written must still be so at the commit, which holds the latches of all of these. So changes of the
//! catalogue never wait for a transaction; the transaction fails.
//!
//! A collection that the transaction creates has its row among the writes. Only the transaction sees it until the commit.

use std::collections::BTreeMap;
use std::sync::Arc;

use arbor_base::Position;
use arbor_bson::{DocBuf, compare_docs};
use arbor_txn::{Durability, Error as TxnError, ReadView, Savepoint, Transaction, TransactionId};
use parking_lot::{Mutex, MutexGuard};
use uuid::Uuid;

use crate::build::{Build, BuildSettings};
use crate::catalogue::change_collections::put_collection;
use crate::catalogue::change_indexes::{parse_all, select_new};
use crate::catalogue::{self, CATALOGUE, Catalogue};
use crate::latch::SharedGuard;
use crate::noting::commands as noting;
use crate::read::record::count;
use crate::{Collection, Created, Error, IndexesCreated, Namespace, Result, Store};

/// Shared by threads; one statement runs at a time. Dropping it is the abort.
pub struct OpenTransaction {
    store: Arc<Store>,
    state: Mutex<State>,
}

struct State {
    txn: Transaction,
    /// Collections of the catalogue that statements accessed.
    seen: BTreeMap<Namespace, Seen>,
    created: BTreeMap<Namespace, Arc<Collection>>,
    load: Option<Load>,
}

/// A collection that is being loaded (TokuMX).
struct Load {
    namespace: Namespace,
    before: Savepoint,
}

struct Seen {
    collection: Arc<Collection>,
    written: bool,
}

impl OpenTransaction {
    /// Begins a transaction with a snapshot of this moment.
    pub fn begin(store: &Arc<Store>) -> Result<OpenTransaction> {
        Ok(OpenTransaction::new(store, store.transactions.begin_open()?))
    }

    /// Like [`OpenTransaction::begin`], but finds conflicts at its commit alone, and others that are open are in the way of none of its writes.
    pub fn begin_unclaimed(store: &Arc<Store>) -> Result<OpenTransaction> {
        Ok(OpenTransaction::new(store, store.transactions.begin_unclaimed()?))
    }

    /// Begins a transaction with a snapshot of a time, as other servers have it too.
    pub fn begin_at(store: &Arc<Store>, time: u64) -> Result<OpenTransaction> {
        Ok(OpenTransaction::new(store, store.transactions.begin_open_at(time)?))
    }

    fn new(store: &Arc<Store>, txn: Transaction) -> OpenTransaction {
        OpenTransaction { store: store.clone(), state: Mutex::new(State::new(txn)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Works on the transaction itself. Not to be called inside of `work`, nor anything else of this type.
    pub fn with<T>(&self, work: impl FnOnce(&mut Transaction) -> T) -> T {
        work(&mut self.state().txn)
    }

    /// The snapshot with all writes so far; later ones do not show.
    pub fn view(&self) -> ReadView {
        self.state().txn.view()
    }

    /// Returns the position of the snapshot.
    pub fn position(&self) -> Position {
        self.state().txn.position()
    }

    /// Nothing was written.
    pub fn is_empty(&self) -> bool {
        self.state().txn.is_empty()
    }

    /// Returns the collection for reading. `None`: there is no such collection.
    ///
    /// Errors: `SnapshotUnavailable` when it was created, changed or dropped after the snapshot.
    pub fn collection(&self, namespace: &Namespace) -> Result<Option<Arc<Collection>>> {
        self.state().find(&self.store, namespace, false)
    }

    /// Returns the collection for writing by this transaction. Errors: also `NotInTransaction` for a capped one.
    pub fn collection_to_write(&self, namespace: &Namespace) -> Result<Option<Arc<Collection>>> {
        let found = self.state().find(&self.store, namespace, true)?;
        match found.filter(|found| found.order.is_some()) {
            Some(_) => Err(Error::NotInTransaction(format!(
                "Collection '{namespace}' is a capped collection. Writes in transactions are not allowed on capped \
                 collections."
            ))),
            None => self.collection(namespace),
        }
    }

    /// Like [`OpenTransaction::collection_to_write`], also for a capped one: documents come from another server, or leave for one.
    pub fn collection_that_moves(&self, namespace: &Namespace) -> Result<Option<Arc<Collection>>> {
        self.state().find(&self.store, namespace, true)?;
        self.collection(namespace)
    }

    /// Like [`OpenTransaction::collection_to_write`], but creates the collection, without options, if it does not exist.
    pub fn collection_or_create(&self, namespace: &Namespace) -> Result<Arc<Collection>> {
        match self.collection_to_write(namespace)? {
            Some(collection) => Ok(collection),
            None => self.state().create(&self.store, namespace, &DocBuf::new()),
        }
    }

    /// As [`Store::create_collection`]. Others see it after the commit.
    pub fn create_collection(&self, namespace: &Namespace, options: &DocBuf) -> Result<Created> {
        let mut state = self.state();
        match state.find(&self.store, namespace, false)? {
            Some(own) if compare_docs(own.options.as_doc(), options.as_doc()).is_eq() => Ok(Created::Before),
            Some(_) => Err(Error::NamespaceExists(namespace.clone())),
            None => state.create(&self.store, namespace, options).map(|_| Created::Now),
        }
    }

    /// As [`Store::create_indexes`], on a collection that this transaction has created and that is empty still; it is
    /// created if it does not exist. Indexes that another collection has already are no error.
    pub fn create_indexes(&self, namespace: &Namespace, specs: &[DocBuf]) -> Result<IndexesCreated> {
        let store = &*self.store;
        let specs: Vec<&DocBuf> = specs.iter().collect();
        let mut state = self.state();
        let (collection, created_collection) = match state.find(store, namespace, false)? {
            Some(collection) => (collection, false),
            None => (state.create(store, namespace, &DocBuf::new())?, true),
        };
        let (new, _) = select_new(&collection, &[], &parse_all(&specs, &collection.collation)?)?;
        let before = collection.indexes.len() + 1;
        let created: Vec<String> = new.iter().map(|spec| spec.name.clone()).collect();
        if !new.is_empty() {
            let refused = if !state.created.contains_key(namespace) {
                Some("existing")
            } else if count(&state.txn, &collection)? > 0 {
                Some("non-empty")
            } else {
                None
            };
            if let Some(which) = refused {
                return Err(Error::NotInTransaction(format!(
                    "Cannot create new indexes on {which} collection {namespace} in a multi-document transaction."
                )));
            }
            let settings = BuildSettings::default();
            let build = Build { store, collection: &collection, replaced: None, settings, uuid: Uuid::nil() };
            let built = build.create(&mut state.txn, new)?;
            noting::indexes_created(&mut state.txn, &collection, &built);
            let mut changed = collection.copy();
            changed.indexes.extend(built);
            put_collection(&mut state.txn, &changed);
            state.created.insert(namespace.clone(), Arc::new(changed));
        }
        Ok(IndexesCreated { before, after: before + created.len(), created_collection, created })
    }

    /// Begins to load a collection that the caller creates next. Until the load ends, all writes are part of it.
    ///
    /// Errors: `NamespaceExists`; `NotInTransaction` when a load has begun already.
    pub fn begin_load(&self, namespace: &Namespace) -> Result<()> {
        let mut state = self.state();
        if let Some(load) = &state.load {
            return Err(Error::NotInTransaction(format!("a load of {} has begun already", load.namespace)));
        }
        if state.find(&self.store, namespace, false)?.is_some() {
            return Err(Error::NamespaceExists(namespace.clone()));
        }
        let before = state.txn.savepoint();
        state.load = Some(Load { namespace: namespace.clone(), before });
        Ok(())
    }

    /// Ends a load; its collection becomes an ordinary one of this transaction. Returns false if none has begun.
    pub fn commit_load(&self) -> bool {
        self.state().load.take().is_some()
    }

    /// Takes back a load with its collection. Returns false if none has begun.
    pub fn abort_load(&self) -> bool {
        let mut state = self.state();
        let Some(load) = state.load.take() else { return false };
        state.txn.rollback_to(load.before);
        state.created.remove(&load.namespace);
        true
    }

    /// Returns the position of the commit; when nothing was written, that of the snapshot.
    ///
    /// Errors: `Conflict` when another commit came first, or changed what this transaction depends on. Nothing is written
    /// then.
    pub fn commit(self, durability: Durability) -> Result<Position> {
        let (store, txn, created, latches) = self.latched()?;
        if created.is_empty() {
            return Ok(txn.commit(durability)?);
        }
        let position = commit_created(&store, txn, created)?;
        drop(latches);
        if durability == Durability::Journaled {
            // an empty transaction waits for everything before its snapshot
            store.transactions.begin()?.commit(durability)?;
        }
        Ok(position)
    }

    /// Promises to commit, when the coordinator of the transaction decides so, by [`Store::commit_prepared`]. What it writes to keeps its
    /// definition until then. Returns a time from which on it may be committed.
    ///
    /// Errors: those of a commit; `NotInTransaction` when it has created collections.
    pub fn prepare(self, id: TransactionId, about: &[u8]) -> Result<u64> {
        let (store, txn, created, latches) = self.latched()?;
        refuse_created(&created)?;
        store.transactions.make_prepared_tree()?;
        let time = txn.prepare(id, about)?;
        store.keep_latches(id, latches);
        Ok(time)
    }

    /// Commits the coordinator's part, and with it the transaction on all servers. Returns the position of the commit, and the commit time of
    /// all parts.
    pub fn commit_deciding(self, id: TransactionId, about: &[u8]) -> Result<(Position, u64)> {
        let (store, txn, created, _latches) = self.latched()?;
        refuse_created(&created)?;
        store.transactions.make_prepared_tree()?;
        Ok(txn.commit_deciding(id, about)?)
    }

    /// Takes the latches of the collections that it writes to. Errors: `Conflict` when one was changed meanwhile.
    #[expect(clippy::type_complexity, reason = "taken apart at once")]
    fn latched(self) -> Result<(Arc<Store>, Transaction, BTreeMap<Namespace, Arc<Collection>>, Vec<SharedGuard>)> {
        let OpenTransaction { store, state } = self;
        let State { txn, seen, created, .. } = state.into_inner();
        let is_seen = |name: &&Namespace| seen.contains_key(*name);
        assert!(created.keys().find(is_seen).is_none(), "a collection was there before, or was created");
        let written: Vec<_> = seen.into_values().filter(|seen| seen.written).map(|seen| seen.collection).collect();
        let several = (written.len() > 1).then(|| store.lock_several());
        let latches: Vec<_> = written.iter().map(|own| own.latch.read()).collect();
        drop(several);
        let is_same =
            |own: &Arc<Collection>| store.collection(&own.namespace).is_some_and(|now| Arc::ptr_eq(&now, own));
        match written.iter().all(is_same) {
            true => Ok((store, txn, created, latches)),
            false => Err(TxnError::Conflict.into()),
        }
    }

    /// Nothing of it remains.
    pub fn abort(self) {}
}

fn refuse_created(created: &BTreeMap<Namespace, Arc<Collection>>) -> Result<()> {
    match created.keys().next() {
        None => Ok(()),
        Some(name) => {
            let text = format!("Cannot create the collection {name} in a transaction that writes to several shards.");
            Err(Error::NotInTransaction(text))
        }
    }
}

fn commit_created(store: &Store, txn: Transaction, created: BTreeMap<Namespace, Arc<Collection>>) -> Result<Position> {
    let _changing = store.lock_changes();
    let catalogue = store.current();
    if created.keys().any(|name| !is_free(&catalogue, name)) {
        return Err(TxnError::Conflict.into());
    }
    store.commit_change_at(txn, |catalogue| created.into_values().for_each(|own| catalogue.put(own)))
}

fn is_free(catalogue: &Catalogue, name: &Namespace) -> bool {
    let taken = catalogue.collection(name).is_some() || catalogue.view(name).is_some();
    !taken && catalogue.check_case(name.db()).is_ok()
}

impl State {
    fn new(txn: Transaction) -> State {
        State { txn, seen: BTreeMap::new(), created: BTreeMap::new(), load: None }
    }

    fn find(&mut self, store: &Store, namespace: &Namespace, to_write: bool) -> Result<Option<Arc<Collection>>> {
        if let Some(own) = self.created.get(namespace) {
            return Ok(Some(own.clone()));
        }
        if let Some(seen) = self.seen.get_mut(namespace) {
            seen.written |= to_write;
            return Ok(Some(seen.collection.clone()));
        }
        let Some(collection) = self.unchanged(store, namespace)? else { return Ok(None) };
        let seen = Seen { collection: collection.clone(), written: to_write };
        self.seen.insert(namespace.clone(), seen);
        Ok(Some(collection))
    }

    /// The collection of the catalogue, which the snapshot shows.
    fn unchanged(&self, store: &Store, namespace: &Namespace) -> Result<Option<Arc<Collection>>> {
        loop {
            let publishing = store.is_publishing();
            let now = store.collection(namespace);
            let then = store.collection_in(&self.txn, namespace)?;
            match (&now, &then) {
                (None, None) => return Ok(None),
                (Some(now), Some(then)) if Arc::ptr_eq(now, then) => return Ok(Some(now.clone())),
                // the change that the snapshot shows is about to be published in the catalogue
                _ if publishing => store.wait_published(),
                _ => return Err(Error::SnapshotUnavailable(namespace.clone())),
            }
        }
    }

    fn create(&mut self, store: &Store, namespace: &Namespace, options: &DocBuf) -> Result<Arc<Collection>> {
        store.check_name(namespace)?;
        store.refuse_view(namespace)?;
        store.with_catalogue(|catalogue| catalogue.check_case(namespace.db()))?;
        self.txn.claim(CATALOGUE, &catalogue::collection_key(namespace))?;
        let collection = Arc::new(store.put_new_collection(&mut self.txn, namespace, options)?);
        let before = self.created.insert(namespace.clone(), collection.clone());
        assert!(before.is_none(), "{namespace} is created once");
        Ok(collection)
    }
}
