//! Creating and dropping indexes.

use std::sync::Arc;

use arbor_bson::{Doc, DocBuf, ValueRef, compare_docs};
use arbor_engine::Error as EngineError;
use arbor_lang::Collation;
use uuid::Uuid;

use crate::build::{Build, BuildSettings, Running};
use crate::catalogue::change_collections::{drop_index, put_collection};
use crate::follow::Unwatched;
use crate::index::Multikey;
use crate::index::spec::IndexSpec;
use crate::noting::commands as noting;
use crate::{Collection, Error, Index, IndexProblem, Namespace, Result, Store};

/// The result of `create_indexes`. `before == after`: all indexes were there already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexesCreated {
    /// Numbers of indexes, `_id_` included.
    pub before: usize,
    pub after: usize,
    pub created_collection: bool,
    /// Names of the new ones.
    pub created: Vec<String>,
}

/// The indexes to drop.
#[derive(Clone, Debug)]
pub enum IndexSelection {
    /// `*`: all but `_id_`.
    All,
    Names(Vec<String>),
    Key(DocBuf),
}

fn problem<T>(kind: IndexProblem, reason: impl Into<String>) -> Result<T> {
    Err(Error::Index { kind, reason: reason.into() })
}

impl Store {
    /// Like [`Store::build_indexes`], but unwatched.
    pub fn create_indexes(&self, namespace: &Namespace, specs: &[DocBuf]) -> Result<IndexesCreated> {
        let memory_bytes = self.options.build_memory_bytes;
        self.build_indexes(namespace, specs, BuildSettings { memory_bytes, watch: &Unwatched })
    }

    /// Builds what is not there yet; creates the collection when needed. All or nothing, except that a created collection
    /// stays. Indexes that another build is making are waited for.
    pub fn build_indexes(
        &self,
        namespace: &Namespace,
        specs: &[DocBuf],
        settings: BuildSettings<'_>,
    ) -> Result<IndexesCreated> {
        self.create_indexes_as(Uuid::new_v4(), namespace, specs, settings)
    }

    pub(crate) fn create_indexes_as(
        &self,
        uuid: Uuid,
        namespace: &Namespace,
        specs: &[DocBuf],
        settings: BuildSettings<'_>,
    ) -> Result<IndexesCreated> {
        let own = self.collection(namespace);
        let specs: Vec<&DocBuf> = specs.iter().filter(|spec| !is_own_clustered(own.as_deref(), spec)).collect();
        self.check_trees(namespace, &parse_all(&specs, &Collation::simple())?)?;
        let mut created_collection = false;
        loop {
            created_collection |= self.ensure_collection(namespace)?;
            let (collection, latch) = match self.hold_exclusive_watched(namespace, settings.watch) {
                Err(Error::NamespaceNotFound(_)) => continue,
                held => held?,
            };
            let builds = self.builds.of(&collection);
            let (new, awaited) = select_new(&collection, &builds, &parse_all(&specs, &collection.collation)?)?;
            if let Some(awaited) = awaited {
                drop(latch);
                self.builds.wait_for(awaited, settings.watch)?;
                continue;
            }
            let before = collection.indexes.len() + 1;
            let created: Vec<String> = new.iter().map(|spec| spec.name.clone()).collect();
            if !new.is_empty() {
                self.switches.refuse(&collection, "create indexes on")?;
                collection.check_room_for(&new)?;
                Build { store: self, collection: &collection, replaced: None, settings, uuid }.run(new, latch)?;
            }
            debug_assert!(before + created.len() <= INDEXES_MAX, "{} more than {before} indexes", created.len());
            return Ok(IndexesCreated { before, after: before + created.len(), created_collection, created });
        }
    }

    /// Errors: an engine, or an option of it, that the trees of these indexes could not be created with. Asked before a
    /// collection is created for them.
    fn check_trees(&self, namespace: &Namespace, specs: &[IndexSpec]) -> Result<()> {
        let collection = self.collection(namespace);
        let (options, engine) = match &collection {
            Some(own) => (own.options.as_doc(), &*own.engine),
            None => (Doc::empty(), self.options.trees.default),
        };
        for spec in specs {
            let new = self.options.trees.of_index(spec.doc.as_doc(), options, engine)?;
            let checked = self.transactions.engine().check_options(&new.options);
            // Says whose index it would be.
            checked.map_err(|error| match (error, &collection) {
                (EngineError::Unavailable { engine, reason, .. }, Some(own)) => {
                    EngineError::Unavailable { engine, reason, tree: Some(own.tree) }
                }
                (error, _) => error,
            })?;
        }
        Ok(())
    }

