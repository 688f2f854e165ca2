//! The catalogue in memory of a member that follows another one: in step with the rows that are applied.
//!
//! Readers rely on two rules of the store, which the leader keeps by its own order: multikey flags are expected before the keys that need
//! them are visible, and while a snapshot may show a change that the catalogue does not, `publishing` is raised.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use arbor_base::{Position, TreeId};
use arbor_engine::Op;
use arbor_txn::record::Record;
use arbor_txn::{Applied, ReadView, View};

use super::{
    CATALOGUE, COLLECTION_PREFIX, Catalogue, MULTIKEY_PREFIX, VIEW_PREFIX, collection_key, decode_collection,
    decode_masks, decode_view, view_key,
};
use crate::{Collection, Index, Namespace, Result, Store};

/// The store as an observer of applied records. It does not keep the store alive.
pub(crate) struct InStep(pub Weak<Store>);

/// Collections, and the function to be called when another member has changed one of them: caches of its documents are stale.
pub(crate) struct WatchedCollections {
    names: Vec<Namespace>,
    changed: Box<dyn Fn(&Namespace) + Send + Sync>,
}

impl Applied for InStep {
    fn before(&self, ops: &[Op]) {
        let Some(store) = self.0.upgrade() else { return };
        if ops.iter().any(|op| op.tree_with_rows() == Some(CATALOGUE)) {
            store.set_publishing(true);
            store.expect_multikey(ops);
        }
    }

    fn after(&self, records: &[(Position, Record)], view: &ReadView) {
        let Some(store) = self.0.upgrade() else { return };
        let ops = || records.iter().flat_map(|(_, record)| &record.ops);
        let changed = changed_names(ops());
        if !changed.is_empty() {
            store.show_changes(&changed, view);
        }
        store.set_publishing(false);
        store.note_arrivals(ops());
        store.report_changes(&changed, ops());
    }

    fn replaced(&self, view: &ReadView) {
        let Some(store) = self.0.upgrade() else { return };
        store.show_all(view);
        store.watched.get().iter().for_each(|watched| watched.names.iter().for_each(|name| (watched.changed)(name)));
    }
}

/// Names of the collections and views whose rows some operation changes. A deleted range is not among them: nothing deletes one here.
fn changed_names<'o>(ops: impl Iterator<Item = &'o Op>) -> BTreeSet<Namespace> {
    let key = |op: &'o Op| match op {
        Op::Put { tree: CATALOGUE, key, .. } | Op::Delete { tree: CATALOGUE, key } => Some(key.as_slice()),
        _ => None,
    };
    let name = |key: &[u8]| match key.split_first() {
        Some((&(COLLECTION_PREFIX | VIEW_PREFIX), name)) => Namespace::parse(str::from_utf8(name).ok()?).ok(),
        _ => None,
    };
    ops.filter_map(key).filter_map(name).collect()
}

/// The index tree and the flags of a row.
fn masks_in(op: &Op) -> Option<(TreeId, &[u8])> {
    let Op::Put { tree: CATALOGUE, key, value } = op else { return None };
    let (prefix, tree) = key.split_first()?;
    let tree = tree.try_into().ok().filter(|_| *prefix == MULTIKEY_PREFIX)?;
    Some((TreeId(u64::from_be_bytes(tree)), value))
}

impl Store {
    /// Keeps the catalogue in step with what another member commits, from the next applied record on.
    pub fn keep_in_step(self: &Arc<Self>) {
        self.transactions().observe(Arc::new(InStep(Arc::downgrade(self))));
    }

    /// Has `changed` called when another member has changed one of these collections. It is called while the commit lock is held: it must
    /// neither read nor write. Only the first call counts.
    pub fn watch(&self, names: Vec<Namespace>, changed: Box<dyn Fn(&Namespace) + Send + Sync>) {
        let _only_the_first = self.watched.set(WatchedCollections { names, changed });
    }

    /// Returns the trees that builds and changes of engines fill, which are on each member what it has of them so far. For a simulation.
    #[doc(hidden)]
    pub fn unfinished_trees(&self, view: &impl View) -> Result<Vec<TreeId>> {
        match super::load(view, self.options.trees.home) {
            Err(crate::Error::Txn(arbor_txn::Error::UnknownTree(_))) => Ok(Vec::new()),
            loaded => Ok(loaded?.interrupted),
        }
    }

    /// Panics unless the catalogue in memory is the one in the rows of a view, which is the newest; returns what is in it. For tests: no change
    /// of the catalogue may be under way.
    #[doc(hidden)]
    pub fn validate_in_step(&self, view: &ReadView) -> Vec<String> {
        let rows = match super::load(view, self.options.trees.home) {
            Err(crate::Error::Txn(arbor_txn::Error::UnknownTree(_))) => Catalogue::default(),
            loaded => loaded.expect("the rows of the catalogue decode").catalogue,
        };
        let known = self.current();
        known.validate(&Catalogue::default());
        let described = self::described(&known);
        assert_eq!(described, self::described(&rows), "the catalogue in memory and its rows");
        for (known, row) in indexes(&known).zip(indexes(&rows)) {
            let masks = row.multikey.expected();
            assert!(known.multikey.expects(&masks), "readers of {} expect the arrays of its row", known.name);
            assert!(row.multikey.is_stored(&known.multikey.stored()), "{} has flags that its row lacks", known.name);
        }
        described
    }

