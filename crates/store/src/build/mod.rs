//! Index builds.
//!
//! A small collection is indexed under its latch, inside the transaction that adds the index to the catalogue. A larger
//! one while readers and writers continue, with the means of [`crate::follow`]:
//!
//! | step | a crash after it leaves |
//! |---|---|
//! | 1. under the latch, one transaction: create the trees, note them and the build in the catalogue | empty trees, dropped at the start; a build to be begun again |
//! | 2. scan the documents of a snapshot, sort their keys, fill each tree with `bulk_load`, throttled; checkpoint; the members of the set fetch the trees, and a record says so | the same, trees empty or whole |
//! | 3. carry over the keys of documents that changed, in ordinary transactions, until little is left | the same |
//! | 4. under the latch, one transaction: the last of them, the proof that unique keys are unique, the indexes join the collection, the notes go | ready indexes |
//!
//! | file | holds |
//! |---|---|
//! | `small.rs` | the build inside one transaction |
//! | `scan.rs` | step 2 |
//! | `carry.rs` | steps 3 and 4: the keys of changed documents |
//! | `target.rs` | one index being built, with the keys that several documents have |
//! | `registry.rs` | the running builds |
//! | `restart.rs` | builds that the end of the process interrupted |
//!
//! B1: when a round of step 3 has ended, the trees hold exactly the keys of the documents that its view shows. So what a
//! changed document adds and removes is the difference of its keys in that view and in the next one; nothing but the
//! document's `_id` is taken from the log, and carrying over one change twice does no harm.
//!
//! B2: a document that cannot be indexed, or a key of two documents in a unique index, ends the build only if it is
//! still there in step 4.
//!
//! Changes of the collection meanwhile: dropping it or one of the indexes ends the build (`IndexBuildAborted`); renaming it,
//! converting it and changing its engine are refused.

mod carry;
mod registry;
mod restart;
mod scan;
mod small;
mod target;

use std::sync::Arc;

use arbor_bson::DocBuf;
use arbor_txn::{Durability, Error as TxnError, Transaction, Transactions};
use uuid::Uuid;

use self::carry::KeyChanges;

pub(crate) use self::registry::{Builds, Running};
pub use self::registry::{IndexBuild, IndexBuildCounts};
use self::registry::{Progress, Registered};
pub use self::restart::UnfinishedBuild;
use self::target::Target;
use crate::catalogue::change_collections::{drop_index, put_collection};
use crate::catalogue::{self, CATALOGUE};
use crate::follow::{CatchUp, LastStep, Phase, Throttle, Unwatched, Watch, publish};
use crate::index::Multikey;
use crate::index::parts::IndexPart;
use crate::index::spec::IndexSpec;
use crate::latch::ExclusiveGuard;
use crate::noting::commands::{self as noting, BuildStep};
use crate::{Collection, Error, Index, Result, Store, data_size};

/// Settings of a build.
#[derive(Clone, Copy)]
pub struct BuildSettings<'w> {
    /// Memory for sorting, for all indexes of the build together.
    pub memory_bytes: usize,
    pub watch: &'w dyn Watch,
}

/// 200 MiB, unwatched.
impl Default for BuildSettings<'static> {
    fn default() -> BuildSettings<'static> {
        BuildSettings { memory_bytes: 200 << 20, watch: &Unwatched }
    }
}

pub(crate) struct Build<'a> {
    pub store: &'a Store,
    pub collection: &'a Collection,
    /// The index in whose place the new one comes; its tree goes. Such a build is not begun again after a crash.
    pub replaced: Option<Arc<Index>>,
    pub settings: BuildSettings<'a>,
    /// Names the build's note in the catalogue.
    pub uuid: Uuid,
}

