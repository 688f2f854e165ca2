//! The live change of a collection's engine: readers and writers continue, except in the last step.
//!
//! | step | a crash after it leaves |
//! |---|---|
//! | 1. under the latch, one transaction: create the new trees, note them in the catalogue | the old trees; empty new ones, dropped at the start |
//! | 2. copy the rows of a snapshot with `bulk_load`, throttled; checkpoint; the members of the set fetch the trees, and a record says so | the same, new trees empty or whole |
//! | 3. carry over what the log has after the snapshot, in ordinary transactions, until little is left | the same |
//! | 4. under the latch, one transaction: the rest of the log, the catalogue entry, the counters, the old trees go | the new trees |
//!
//! All trees of the collection change their engine but those of indexes that name one of their own. A switch that is
//! aborted drops the new trees; what it cannot drop then goes at the next start, by the same notes as those of index
//! builds. While it runs, changes of the collection's indexes, options and name are refused, and a drop ends it.
//! Steps 2 to 4 are those of [`crate::follow`].

mod carry;
mod copy;
mod registry;

use std::sync::Arc;
use std::time::{Duration, Instant};

use arbor_base::TreeId;
use arbor_bson::DocBuf;
use arbor_txn::record::Load;
use arbor_txn::{Durability, Error as TxnError, ReadView, Transaction, View};

use self::carry::SameRows;
use self::copy::Copy;

pub(crate) use self::registry::{Registered, Switches};
use crate::catalogue::change_collections::put_collection;
use crate::catalogue::{self, CATALOGUE};
use crate::collection::{bytes_counter, count_counter, unread_counter};
use crate::follow::{CatchUp, LastStep, Phase, Throttle, Watch, publish};
use crate::{Collection, Error, Index, Namespace, Result, Store};

/// Statistics of a switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switched {
    pub rows: u64,
    pub copied_in: Duration,
    /// Records of the log that were read, and in how many rounds.
    pub records: u64,
    pub rounds: u32,
    /// Time during which writers of the collection were kept out.
    pub blocked: Duration,
}

/// The effect of a new `storageEngine` on a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineChange {
    /// It is the engine that the collection is on already: what is written from now on has the new options.
    Options,
    Moved(Switched),
}

impl Store {
    /// Gives the collection the engine and the options that `storage_engine` (`{engine: {options}}`) says.
    ///
    /// Errors: see [`Store::switch_engine`].
    pub fn change_engine(&self, name: &Namespace, storage_engine: &DocBuf, watch: &dyn Watch) -> Result<EngineChange> {
        let collection = self.collection(name).ok_or_else(|| Error::NamespaceNotFound(name.clone()))?;
        let options = with_engine(&collection.options, storage_engine);
        if self.options.trees.of_collection(options.as_doc())?.engine == *collection.engine {
            return self.set_tree_options(name, storage_engine).map(|()| EngineChange::Options);
        }
        self.switch_engine(name, storage_engine, watch).map(EngineChange::Moved)
    }

    /// Requires options of the engine of the collection.
    fn set_tree_options(&self, name: &Namespace, storage_engine: &DocBuf) -> Result<()> {
        let missing = || Error::NamespaceNotFound(name.clone());
        let (collection, _guard) = self.hold_exclusive(name).ok_or_else(missing)?;
        self.switches.refuse(&collection, "change the options of")?;
        let trees = &self.options.trees;
        let options = with_engine(&collection.options, storage_engine);
        let own = trees.of_collection(options.as_doc())?;
        let _changing = self.lock_changes();
        let mut txn = self.transactions.begin()?;
        collection.record_trees().for_each(|tree| txn.set_tree_options(tree, own.options.clone()));
        let changed = Collection { options, ..collection.copy() };
        put_collection(&mut txn, &changed);
        self.commit_change(txn, |catalogue| catalogue.put(Arc::new(changed)))
    }