    fn report_changes<'o>(&self, changed: &BTreeSet<Namespace>, ops: impl Iterator<Item = &'o Op>) {
        let Some(watched) = self.watched.get() else { return };
        let trees: BTreeSet<TreeId> = ops.filter_map(Op::tree_with_rows).collect();
        let is_changed = |name: &&Namespace| {
            let own = self.collection(name);
            changed.contains(*name) || own.is_some_and(|own| own.record_trees().any(|tree| trees.contains(&tree)))
        };
        watched.names.iter().filter(is_changed).for_each(|name| (watched.changed)(name));
    }

    fn expect_multikey(&self, ops: &[Op]) {
        let flags: Vec<_> = ops.iter().filter_map(masks_in).collect();
        if flags.is_empty() {
            return;
        }
        self.with_catalogue(|catalogue| {
            for index in indexes(catalogue) {
                for (_, bytes) in flags.iter().filter(|(tree, _)| *tree == index.tree) {
                    let masks = decode_masks(Some(bytes), index.key_pattern.len());
                    index.multikey.expect(&masks);
                    index.multikey.set_stored(&masks);
                }
            }
        });
    }

    /// Takes over all of another state. A catalogue that does not decode shows nothing; the next start reports it.
    fn show_all(&self, view: &ReadView) {
        let loaded = super::load(view, self.options.trees.home);
        debug_assert!(loaded.is_ok(), "the catalogue of an initial sync: {:?}", loaded.err());
        self.change_shown(|catalogue| *catalogue = loaded.map(|loaded| loaded.catalogue).unwrap_or_default());
        self.set_publishing(false);
    }

    /// Takes over the rows that a view shows. A row that does not decode leaves its collection as it was; validation and the
    /// next start report it.
    fn show_changes(&self, changed: &BTreeSet<Namespace>, view: &ReadView) {
        let before = self.current();
        self.change_shown(|catalogue| self.take_rows(catalogue, &before, changed, view));
    }

    fn take_rows(&self, catalogue: &mut Catalogue, before: &Catalogue, changed: &BTreeSet<Namespace>, view: &ReadView) {
        for name in changed {
            let collection = self.collection_of_row(before, view, name);
            let defined = row_of(view, &view_key(name)).map(|row| row.map(|row| decode_view(name.clone(), &row)));
            let Ok(defined) = defined.and_then(Option::transpose) else { continue };
            let Ok(collection) = collection else { continue };
            catalogue.remove(name);
            collection.into_iter().for_each(|collection| catalogue.put(Arc::new(collection)));
            defined.into_iter().for_each(|view| catalogue.put_view(Arc::new(view)));
        }
    }

    /// The collection that a row describes; it shares latch, statistics and unchanged indexes with what it was before.
    fn collection_of_row(&self, all: &Catalogue, view: &ReadView, name: &Namespace) -> Result<Option<Collection>> {
        let Some(row) = row_of(view, &collection_key(name))? else { return Ok(None) };
        let mut now = decode_collection(view, name.clone(), &row, self.options.trees.home)?;
        // It may have had another name.
        let named = all.collection(name).filter(|before| before.uuid == now.uuid);
        let before = named.or_else(|| collections(all).find(|before| before.uuid == now.uuid));
        if let Some(before) = before {
            (now.latch, now.arrivals) = (before.latch.clone(), before.arrivals.clone());
            now.usage = before.usage.clone();
            for index in &mut now.indexes {
                let same = |own: &&Arc<Index>| {
                    own.trees().eq(index.trees()) && own.spec.doc.as_bytes() == index.spec.doc.as_bytes()
                };
                if let Some(before) = before.indexes.iter().find(same) {
                    *index = before.clone();
                }
            }
        }
        Ok(Some(now))
    }

    /// Wakes the readers that wait at the end of capped collections.
    fn note_arrivals<'o>(&self, ops: impl Iterator<Item = &'o Op>) {
        let trees: BTreeSet<TreeId> = ops.filter_map(Op::tree_with_rows).collect();
        self.with_catalogue(|catalogue| {
            let capped = collections(catalogue).filter(|own| own.order.is_some_and(|order| trees.contains(&order)));
            capped.for_each(|collection| collection.arrivals.note());
        });
    }
}

fn described(catalogue: &Catalogue) -> Vec<String> {
    let of_collection = |own: &Arc<Collection>| {
        let described = |index: &Arc<Index>| {
            format!("{:?} {} {:?}", index.trees().collect::<Vec<_>>(), index.engine, index.spec.doc)
        };
        let indexes: Vec<_> = own.indexes.iter().map(described).collect();
        let Collection { namespace, uuid, engine, tree, order, options, partitions, .. } = &**own;
        format!("{namespace} {uuid} {engine} {tree:?} {order:?} {options:?} {indexes:?} {partitions:?}")
    };
    let views = catalogue.databases.values().flat_map(|database| database.views.values());
    collections(catalogue).map(of_collection).chain(views.map(|view| format!("{view:?}"))).collect()
}

fn row_of(view: &ReadView, key: &[u8]) -> Result<Option<Vec<u8>>> {
    Ok(view.get(CATALOGUE, key)?.map(|row| row.into_owned()))
}

fn collections(catalogue: &Catalogue) -> impl Iterator<Item = &Arc<Collection>> {
    catalogue.databases.values().flat_map(|database| database.collections.values())
}

fn indexes(catalogue: &Catalogue) -> impl Iterator<Item = &Arc<Index>> {
    collections(catalogue).flat_map(|collection| &collection.indexes)
}
