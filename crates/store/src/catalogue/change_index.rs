//! `collMod` of one index: settings that need no rebuild, and the way to a unique index.
//!
//! `prepareUnique` first refuses new duplicates. The conversion then searches for those that were there before, under the
//! collection's exclusive latch, builds the index again like any other, since unique indexes have another layout
//! (`entry.rs`), and puts it in the place of the old one.

use std::sync::Arc;

use arbor_bson::{ArrayBuf, DocBuf, ValueRef};
use uuid::Uuid;

use crate::build::{Build, BuildSettings};
use crate::catalogue::change_collections::put_collection;
use crate::catalogue::change_indexes::{by_key, by_name};
use crate::index::refusal::problem;
use crate::index::spec::IndexSpec;
use crate::latch::ExclusiveGuard;
use crate::noting::commands as noting;
use crate::read::record::record;
use crate::{Collection, Error, Index, IndexCursor, IndexProblem, Namespace, Result, Store};

/// Maximum number of duplicate keys, and of documents per key, that an error names.
const VIOLATIONS_MAX: usize = 100;

/// The selected index.
#[derive(Clone, Debug)]
pub enum IndexChosen {
    Name(String),
    Key(DocBuf),
}

/// The requested changes; `None` stays as it is.
#[derive(Clone, Debug, Default)]
pub struct IndexChange {
    pub expire_after_seconds: Option<i64>,
    pub hidden: Option<bool>,
    pub prepare_unique: Option<bool>,
    pub unique: Option<Conversion>,
}

/// Conversion to a unique index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conversion {
    /// Only look for documents that violate the index.
    DryRun,
    Convert,
}

/// The settings before and after; `None`: it was not changed (of the first, or that there was none before).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexChanged {
    pub expire_after_seconds: Option<(Option<i64>, i64)>,
    pub hidden: Option<(bool, bool)>,
    pub prepare_unique: Option<(bool, bool)>,
    /// It was converted to a unique index.
    pub made_unique: bool,
}

fn invalid<T>(reason: impl Into<String>) -> Result<T> {
    problem(IndexProblem::InvalidOptions, reason)
}

impl Store {
    pub fn change_index(
        &self,
        namespace: &Namespace,
        which: &IndexChosen,
        change: &IndexChange,
        settings: BuildSettings<'_>,
    ) -> Result<IndexChanged> {
        let (collection, latch) = self.hold_exclusive_watched(namespace, settings.watch)?;
        let index = chosen(&collection, which, change)?;
        self.switches.refuse(&collection, "change an index of")?;
        if self.builds.of(&collection).iter().any(|build| build.indexes.iter().any(|own| own.name == index.name)) {
            return Err(Error::IndexBuildRunning { collection: collection.uuid });
        }
        let changed = check(&index, change)?;
        if change.unique.is_some() || change.prepare_unique == Some(true) {
            collection.refuse_partitioned("have unique indexes")?;
        }
        match change.unique.filter(|_| !index.unique) {
            Some(conversion) => {
                let replaced = Some(index.clone());
                let build = Build { store: self, collection: &collection, replaced, settings, uuid: Uuid::new_v4() };
                match build.convert(&index, change, conversion, latch)? {
                    Conversion::DryRun => Ok(IndexChanged::default()),
                    Conversion::Convert => Ok(IndexChanged { made_unique: true, ..changed }),
                }
            }
            None if changed == IndexChanged::default() => Ok(changed),
            None => {
                let spec = IndexSpec::parse(changed_spec(&index, change).as_doc())?;
                let new = spec.into_index(index.tree, index.engine.clone(), index.multikey.clone());
                let new = Index { parts: index.parts.clone(), ..new };
                self.replace(&collection, &index, new)?;
                Ok(changed)
            }
        }
    }

    fn replace(&self, collection: &Collection, old: &Arc<Index>, new: Index) -> Result<()> {
        let _changing = self.lock_changes();
        let mut txn = self.transactions.begin()?;
        noting::index_changed(&mut txn, collection, old, &new);
        let changed = collection.with_index_replaced(old, Arc::new(new));
        put_collection(&mut txn, &changed);
        self.commit_change(txn, |catalogue| catalogue.put(Arc::new(changed)))
    }

    /// The documents that have a key in common, as `{ids: [...]}` for each such key.
    fn violations(&self, collection: &Collection, index: &Index) -> Result<ArrayBuf> {
        let view = self.transactions.read()?;
        let mut cursor = IndexCursor::new(&view, index)?;
        let (mut groups, mut key, mut ids): (Vec<DocBuf>, Vec<u8>, Vec<Vec<u8>>) = Default::default();
        let described = |ids: &[Vec<u8>]| -> Result<DocBuf> {
            let mut shown = ArrayBuf::new();
            for id_key in ids {
                if let Some(doc) = record(&view, collection, id_key)? {
                    shown.push(arbor_bson::Doc::trusted(&doc).get("_id").unwrap_or(ValueRef::Null));
                }
            }
            Ok(DocBuf::new().with("ids", &shown))
        };
        let mut valid = cursor.first()?;
        while valid && groups.len() < VIOLATIONS_MAX {
            if cursor.key() != key {
                if ids.len() > 1 {
                    groups.push(described(&ids)?);
                }
                ids.clear();
                key = cursor.key().to_vec();
            }
            if ids.len() < VIOLATIONS_MAX {
                ids.push(cursor.id_key().to_vec());
            }
            valid = cursor.next()?;
        }
        if ids.len() > 1 && groups.len() < VIOLATIONS_MAX {
            groups.push(described(&ids)?);
        }
        Ok(groups.iter().collect())
    }
}