    /// Moves the collection to new trees on the engine that `storage_engine` names.
    ///
    /// Errors: `ConflictingOperation` when a switch of the collection is running; `Interrupted` when it was aborted.
    /// After any error the collection is where it was.
    pub fn switch_engine(&self, name: &Namespace, storage_engine: &DocBuf, watch: &dyn Watch) -> Result<Switched> {
        let (collection, guard) = self.hold_exclusive_watched(name, watch)?;
        self.builds.refuse(&collection)?;
        collection.refuse_partitioned("move to another engine")?;
        let registered = self.switches.register(&collection)?;
        let new = self.create_trees(&collection, storage_engine)?;
        drop(guard);
        let switch = Switch { store: self, old: collection, new, registered, watch };
        match switch.run() {
            Ok(switched) => Ok(switched),
            // The log has it: it will happen, or the next leader decides.
            Err(error @ Error::Txn(TxnError::CommittedNotApplied { .. } | TxnError::Unsettled { .. })) => Err(error),
            Err(error) => {
                // What cannot be dropped now is dropped at the next start.
                let _kept_for_later = switch.give_up();
                match error {
                    Error::Interrupted if switch.registered.is_dropped() => Err(Error::NamespaceNotFound(name.clone())),
                    error => Err(error),
                }
            }
        }
    }

    /// The collection as it is going to be, with new trees that the log knows.
    fn create_trees(&self, old: &Collection, storage_engine: &DocBuf) -> Result<Collection> {
        let trees = &self.options.trees;
        let options = with_engine(&old.options, storage_engine);
        let mut txn = self.transactions.begin()?;
        let new = trees.of_collection(options.as_doc())?;
        let mut collection =
            Collection { options, engine: new.engine.into(), tree: txn.create_tree(new.options.clone()), ..old.copy() };
        collection.order = old.order.map(|_| txn.create_tree(new.options));
        let mut noted: Vec<TreeId> = std::iter::once(collection.tree).chain(collection.order).collect();
        for index in &mut collection.indexes {
            if !trees.follows_collection(index.spec.doc.as_doc(), collection.options.as_doc()) {
                continue;
            }
            let new = trees.of_index(index.spec.doc.as_doc(), collection.options.as_doc(), &collection.engine)?;
            *index = Arc::new(index.moved(new.engine.into(), txn.create_tree(new.options)));
            noted.push(index.tree);
        }
        for tree in noted {
            txn.put(CATALOGUE, catalogue::build_key(tree), old.namespace.as_str());
        }
        txn.commit(Durability::Applied)?;
        Ok(collection)
    }
}

/// The options with another `storageEngine`, at its place or at the end.
fn with_engine(options: &DocBuf, storage_engine: &DocBuf) -> DocBuf {
    let mut changed = DocBuf::new();
    for (name, value) in options.as_doc().iter().filter(|(name, _)| *name != "storageEngine") {
        changed.append(name, value);
    }
    changed.with("storageEngine", storage_engine)
}

struct Switch<'s> {
    store: &'s Store,
    old: Arc<Collection>,
    /// Its flags of multikey indexes are not used: those of the old indexes still grow until the end.
    new: Collection,
    registered: Registered<'s>,
    watch: &'s dyn Watch,
}

impl Watch for Switch<'_> {
    fn is_stopped(&self) -> bool {
        self.registered.is_dropped() || self.watch.is_stopped()
    }

    fn progress(&self, phase: Phase, done: u64, total: u64) {
        self.watch.progress(phase, done, total);
    }
}

