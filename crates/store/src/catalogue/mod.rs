//! The catalogue: in memory as [`Catalogue`], on disk as rows of one tree (TreeId 2).
//!
//! | key | value |
//! |---|---|
//! | `c` + namespace | document `{uuid, engine, tree, order, options, indexes: [{engine, tree, spec}]}`; `indexes` holds ready ones only,
//! | | `order` is there for capped collections; in the place of `tree` a partitioned one has |
//! | | `partitions: [{id, tree, created, info, max, key}]`, so that releases that know of none refuse it; its indexes have `trees`: |
//! | | the one that names the index, which is empty, and one for each partition |
//! | `v` + namespace | a view: document `{viewOn, pipeline}`, see [`ViewDefinition`] |
//! | `m` + index tree (u64 big-endian) | multikey components, one u64 little-endian per field |
//! | `b` + index tree (u64 big-endian) | the namespace; this tree is being built or copied, and is not in use yet |
//! | `i` + UUID | an index build that is not finished: document `{collection, ns, specs}` |
//!
//! `engine` is missing in entries that older releases wrote: the tree is on the engine that made the directory.
//! Multikey flags have rows of their own, since they are written by ordinary inserts, concurrently with all other transactions.
//! A row `b` at the start means that a build, or a switch of engines, was interrupted: its tree is dropped. A build with a
//! row `i` begins again then.

pub(crate) mod change_capped;
pub(crate) mod change_collections;
pub(crate) mod change_index;
pub(crate) mod change_indexes;
pub(crate) mod change_partitions;
pub(crate) mod change_time_series;
pub(crate) mod change_views;
pub(crate) mod in_step;
pub(crate) mod tree_options;
pub(crate) mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arbor_base::TreeId;
use arbor_bson::{Doc, DocBuf, Limits, ValueRef};
use arbor_lang::Collation;
use arbor_txn::View;
use uuid::Uuid;

use crate::capped::is_capped;
use crate::index::Multikey;
use crate::index::parts::IndexPart;
use crate::index::spec::IndexSpec;
use crate::{Collection, Error, Index, Namespace, Partition, Result, UnfinishedBuild, ViewDefinition};

pub(crate) const CATALOGUE: TreeId = TreeId(2);

const COLLECTION_PREFIX: u8 = b'c';
const VIEW_PREFIX: u8 = b'v';
const MULTIKEY_PREFIX: u8 = b'm';
const BUILD_PREFIX: u8 = b'b';
const UNFINISHED_PREFIX: u8 = b'i';

/// BSON's subtype of a UUID.
const UUID_SUBTYPE: u8 = 4;

/// An entry wraps a user's options, which are as deep as a document may be.
const LIMITS: Limits = Limits { depth_max: 250, size_max: arbor_engine::limits::VALUE_BYTES_MAX };

/// Databases of more collections are not validated at each change, which would cost the square of their number.
const VALIDATED_MAX: usize = 200;

/// One database's collections and views by name. A name is one or the other.
#[derive(Clone, Default)]
pub(crate) struct Database {
    pub collections: BTreeMap<String, Arc<Collection>>,
    pub views: BTreeMap<String, Arc<ViewDefinition>>,
}

impl Database {
    fn validate(&self, db: &str) {
        assert!(!self.collections.is_empty() || !self.views.is_empty(), "{db} is there while it has something");
        let (mut trees, mut uuids) = (BTreeSet::new(), BTreeSet::new());
        for (name, own) in &self.collections {
            let namespace = &own.namespace;
            assert!(namespace.db() == db && namespace.collection() == name, "{namespace} is found as {db}.{name}");
            assert!(!self.views.contains_key(name), "{namespace} is a collection or a view");
            assert!(own.trees().all(|tree| trees.insert(tree)), "each tree of {namespace} is its own");
            assert!(uuids.insert(own.uuid), "the UUID of {namespace} is its own");
            let indexes: BTreeSet<&str> = own.indexes.iter().map(|index| index.name.as_str()).collect();
            assert!(indexes.len() == own.indexes.len(), "two indexes of {namespace} have one name");
            assert!(!indexes.contains("_id_"), "the index on _id of {namespace} is the records themselves");
            own.validate_partitions();
            assert!(own.order.is_some() == is_capped(own.options.as_doc()), "{namespace} has an order if it is capped");
        }
        for (name, view) in &self.views {
            let namespace = &view.namespace;
            assert!(namespace.db() == db && namespace.collection() == name, "{namespace} is found as {db}.{name}");
            assert!(view.view_on.db() == db, "{namespace} shows its own database, and not {}", view.view_on);
        }
    }
}