    /// Ends the builds of those that are not finished. Returns the number of indexes before, `_id_` included.
    pub fn drop_indexes(&self, namespace: &Namespace, which: &IndexSelection) -> Result<usize> {
        let aborted = match self.collection(namespace) {
            Some(collection) => self.abort_builds(&collection, which)?,
            None => Vec::new(),
        };
        let (collection, _guard) =
            self.hold_exclusive(namespace).ok_or_else(|| Error::NamespaceNotFound(namespace.clone()))?;
        let gone = |index: &Arc<Index>| collection.index(&index.name).is_none();
        let aborted: Vec<_> = aborted.into_iter().filter(gone).collect();
        let before = collection.indexes.len() + 1 + aborted.len();
        let dropped = match which {
            IndexSelection::Key(_) if !aborted.is_empty() => Vec::new(),
            IndexSelection::Names(names) => {
                let ready = names.iter().filter(|name| !aborted.iter().any(|index| index.name == **name));
                select(&collection, &IndexSelection::Names(ready.cloned().collect()))?
            }
            which => select(&collection, which)?,
        };
        if dropped.is_empty() {
            return Ok(before);
        }
        self.switches.refuse(&collection, "drop indexes of")?;
        let _changing = self.lock_changes();
        let mut txn = self.transactions.begin()?;
        for index in &dropped {
            drop_index(&mut txn, index);
        }
        let stays = |index: &&Arc<Index>| !dropped.iter().any(|gone| Arc::ptr_eq(gone, index));
        let indexes = collection.indexes.iter().filter(stays).cloned().collect();
        let changed = Collection { indexes, ..collection.copy() };
        put_collection(&mut txn, &changed);
        noting::indexes_dropped(&mut txn, &collection, &dropped);
        self.commit_change(txn, |catalogue| catalogue.put(Arc::new(changed)))?;
        Ok(before)
    }

    /// Ends the builds of the chosen indexes and waits for their end. Returns the indexes of these builds.
    ///
    /// Errors: `IndexBuildRunning` when only some of the indexes of a build are meant.
    fn abort_builds(&self, collection: &Collection, which: &IndexSelection) -> Result<Vec<Arc<Index>>> {
        let is_meant = |index: &Arc<Index>| match which {
            IndexSelection::All => true,
            IndexSelection::Names(names) => names.contains(&index.name),
            IndexSelection::Key(key) => compare_docs(key.as_doc(), index.key.as_doc()).is_eq(),
        };
        let builds = self.builds.of(collection);
        let meant: Vec<_> = builds.iter().filter(|build| build.indexes.iter().any(is_meant)).collect();
        if meant.iter().any(|build| !build.indexes.iter().all(is_meant)) {
            return Err(Error::IndexBuildRunning { collection: collection.uuid });
        }
        meant.iter().for_each(|build| build.break_off("dropIndexes command"));
        meant.iter().try_for_each(|build| self.builds.wait_for(build, &Unwatched))?;
        Ok(meant.iter().flat_map(|build| build.indexes.iter().cloned()).collect())
    }
}

/// An index has the collation of its collection unless it says otherwise.
pub(crate) fn parse_all(specs: &[&DocBuf], default: &Collation) -> Result<Vec<IndexSpec>> {
    let parse = |spec: &&DocBuf| match spec.get("collation") {
        None if !default.is_simple() => {
            IndexSpec::parse(DocBuf::clone(spec).with("collation", &default.to_doc()).as_doc())
        }
        _ => IndexSpec::parse(spec.as_doc()),
    };
    let checked = |spec: &&DocBuf| {
        arbor_lang::stop::tick()?;
        parse(spec).and_then(|parsed| parsed.check_new().map(|()| parsed))
    };
    specs.iter().map(checked).collect()
}

fn check_id_collation(collection: &Collection, spec: &IndexSpec) -> Result<()> {
    if spec.collation == collection.collation {
        return Ok(());
    }
    let shown = |collation: &Collation| arbor_bson::display::shell((&collation.to_doc()).into()).to_string();
    let reason = format!(
        "The _id index must have the same collation as the collection. Index collation: {}, collection collation: {}",
        shown(&spec.collation),
        shown(&collection.collation)
    );
    problem(IndexProblem::BadValue, reason)
}

