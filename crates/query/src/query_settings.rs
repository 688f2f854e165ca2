//! Query settings: what an administrator has set for statements of one shape (`setQuerySettings`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arbor_bson::{Doc, DocBuf, ValueRef};
use arbor_store::Namespace;
use parking_lot::RwLock;

use crate::plan::{AllowedIndexes, DocOrName};
use crate::query_shape::{aggregate_doc, distinct_doc, find_doc};
use crate::{AggregateSpec, DistinctSpec, FindSpec, QueryShape, Result};

/// A statement that settings may be for.
pub enum SettingsQuery<'s> {
    Find(FindSpec<'s>),
    Distinct(DistinctSpec<'s>),
    Aggregate(AggregateSpec<'s>),
}

impl SettingsQuery<'_> {
    pub fn namespace(&self) -> &Namespace {
        match self {
            SettingsQuery::Find(spec) => &spec.namespace,
            SettingsQuery::Distinct(spec) => &spec.namespace,
            SettingsQuery::Aggregate(spec) => &spec.namespace,
        }
    }

    /// Returns the shape as `$querySettings` shows it.
    pub fn shape_doc(&self) -> DocBuf {
        match self {
            SettingsQuery::Find(spec) => find_doc(spec),
            SettingsQuery::Distinct(spec) => distinct_doc(spec),
            SettingsQuery::Aggregate(spec) => aggregate_doc(spec),
        }
    }

    pub fn shape(&self) -> QueryShape {
        QueryShape::of(&self.shape_doc())
    }
}

/// The indexes that a statement may use, by collection.
#[derive(Clone, Debug, Default)]
pub struct IndexHints(Vec<(Namespace, Arc<AllowedIndexes>)>);

impl IndexHints {
    pub fn add(&mut self, namespace: Namespace, indexes: Vec<DocOrName>) -> Result<()> {
        self.0.push((namespace, Arc::new(AllowedIndexes::parse(indexes.into_iter(), false)?)));
        Ok(())
    }

    /// Returns the indexes allowed in a collection. None: all.
    pub fn of(&self, namespace: &Namespace) -> Option<Arc<AllowedIndexes>> {
        self.0.iter().find(|(own, _)| own == namespace).map(|(_, allowed)| allowed.clone())
    }
}

/// Settings of one shape.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The settings as the client gave them.
    pub settings: DocBuf,
    /// A statement of the shape. None: none was given.
    pub representative: Option<DocBuf>,
    /// The shape as `$querySettings` shows it.
    pub debug_shape: Option<DocBuf>,
    pub hints: IndexHints,
    /// Statements of the shape are refused.
    pub reject: bool,
}

/// The settings of all shapes.
#[derive(Debug, Default)]
pub struct QuerySettings {
    count: AtomicUsize,
    settings: RwLock<BTreeMap<QueryShape, Arc<Setting>>>,
}

impl QuerySettings {
    /// Returns the settings for a statement, whose shape is only computed when there are settings at all.
    pub fn find(&self, shape: impl FnOnce() -> Result<QueryShape>) -> Result<Option<Arc<Setting>>> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return Ok(None);
        }
        Ok(self.of(shape()?))
    }

    pub fn of(&self, shape: QueryShape) -> Option<Arc<Setting>> {
        self.settings.read().get(&shape).cloned()
    }

    pub fn all(&self) -> Vec<(QueryShape, Arc<Setting>)> {
        self.settings.read().iter().map(|(shape, setting)| (*shape, setting.clone())).collect()
    }

    pub fn set(&self, shape: QueryShape, setting: Setting) {
        self.change(|settings| drop(settings.insert(shape, Arc::new(setting))));
    }

    pub fn remove(&self, shape: QueryShape) {
        self.change(|settings| drop(settings.remove(&shape)));
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<QueryShape, Arc<Setting>>)) {
        let mut settings = self.settings.write();
        change(&mut settings);
        self.count.store(settings.len(), Ordering::Relaxed);
    }
}

impl Setting {
    /// Returns the document of `$querySettings`.
    pub fn shown(&self, shape: QueryShape) -> DocBuf {
        let mut doc = DocBuf::new().with("queryShapeHash", &shape.text()).with("settings", &self.settings);
        if let Some(query) = &self.representative {
            doc.append("representativeQuery", query);
        }
        doc
    }

    /// Returns true if a document of settings sets nothing.
    pub fn is_empty(settings: Doc<'_>) -> bool {
        settings.iter().all(|(name, value)| match name {
            "reject" => matches!(value, ValueRef::Bool(false)),
            "comment" => true,
            _ => false,
        })
    }
}