/// All databases by name. A database is there while it has collections or views. Cloning shares the databases.
#[derive(Clone, Default)]
pub(crate) struct Catalogue {
    pub databases: BTreeMap<String, Arc<Database>>,
}

impl Catalogue {
    pub(crate) fn collection(&self, namespace: &Namespace) -> Option<&Arc<Collection>> {
        self.databases.get(namespace.db())?.collections.get(namespace.collection())
    }

    pub(crate) fn view(&self, namespace: &Namespace) -> Option<&Arc<ViewDefinition>> {
        self.databases.get(namespace.db())?.views.get(namespace.collection())
    }

    pub(crate) fn put(&mut self, collection: Arc<Collection>) {
        let database = self.databases.entry(collection.namespace.db().to_owned()).or_default();
        Arc::make_mut(database).collections.insert(collection.namespace.collection().to_owned(), collection);
    }

    pub(crate) fn put_view(&mut self, view: Arc<ViewDefinition>) {
        let database = self.databases.entry(view.namespace.db().to_owned()).or_default();
        Arc::make_mut(database).views.insert(view.namespace.collection().to_owned(), view);
    }

    /// Removes the collection or the view.
    pub(crate) fn remove(&mut self, namespace: &Namespace) {
        let Some(database) = self.databases.get_mut(namespace.db()) else { return };
        let own = Arc::make_mut(database);
        own.collections.remove(namespace.collection());
        own.views.remove(namespace.collection());
        if own.collections.is_empty() && own.views.is_empty() {
            self.databases.remove(namespace.db());
        }
    }

    /// Panics where the catalogue breaks its own rules. `known`: an earlier one, whose databases were checked then.
    pub(crate) fn validate(&self, known: &Catalogue) {
        let names: BTreeSet<String> = self.databases.keys().map(|db| db.to_ascii_lowercase()).collect();
        assert!(names.len() == self.databases.len(), "names of databases differ not only in case");
        for (db, database) in &self.databases {
            let is_changed = known.databases.get(db).is_none_or(|known| !Arc::ptr_eq(known, database));
            if is_changed && database.collections.len() <= VALIDATED_MAX {
                database.validate(db);
            }
        }
    }

    /// A name that differs from an existing database only in case may not be used.
    pub(crate) fn check_case(&self, db: &str) -> Result<()> {
        if self.databases.contains_key(db) {
            return Ok(());
        }
        match self.databases.keys().find(|existing| existing.eq_ignore_ascii_case(db)) {
            Some(existing) => Err(Error::DatabaseDifferCase { existing: existing.clone(), requested: db.to_owned() }),
            None => Ok(()),
        }
    }
}

pub(crate) fn collection_key(namespace: &Namespace) -> Vec<u8> {
    [&[COLLECTION_PREFIX], namespace.as_str().as_bytes()].concat()
}

pub(crate) fn view_key(namespace: &Namespace) -> Vec<u8> {
    [&[VIEW_PREFIX], namespace.as_str().as_bytes()].concat()
}

pub(crate) fn multikey_key(tree: TreeId) -> Vec<u8> {
    [&[MULTIKEY_PREFIX], tree.0.to_be_bytes().as_slice()].concat()
}

pub(crate) fn build_key(tree: TreeId) -> Vec<u8> {
    [&[BUILD_PREFIX], tree.0.to_be_bytes().as_slice()].concat()
}

pub(crate) fn unfinished_key(build: Uuid) -> Vec<u8> {
    [&[UNFINISHED_PREFIX], build.as_bytes().as_slice()].concat()
}