/// The specifications that are neither there nor the `_id` index, nor twice in the request; and a build that is at work on
/// one of them.
pub(crate) fn select_new<'b>(
    collection: &Collection,
    builds: &'b [Arc<Running>],
    specs: &[IndexSpec],
) -> Result<(Vec<IndexSpec>, Option<&'b Running>)> {
    let mut known = collection.indexes.clone();
    known.extend(builds.iter().filter(|build| !build.replaces).flat_map(|build| build.indexes.iter().cloned()));
    let mut new = Vec::new();
    for spec in specs {
        if spec.is_id_index() {
            check_id_collation(collection, spec)?;
            continue;
        }
        if !spec.is_new(&known)? {
            let same = |build: &&Arc<Running>| build.indexes.iter().any(|index| index.name == spec.name);
            match builds.iter().find(same) {
                Some(build) => return Ok((Vec::new(), Some(build))),
                None => continue,
            }
        }
        let index = spec.clone().into_index(collection.tree, collection.engine.clone(), Multikey::default());
        if spec.unique || spec.prepare_unique {
            collection.refuse_partitioned("have unique indexes")?;
        }
        known.push(Arc::new(index));
        new.push(spec.clone());
        if known.len() + 1 > INDEXES_MAX {
            let reason = format!("add index fails, too many indexes for {}", collection.namespace);
            return problem(IndexProblem::CannotCreate, reason);
        }
    }
    Ok((new, None))
}

/// Most indexes of one collection, `_id_` included.
pub const INDEXES_MAX: usize = 64;

fn select(collection: &Collection, which: &IndexSelection) -> Result<Vec<Arc<Index>>> {
    match which {
        IndexSelection::All => Ok(collection.indexes.clone()),
        IndexSelection::Names(names) => names.iter().map(|name| by_name(collection, name)).collect(),
        IndexSelection::Key(key) => by_key(collection, key).map(|index| vec![index]),
    }
}

pub(crate) fn by_name(collection: &Collection, name: &str) -> Result<Arc<Index>> {
    match collection.index(name) {
        Some(index) => Ok(index.clone()),
        None if name == collection.id_index_name() => cannot_drop_id(collection),
        None if name == "_id_" => problem(IndexProblem::InvalidOptions, "cannot drop _id index"),
        None => problem(IndexProblem::NotFound, format!("index not found with name [{name}]")),
    }
}

fn cannot_drop_id<T>(collection: &Collection) -> Result<T> {
    match collection.clustered_index() {
        Some(_) => problem(IndexProblem::Location(5_979_800), "It is illegal to drop the clusteredIndex"),
        None => problem(IndexProblem::InvalidOptions, "cannot drop _id index"),
    }
}

/// The clustered index that a clustered collection has anyway is no new one.
fn is_own_clustered(collection: Option<&Collection>, spec: &DocBuf) -> bool {
    let key_is_id = matches!(spec.get("key"), Some(ValueRef::Document(key))
        if compare_docs(key, DocBuf::new().with("_id", 1i32).as_doc()).is_eq());
    key_is_id
        && matches!(spec.get("clustered"), Some(ValueRef::Bool(true)))
        && collection.is_some_and(|own| own.clustered_index().is_some())
}

pub(crate) fn by_key(collection: &Collection, key: &DocBuf) -> Result<Arc<Index>> {
    let same = |other: &DocBuf| compare_docs(other.as_doc(), key.as_doc()).is_eq();
    if same(&DocBuf::new().with("_id", 1i32)) {
        return cannot_drop_id(collection);
    }
    let found: Vec<_> = collection.indexes.iter().filter(|index| same(&index.key)).collect();
    let shown = arbor_bson::display::shell(key.into());
    match found.as_slice() {
        [] => problem(IndexProblem::NotFound, format!("can't find index with key: {shown}")),
        [index] => Ok((*index).clone()),
        several => {
            let names: Vec<_> = several.iter().map(|index| index.name.as_str()).collect();
            let (count, names) = (several.len(), names.join(", "));
            problem(
                IndexProblem::Ambiguous,
                format!(
                    "{count} indexes found for key: {shown}, identify by name instead. Conflicting indexes: {names}"
                ),
            )
        }
    }
}
