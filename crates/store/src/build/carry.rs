//! The keys of documents that changed since the snapshot.

use std::collections::{BTreeSet, HashSet};

use arbor_base::TreeId;
use arbor_bson::Doc;
use arbor_engine::Op;
use arbor_txn::{Durability, ReadView, Transaction, Transactions, View};

use super::target::{Settled, Target};
use crate::follow::{Carry, Throttle, Watch};
use crate::index::keys::Keys;
use crate::write::difference;
use crate::{Collection, Error, Index, Result};

/// Memory for the documents of one round that are done.
const DONE_BYTES_MAX: usize = 8 << 20;
/// Maximum number of documents that cannot be indexed and are checked again at the end. One more ends the build.
const UNINDEXABLE_MAX: usize = 10_000;

pub(super) struct KeyChanges<'b> {
    pub collection: &'b Collection,
    pub targets: Vec<Target>,
    /// The trees hold the keys of what this shows (B1).
    pub base: ReadView,
    pub unindexable: UnindexableDocuments,
    /// Records of this round whose keys are carried over.
    done: HashSet<Vec<u8>>,
    done_bytes: usize,
}

/// Documents that cannot be indexed: they are without keys until they change, or end the build in the end (B2).
#[derive(Default)]
pub(super) struct UnindexableDocuments(BTreeSet<Vec<u8>>);

impl UnindexableDocuments {
    /// `None`: the document cannot be indexed; that is noted.
    pub(super) fn keys_of(&mut self, index: &Index, id_key: &[u8], doc: Doc<'_>) -> Result<Option<Keys>> {
        match index.keys_of(doc) {
            Ok(keys) => Ok(Some(keys)),
            Err(error) if self.0.len() >= UNINDEXABLE_MAX => Err(error),
            Err(_) => {
                self.0.insert(id_key.to_vec());
                Ok(None)
            }
        }
    }
}

impl<'b> KeyChanges<'b> {
    pub(super) fn new(collection: &'b Collection, targets: Vec<Target>, base: ReadView) -> KeyChanges<'b> {
        KeyChanges {
            collection,
            targets,
            base,
            unindexable: UnindexableDocuments::default(),
            done: HashSet::new(),
            done_bytes: 0,
        }
    }

    /// The difference of the record's keys in the base and in the view.
    fn record(&mut self, txn: &mut Transaction, id_key: &[u8], view: &ReadView) -> Result<()> {
        if self.done.contains(id_key) {
            return Ok(());
        }
        let old = self.base.get(self.collection.tree_of(id_key), id_key)?;
        let new = view.get(self.collection.tree_of(id_key), id_key)?;
        let (old, new) = (old.as_deref().map(Doc::trusted), new.as_deref().map(Doc::trusted));
        for target in &mut self.targets {
            let index = target.index.clone();
            if let (Some(old), Some(new)) = (old, new)
                && index.same_fields(old, new)
            {
                continue;
            }
            let before = old.and_then(|old| index.keys_of(old).ok()).map(|keys| keys.keys).unwrap_or_default();
            let after = match new {
                Some(new) => self.unindexable.keys_of(&index, id_key, new)?,
                None => None,
            };
            if let Some(after) = &after {
                index.multikey.expect(&after.multikey);
            }
            let change = difference(before, after.map(|keys| keys.keys).unwrap_or_default(), index.clustering);
            change.removed.iter().try_for_each(|key| target.remove(txn, key, id_key))?;
            if let Some(new) = new {
                let keys = change.added.iter().chain(&change.rewritten);
                keys.into_iter().try_for_each(|key| target.put(txn, key, id_key, new))?;
            }
        }
        self.note_done(id_key);
        Ok(())
    }

    fn note_done(&mut self, id_key: &[u8]) {
        if self.done_bytes > DONE_BYTES_MAX {
            self.done.clear();
            self.done_bytes = 0;
        }
        self.done_bytes += id_key.len() + 64;
        self.done.insert(id_key.to_vec());
    }

    /// Records of the base in a tree, from `from` on, before `to`.
    fn records_between(&self, tree: TreeId, from: &[u8], to: Option<&[u8]>) -> Result<Vec<Vec<u8>>> {
        let mut cursor = self.base.cursor(tree)?;
        let (mut found, mut valid) = (Vec::new(), cursor.seek(from)?);
        while valid && to.is_none_or(|to| cursor.key() < to) {
            found.push(cursor.key().to_vec());
            valid = cursor.next()?;
        }
        Ok(found)
    }

    /// Makes the last step short: moves keys that are no longer contended to the index's own tree.
    pub(super) fn settle(
        &mut self,
        transactions: &Transactions,
        watch: &dyn Watch,
        throttle: &mut Throttle,
    ) -> Result<()> {
        for target in &mut self.targets {
            let mut from = Vec::new();
            loop {
                let mut txn = transactions.begin()?;
                let settled = target.settle(&mut txn, &from, None)?;
                txn.commit(Durability::Applied)?;
                throttle.pause();
                if watch.is_stopped() {
                    return Err(Error::Interrupted);
                }
                match settled {
                    Settled::All => break,
                    Settled::UpTo(next) => from = next,
                }
            }
        }
        Ok(())
    }

    /// Checks the last step: everything the view shows must be carried over. Errors: the reason why an index cannot be made.
    pub(super) fn check(&mut self, txn: &mut Transaction, view: &ReadView) -> Result<()> {
        for id_key in &self.unindexable.0 {
            if let Some(doc) = view.get(self.collection.tree_of(id_key), id_key)? {
                self.targets.iter().try_for_each(|target| target.index.keys_of(Doc::trusted(&doc)).map(drop))?;
            }
        }
        for target in &mut self.targets {
            target.settle(txn, &[], Some(self.collection))?;
        }
        Ok(())
    }
}

impl Carry for KeyChanges<'_> {
    fn carry(&mut self, txn: &mut Transaction, op: Op, view: &ReadView) -> Result<()> {
        let collection = self.collection;
        let is_own = |tree| collection.record_trees().any(|own| own == tree);
        match op {
            Op::Put { tree, key, .. } | Op::Delete { tree, key } | Op::Update { tree, key, .. } if is_own(tree) => {
                self.record(txn, &key, view)
            }
            Op::DeleteRange { tree, from, to } if is_own(tree) => {
                let records = self.records_between(tree, &from, to.as_deref())?;
                records.iter().try_for_each(|id_key| self.record(txn, id_key, view))
            }
            Op::DropTree { tree } if is_own(tree) => Err(Error::Interrupted),
            _ => Ok(()),
        }
    }

    fn caught_up(&mut self, view: ReadView) {
        assert!(self.base.position() <= view.position(), "B1: the base goes forward");
        self.base = view;
        self.done.clear();
        self.done_bytes = 0;
    }
}