/// The note of a build.
pub(crate) fn encode_unfinished(build: &UnfinishedBuild) -> DocBuf {
    let uuid = ValueRef::Binary { subtype: UUID_SUBTYPE, bytes: build.collection.as_bytes() };
    let specs: arbor_bson::ArrayBuf = build.specs.iter().collect();
    let note = DocBuf::new().with("collection", uuid).with("ns", build.namespace.as_str()).with("specs", &specs);
    let note = note.with("restarts", build.restarts as i32);
    let is_read = |read: UnfinishedBuild| read.restarts == build.restarts && read.specs.len() == build.specs.len();
    let read = decode_unfinished(build.uuid.as_bytes(), note.as_bytes());
    debug_assert!(read.is_ok_and(is_read), "the next start reads the note as it was written");
    note
}

pub(crate) fn encode_masks(masks: &[u64]) -> Vec<u8> {
    let bytes: Vec<u8> = masks.iter().flat_map(|mask| mask.to_le_bytes()).collect();
    debug_assert!(decode_masks(Some(&bytes), masks.len()) == masks, "flags are read as they were written");
    bytes
}

/// Missing flags are clear.
pub(crate) fn decode_masks(bytes: Option<&[u8]>, fields: usize) -> Vec<u64> {
    let (chunks, _) = bytes.unwrap_or_default().as_chunks::<8>();
    let mut masks: Vec<u64> = chunks.iter().map(|chunk| u64::from_le_bytes(*chunk)).collect();
    masks.resize(fields, 0);
    masks
}

pub(crate) fn encode_collection(collection: &Collection) -> DocBuf {
    let uuid = ValueRef::Binary { subtype: UUID_SUBTYPE, bytes: collection.uuid.as_bytes() };
    let index = |index: &Arc<Index>| {
        let mut doc = DocBuf::new().with("engine", &*index.engine);
        match index.parts.is_empty() {
            true => doc.append("tree", index.tree.0 as i64),
            false => doc.append("trees", &index.trees().map(|tree| tree.0 as i64).collect::<arbor_bson::ArrayBuf>()),
        };
        doc.with("spec", &index.spec.doc)
    };
    let indexes: Vec<DocBuf> = collection.indexes.iter().map(index).collect();
    let indexes: arbor_bson::ArrayBuf = indexes.iter().collect();
    let mut doc = DocBuf::new().with("uuid", uuid).with("engine", &*collection.engine);
    let partitions: Vec<DocBuf> = collection.partitions.iter().map(|own| own.encode()).collect();
    match partitions.is_empty() {
        true => doc.append("tree", collection.tree.0 as i64),
        false => doc.append("partitions", &partitions.iter().collect::<arbor_bson::ArrayBuf>()),
    };
    if let Some(order) = collection.order {
        doc.append("order", order.0 as i64);
    }
    let doc = doc.with("options", &collection.options).with("indexes", &indexes);
    debug_assert!(
        arbor_bson::validate(doc.as_bytes(), LIMITS).is_ok(),
        "the next start reads {}",
        collection.namespace
    );
    doc
}

fn corrupt(place: &str, reason: impl Into<String>) -> Error {
    Error::Corrupt { place: format!("catalogue entry {place}"), reason: reason.into() }
}

fn tree_in(doc: Doc<'_>, place: &str) -> Result<TreeId> {
    match doc.get("tree") {
        Some(ValueRef::Int64(tree)) => Ok(TreeId(tree as u64)),
        _ => Err(corrupt(place, "no tree")),
    }
}

fn uuid_in(doc: Doc<'_>, field: &str, place: &str) -> Result<Uuid> {
    match doc.get(field) {
        Some(ValueRef::Binary { bytes, .. }) => {
            Uuid::from_slice(bytes).map_err(|error| corrupt(place, error.to_string()))
        }
        _ => Err(corrupt(place, format!("no {field}"))),
    }
}

fn engine_in(doc: Doc<'_>, home: &str) -> Arc<str> {
    match doc.get("engine") {
        Some(ValueRef::String(engine)) => engine.into(),
        _ => home.into(),
    }
}

/// The tree that names an index, and those of its partitions.
fn trees_in(doc: Doc<'_>, place: &str, partitions: &[Arc<Partition>]) -> Result<(TreeId, Arc<[IndexPart]>)> {
    if partitions.is_empty() {
        return Ok((tree_in(doc, place)?, Arc::default()));
    }
    let number = |value| match value {
        ValueRef::Int64(tree) => Some(TreeId(tree as u64)),
        _ => None,
    };
    let trees: Option<Vec<TreeId>> = match doc.get("trees") {
        Some(ValueRef::Array(list)) => list.iter().map(number).collect(),
        _ => None,
    };
    match trees.as_deref().and_then(|trees| trees.split_first()) {
        Some((own, trees)) if trees.len() == partitions.len() => {
            let part =
                |(partition, tree): (&Arc<Partition>, &TreeId)| IndexPart { partition: partition.clone(), tree: *tree };
            Ok((*own, partitions.iter().zip(trees).map(part).collect()))
        }
        _ => Err(corrupt(place, "an index has other trees than there are partitions")),
    }
}