impl Switch<'_> {
    /// Old and new tree of everything that moves.
    fn trees(&self) -> impl Iterator<Item = (TreeId, TreeId)> {
        let indexes = self.old.indexes.iter().zip(&self.new.indexes).map(|(old, new)| (old.tree, new.tree));
        let order = self.old.order.zip(self.new.order);
        std::iter::once((self.old.tree, self.new.tree)).chain(order).chain(indexes).filter(|(old, new)| old != new)
    }

    fn run(&self) -> Result<Switched> {
        assert!(self.old.indexes.len() == self.new.indexes.len(), "each index has one of two trees");
        assert!(self.old.order.is_some() == self.new.order.is_some(), "a capped collection keeps its order");
        let transactions = &self.store.transactions;
        let mut throttle = Throttle::new();
        let mut done = Switched::default();
        let (view, follower) = transactions.follow()?;
        let mut catch_up = CatchUp::new(transactions, follower, SameRows { trees: self.trees().collect() });
        let began = Instant::now();
        let (rows, loads) = self.copy(&view, &mut throttle)?;
        done.rows = rows;
        drop(view);
        publish(transactions, &loads, self)?;
        done.copied_in = began.elapsed();
        self.progress(Phase::CatchingUp, 0, 0);
        done.rounds = catch_up.rounds(self, &mut throttle)?;
        done.blocked = catch_up.finish(self.store, &self.old, self, &mut throttle, |last| self.switch_over(last))?;
        done.records = catch_up.records;
        Ok(done)
    }

    fn copy(&self, view: &ReadView, throttle: &mut Throttle) -> Result<(u64, Vec<Load>)> {
        let documents = crate::count(view, &self.old)?;
        let total = documents * self.trees().count() as u64;
        let mut copy = Copy::new(&self.store.transactions, view, self, throttle, total);
        for (old, new) in self.trees() {
            let rows = copy.tree(old, new)?;
            if old == self.old.tree && rows != documents {
                let reason = format!("{rows} documents were found where {documents} are counted");
                return Err(Error::Corrupt { place: self.old.namespace.to_string(), reason });
            }
        }
        Ok((copy.pace.done, copy.loads))
    }

    /// Step 4.
    fn switch_over(&self, last: LastStep<'_, SameRows>) -> Result<()> {
        let LastStep { now, view, mut txn, .. } = last;
        assert!(now.trees().eq(self.old.trees()), "indexes neither come nor go while a collection is switched");
        let _changing = self.store.lock_changes();
        let (documents, bytes) = (crate::count(&view, &self.old)?, crate::data_size(&view, &self.old)?);
        txn.add_counter(count_counter(self.new.tree), documents as i64);
        txn.add_counter(bytes_counter(self.new.tree), bytes as i64);
        txn.add_counter(unread_counter(self.new.tree), view.counter(unread_counter(self.old.tree))?);
        txn.drop_counter(count_counter(self.old.tree));
        txn.drop_counter(bytes_counter(self.old.tree));
        txn.drop_counter(unread_counter(self.old.tree));
        for (old, new) in self.trees() {
            txn.drop_tree(old);
            txn.delete(CATALOGUE, catalogue::build_key(new));
        }
        let switched = self.switched(&mut txn);
        put_collection(&mut txn, &switched);
        self.store.commit_change(txn, |catalogue| catalogue.put(Arc::new(switched)))
    }

    /// The new collection, with the multikey flags as they are now.
    fn switched(&self, txn: &mut Transaction) -> Collection {
        let mut switched = self.new.copy();
        for (old, new) in self.old.indexes.iter().zip(&mut switched.indexes) {
            if old.tree == new.tree {
                continue;
            }
            debug_assert!(old.name == new.name, "{} comes in the place of {}", new.name, old.name);
            *new = Arc::new(old.moved(new.engine.clone(), new.tree));
            let masks = old.multikey.expected();
            txn.delete(CATALOGUE, catalogue::multikey_key(old.tree));
            if masks.iter().any(|mask| *mask != 0) {
                txn.put(CATALOGUE, catalogue::multikey_key(new.tree), catalogue::encode_masks(&masks));
            }
        }
        switched
    }

    fn give_up(&self) -> Result<()> {
        let mut txn = self.store.transactions.begin()?;
        for (_, new) in self.trees() {
            txn.drop_tree(new);
            txn.delete(CATALOGUE, catalogue::build_key(new));
        }
        txn.commit(Durability::Applied)?;
        Ok(())
    }
}

impl Index {
    /// Returns a copy of the index for another tree.
    fn moved(&self, engine: Arc<str>, tree: TreeId) -> Index {
        Index { engine, tree, ..self.clone() }
    }
}