impl Build<'_> {
    /// Returns what was done.
    fn convert(
        &self,
        index: &Index,
        change: &IndexChange,
        conversion: Conversion,
        latch: ExclusiveGuard,
    ) -> Result<Conversion> {
        if conversion == Conversion::Convert && !index.prepare_unique {
            return invalid(format!(
                "Cannot make index {} unique: set 'prepareUnique' to true for it with collMod first",
                index.name
            ));
        }
        let violations = self.store.violations(self.collection, index)?;
        if !violations.is_empty() {
            return Err(Error::CannotConvertToUnique { violations });
        }
        if conversion == Conversion::Convert {
            self.run(vec![IndexSpec::parse(changed_spec(index, change).as_doc())?], latch)?;
        }
        Ok(conversion)
    }
}

fn chosen(collection: &Collection, which: &IndexChosen, change: &IndexChange) -> Result<Arc<Index>> {
    let is_id = match which {
        IndexChosen::Name(name) => name == "_id_",
        IndexChosen::Key(key) => {
            arbor_bson::compare_docs(key.as_doc(), DocBuf::new().with("_id", 1i32).as_doc()).is_eq()
        }
    };
    match which {
        // the records are in that order, without an index
        IndexChosen::Key(key) if is_id && collection.clustered_index().is_some() => problem(
            IndexProblem::NotFound,
            format!("cannot find index {} for ns {}", key.as_doc(), collection.namespace),
        ),
        _ if is_id && change.hidden.is_some() => problem(IndexProblem::BadValue, "can't hide _id index"),
        _ if is_id && change.expire_after_seconds.is_some() => invalid("the _id field does not support TTL indexes"),
        _ if is_id => invalid("the _id index cannot be changed"),
        IndexChosen::Name(name) => by_name(collection, name),
        IndexChosen::Key(key) => by_key(collection, key),
    }
}

/// Returns the changes that would be made. Errors: settings that this index may not have.
fn check(index: &Index, change: &IndexChange) -> Result<IndexChanged> {
    let flag = |old: bool, new: Option<bool>| new.filter(|new| *new != old).map(|new| (old, new));
    let mut changed = IndexChanged { hidden: flag(index.hidden, change.hidden), ..IndexChanged::default() };
    changed.prepare_unique = flag(index.prepare_unique, change.prepare_unique);
    if let Some(seconds) = change.expire_after_seconds {
        // that of a time series is over two fields of its buckets
        if index.key_pattern.len() > 1 && index.expire_after_seconds.is_none() {
            return invalid("TTL indexes are single-field indexes, compound indexes do not support TTL");
        }
        if !(0..=i64::from(i32::MAX)).contains(&seconds) {
            return invalid(format!(
                "TTL index 'expireAfterSeconds' option must be within an acceptable range, try a different value than {seconds}"
            ));
        }
        changed.expire_after_seconds = Some((index.expire_after_seconds, seconds));
    }
    Ok(changed)
}

/// Returns the specification with the new settings, in the place of the old ones or at the end.
fn changed_spec(index: &Index, change: &IndexChange) -> DocBuf {
    let makes_unique = change.unique == Some(Conversion::Convert) && !index.unique;
    let seconds = change.expire_after_seconds.map(|seconds| ValueRef::Int32(seconds as i32));
    // MongoDB shows these flags only while they are set
    let settings = [
        ("expireAfterSeconds", seconds.map(Some)),
        ("hidden", change.hidden.map(|on| on.then_some(ValueRef::Bool(true)))),
        ("unique", makes_unique.then_some(Some(ValueRef::Bool(true)))),
        (
            "prepareUnique",
            match makes_unique {
                true => Some(None),
                false => change.prepare_unique.map(|on| on.then_some(ValueRef::Bool(true))),
            },
        ),
    ];
    let mut spec = DocBuf::new();
    for (name, value) in index.spec.doc.as_doc() {
        match settings.iter().find(|(own, new)| *own == name && new.is_some()) {
            None => drop(spec.append(name, value)),
            Some((_, Some(Some(value)))) => drop(spec.append(name, *value)),
            Some(_) => {}
        }
    }
    for (name, value) in settings {
        if let Some(Some(value)) = value
            && index.spec.doc.get(name).is_none()
        {
            spec.append(name, value);
        }
    }
    spec
}

impl Collection {
    pub(crate) fn with_index_replaced(&self, old: &Arc<Index>, new: Arc<Index>) -> Collection {
        assert!(
            self.indexes.iter().any(|index| Arc::ptr_eq(index, old)),
            "{} is an index of {}",
            old.name,
            self.namespace
        );
        let indexes = self.indexes.iter();
        let indexes = indexes.map(|index| if Arc::ptr_eq(index, old) { new.clone() } else { index.clone() });
        Collection { indexes: indexes.collect(), ..self.copy() }
    }
}