fn decode_index(
    view: &(impl View + ?Sized),
    doc: Doc<'_>,
    (place, home): (&str, &str),
    partitions: &[Arc<Partition>],
) -> Result<Index> {
    let (tree, parts) = trees_in(doc, place, partitions)?;
    let Some(ValueRef::Document(spec)) = doc.get("spec") else { return Err(corrupt(place, "an index has no spec")) };
    let spec = IndexSpec::parse(spec).map_err(|error| corrupt(place, error.to_string()))?;
    let masks = view.get(CATALOGUE, &multikey_key(tree))?;
    let masks = decode_masks(masks.as_deref(), spec.key_pattern.len());
    Ok(Index { parts, ..spec.into_index(tree, engine_in(doc, home), Multikey::new(&masks)) })
}

/// The collection of a row; its indexes have the flags that the view shows.
pub(crate) fn decode_collection(
    view: &(impl View + ?Sized),
    namespace: Namespace,
    bytes: &[u8],
    home: &str,
) -> Result<Collection> {
    let place = namespace.as_str().to_owned();
    let doc = arbor_bson::validate(bytes, LIMITS);
    let doc = doc.map_err(|error| corrupt(&place, error.to_string()))?;
    let uuid = uuid_in(doc, "uuid", &place)?;
    let options = match doc.get("options") {
        Some(ValueRef::Document(options)) => options.to_buf(),
        _ => return Err(corrupt(&place, "no options")),
    };
    let partitions = match doc.get("partitions") {
        Some(ValueRef::Array(list)) => Partition::decode_all(list).map_err(|reason| corrupt(&place, reason))?,
        _ => Arc::default(),
    };
    let mut indexes = Vec::new();
    if let Some(ValueRef::Array(list)) = doc.get("indexes") {
        for index in list.iter() {
            let ValueRef::Document(index) = index else { return Err(corrupt(&place, "an index is no document")) };
            indexes.push(Arc::new(decode_index(view, index, (&place, home), &partitions)?));
        }
    }
    let collation = collation_in(options.as_doc()).map_err(|error| corrupt(&place, error.to_string()))?;
    let engine = engine_in(doc, home);
    let tree = match partitions.last() {
        Some(last) => last.tree,
        None => tree_in(doc, &place)?,
    };
    let order = match doc.get("order") {
        Some(ValueRef::Int64(order)) => Some(TreeId(order as u64)),
        _ => None,
    };
    let (latch, arrivals, usage) = Default::default();
    let shard_key = Arc::default();
    Ok(Collection {
        uuid,
        namespace,
        options,
        collation,
        engine,
        tree,
        partitions,
        order,
        indexes,
        latch,
        arrivals,
        shard_key,
        usage,
    })
}

fn decode_view(namespace: Namespace, bytes: &[u8]) -> Result<ViewDefinition> {
    let place = namespace.as_str().to_owned();
    let doc = arbor_bson::validate(bytes, LIMITS).map_err(|error| corrupt(&place, error.to_string()))?;
    match (doc.get("viewOn"), doc.get("pipeline")) {
        (Some(ValueRef::String(view_on)), Some(ValueRef::Array(pipeline))) => {
            let view_on =
                Namespace::new(namespace.db(), view_on).map_err(|error| corrupt(&place, error.to_string()))?;
            let collation = collation_in(doc).map_err(|error| corrupt(&place, error.to_string()))?;
            Ok(ViewDefinition { namespace, view_on, pipeline: pipeline.to_buf(), collation })
        }
        _ => Err(corrupt(&place, "no view")),
    }
}

/// The collation among the options of a collection or a view.
pub(crate) fn collation_in(options: Doc<'_>) -> Result<Collation> {
    match options.get("collation") {
        Some(ValueRef::Document(collation)) => Ok(Collation::parse(collation)?),
        _ => Ok(Collation::simple()),
    }
}