impl Build<'_> {
    /// Ensures on `Ok`: the indexes are ready and in the catalogue. Requires the collection's own latch.
    ///
    /// Errors: `IndexBuildAborted`, `Interrupted`, `DuplicateKey`, or why a document cannot be indexed.
    pub(crate) fn run(&self, specs: Vec<IndexSpec>, latch: ExclusiveGuard) -> Result<()> {
        let size = data_size(&self.transactions().read()?, self.collection)?;
        if size <= self.store.options.build_in_transaction_bytes {
            return self.run_in_transaction(specs);
        }
        let (registered, targets) = self.begin(specs)?;
        drop(latch);
        match self.run_alongside_writers(&registered, targets) {
            Ok(()) => Ok(()),
            // The log has it: it will happen, or the next leader decides.
            Err(error @ Error::Txn(TxnError::CommittedNotApplied { .. } | TxnError::Unsettled { .. })) => Err(error),
            Err(error) => {
                let again = matches!(error, Error::Interrupted) && self.settings.watch.is_closing();
                registered.failed();
                // What cannot be dropped now is dropped at the next start.
                let _kept_for_later = self.give_up(&registered, again, &error);
                Err(registered.running.aborted(error))
            }
        }
    }

    fn transactions(&self) -> &Transactions {
        &self.store.transactions
    }

    pub(crate) fn create(&self, txn: &mut Transaction, specs: Vec<IndexSpec>) -> Result<Vec<Arc<Index>>> {
        let create = |spec: IndexSpec| {
            let multikey = Multikey::new(&vec![0; spec.key_pattern.len()]);
            let own = self.collection;
            let new = self.store.options.trees.of_index(spec.doc.as_doc(), own.options.as_doc(), &own.engine)?;
            let mut tree = || txn.create_tree(new.options.clone());
            let index = spec.into_index(tree(), new.engine.as_str().into(), multikey);
            let parts = own.partitions.iter().map(|own| IndexPart { partition: own.clone(), tree: tree() }).collect();
            Ok(Arc::new(Index { parts, ..index }))
        };
        specs.into_iter().map(create).collect()
    }

    /// Step 1.
    fn begin(&self, specs: Vec<IndexSpec>) -> Result<(Registered<'_>, Vec<Target>)> {
        let mut txn = self.transactions().begin()?;
        let indexes = self.create(&mut txn, specs)?;
        let own = self.collection;
        let mut targets = Vec::new();
        for index in &indexes {
            let new = self.store.options.trees.of_index(index.spec.doc.as_doc(), own.options.as_doc(), &own.engine)?;
            targets.push(Target::new(index.clone(), index.unique.then(|| txn.create_tree(new.options))));
        }
        let trees: Vec<_> = targets.iter().flat_map(Target::trees).collect();
        debug_assert!(self.collection.latch.is_held_exclusively(), "step 1 is under the latch");
        for tree in &trees {
            txn.put(CATALOGUE, catalogue::build_key(*tree), own.namespace.as_str());
        }
        if self.replaced.is_none() {
            self.note_start(&mut txn, &indexes);
        }
        let registered = self.store.builds.register(Running::new(self, indexes, trees));
        txn.commit(Durability::Applied)?;
        Ok((registered, targets))
    }

    /// Notes the start in the catalogue and in the history; a build that begins again after a crash has these notes already.
    fn note_start(&self, txn: &mut Transaction, indexes: &[Arc<Index>]) {
        if self.store.unfinished.lock().iter().any(|before| before.uuid == self.uuid) {
            return;
        }
        let (uuid, own, specs) = (self.uuid, self.collection, specs_of(indexes));
        noting::build(txn, own, uuid, &specs, BuildStep::Started);
        let (collection, namespace) = (own.uuid, own.namespace.clone());
        UnfinishedBuild { uuid, collection, namespace, specs, restarts: 0 }.put_note(txn);
    }

    /// Steps 2 to 4.
    fn run_alongside_writers(&self, registered: &Registered<'_>, targets: Vec<Target>) -> Result<()> {
        let watch = &Progress { running: &registered.running, watch: self.settings.watch };
        let mut throttle = Throttle::new();
        let (view, follower) = self.transactions().follow()?;
        let mut changes = KeyChanges::new(self.collection, targets, view);
        let loads = self.fill(&mut changes, watch, &mut throttle)?;
        publish(self.transactions(), &loads, watch)?;
        let mut catch_up = CatchUp::new(self.transactions(), follower, changes);
        watch.progress(Phase::CatchingUp, 0, 0);
        catch_up.rounds(watch, &mut throttle)?;
        catch_up.carry.settle(self.transactions(), watch, &mut throttle)?;
        catch_up.rounds(watch, &mut throttle)?;
        catch_up.finish(self.store, self.collection, watch, &mut throttle, |last| self.join(last)).map(drop)
    }

    /// Step 4.
    fn join(&self, last: LastStep<'_, KeyChanges<'_>>) -> Result<()> {
        let LastStep { carry, now, view, mut txn } = last;
        carry.check(&mut txn, &view)?;
        for tree in carry.targets.iter().filter_map(Target::contended_tree) {
            txn.drop_tree(tree);
            txn.delete(CATALOGUE, catalogue::build_key(tree));
        }
        txn.delete(CATALOGUE, catalogue::unfinished_key(self.uuid));
        let built: Vec<_> = carry.targets.iter().map(|target| target.index.clone()).collect();
        match (&self.replaced, built.first()) {
            (Some(replaced), Some(index)) => noting::index_changed(&mut txn, &now, replaced, index),
            _ => noting::build(&mut txn, &now, self.uuid, &specs_of(&built), BuildStep::Committed),
        }
        self.complete(txn, &now, built)
    }

    /// Adds the indexes to the collection and commits.
    fn complete(&self, mut txn: Transaction, now: &Collection, built: Vec<Arc<Index>>) -> Result<()> {
        assert!(now.uuid == self.collection.uuid, "the indexes of one collection do not join another");
        debug_assert!(now.latch.is_held_exclusively(), "step 4: no writer of {} is at work", now.namespace);
        assert!(self.replaced.is_none() || built.len() == 1, "one index comes in the place of one");
        for index in &built {
            let masks = index.multikey.expected();
            if masks.iter().any(|mask| *mask != 0) {
                txn.put(CATALOGUE, catalogue::multikey_key(index.tree), catalogue::encode_masks(&masks));
            }
            index.trees().for_each(|tree| txn.delete(CATALOGUE, catalogue::build_key(tree)));
        }
        let _changing = self.store.lock_changes();
        let changed = self.joined_by(&mut txn, now, built)?;
        put_collection(&mut txn, &changed);
        self.store.commit_change(txn, |catalogue| catalogue.put(Arc::new(changed)))
    }

    /// The collection with the new indexes.
    fn joined_by(&self, txn: &mut Transaction, now: &Collection, built: Vec<Arc<Index>>) -> Result<Collection> {
        let mut changed = now.copy();
        for new in built {
            let Some(replaced) = &self.replaced else {
                changed.indexes.push(new);
                continue;
            };
            let old = changed.indexes.iter().find(|index| index.tree == replaced.tree).cloned();
            let old = old.ok_or(Error::Interrupted)?;
            drop_index(txn, &old);
            changed = changed.with_index_replaced(&old, new);
        }
        Ok(changed)
    }

    /// `again`: the next start begins it again.
    fn give_up(&self, registered: &Registered<'_>, again: bool, why: &Error) -> Result<()> {
        let mut txn = self.transactions().begin()?;
        for tree in &registered.running.trees {
            txn.drop_tree(*tree);
            txn.delete(CATALOGUE, catalogue::build_key(*tree));
        }
        if !again {
            txn.delete(CATALOGUE, catalogue::unfinished_key(self.uuid));
            let still = self.store.collection(&self.collection.namespace);
            if self.replaced.is_none() && still.is_some_and(|still| still.uuid == self.collection.uuid) {
                let (specs, why) = (specs_of(&registered.running.indexes), why.to_string());
                noting::build(&mut txn, self.collection, self.uuid, &specs, BuildStep::Aborted(&why));
            }
        }
        txn.commit(Durability::Applied)?;
        Ok(())
    }
}

fn specs_of(indexes: &[Arc<Index>]) -> Vec<DocBuf> {
    indexes.iter().map(|index| index.spec.doc.clone()).collect()
}