fn decode_unfinished(uuid: &[u8], bytes: &[u8]) -> Result<UnfinishedBuild> {
    let place = "of an index build";
    let sound = |error: &dyn std::fmt::Display| corrupt(place, error.to_string());
    let uuid = Uuid::from_slice(uuid).map_err(|error| sound(&error))?;
    let doc = arbor_bson::validate(bytes, LIMITS).map_err(|error| sound(&error))?;
    let collection = uuid_in(doc, "collection", place)?;
    let (Some(ValueRef::String(name)), Some(ValueRef::Array(list))) = (doc.get("ns"), doc.get("specs")) else {
        return Err(corrupt(place, "no ns or no specs"));
    };
    let spec = |value| match value {
        // it was complete, so that it takes nothing from its collection
        ValueRef::Document(spec) if spec.get("collation").is_none() => {
            Some(spec.to_buf().with("collation", &Collation::simple().to_doc()))
        }
        ValueRef::Document(spec) => Some(spec.to_buf()),
        _ => None,
    };
    let (namespace, specs) = (Namespace::parse(name).map_err(|error| sound(&error))?, list.iter().filter_map(spec));
    let restarts = match doc.get("restarts") {
        Some(ValueRef::Int32(restarts)) => u32::try_from(restarts).map_err(|error| sound(&error))?,
        _ => 0,
    };
    Ok(UnfinishedBuild { uuid, collection, namespace, specs: specs.collect(), restarts })
}

/// The decoded contents of the tree.
#[derive(Default)]
pub(crate) struct Loaded {
    pub catalogue: Catalogue,
    /// Trees of interrupted builds and switches.
    pub interrupted: Vec<TreeId>,
    pub unfinished: Vec<UnfinishedBuild>,
}

/// The collections and views that a view shows, in order; `None`: it is a view.
pub(crate) fn listed(view: &(impl View + ?Sized), home: &str) -> Result<Vec<(Namespace, Option<Collection>)>> {
    let mut cursor = view.cursor(CATALOGUE)?;
    let (mut listed, mut valid) = (Vec::new(), cursor.first()?);
    while valid {
        if let Some((prefix @ (&COLLECTION_PREFIX | &VIEW_PREFIX), name)) = cursor.key().split_first() {
            let name = String::from_utf8_lossy(name);
            let namespace = Namespace::parse(&name).map_err(|error| corrupt(&name, error.to_string()))?;
            let is_view = *prefix == VIEW_PREFIX;
            let collection = match is_view {
                true => None,
                false => Some(decode_collection(view, namespace.clone(), cursor.value(), home)?),
            };
            listed.push((namespace, collection));
        }
        valid = cursor.next()?;
    }
    Ok(listed)
}

/// Entries without an engine are those of `home`.
pub(crate) fn load(view: &impl View, home: &str) -> Result<Loaded> {
    let Loaded { mut catalogue, mut interrupted, mut unfinished } = Loaded::default();
    let mut cursor = view.cursor(CATALOGUE)?;
    let mut valid = cursor.first()?;
    while valid {
        match cursor.key().split_first() {
            Some((&COLLECTION_PREFIX, name)) => {
                let name = String::from_utf8_lossy(name);
                let namespace = Namespace::parse(&name).map_err(|error| corrupt(&name, error.to_string()))?;
                catalogue.put(Arc::new(decode_collection(view, namespace, cursor.value(), home)?));
            }
            Some((&VIEW_PREFIX, name)) => {
                let name = String::from_utf8_lossy(name);
                let namespace = Namespace::parse(&name).map_err(|error| corrupt(&name, error.to_string()))?;
                catalogue.put_view(Arc::new(decode_view(namespace, cursor.value())?));
            }
            Some((&BUILD_PREFIX, tree)) => {
                let tree = tree.try_into().map_err(|_| corrupt("of a build", "no tree"))?;
                interrupted.push(TreeId(u64::from_be_bytes(tree)));
            }
            Some((&UNFINISHED_PREFIX, uuid)) => unfinished.push(decode_unfinished(uuid, cursor.value())?),
            _ => {}
        }
        valid = cursor.next()?;
    }
    Ok(Loaded { catalogue, interrupted, unfinished })
}
