//! A view: a name for what a pipeline makes of a collection, or of another view. It has no tree; its definition is a row
//! of the catalogue.

use std::collections::HashMap;

use arbor_bson::{Array, ArrayBuf, DocBuf, ValueRef};
use arbor_lang::Collation;

use crate::catalogue::Catalogue;
use crate::{Error, Namespace, Result};

/// Views on the way from a name to the collection behind it.
pub const VIEW_DEPTH_MAX: usize = 20;

#[derive(Clone, Debug)]
pub struct ViewDefinition {
    pub namespace: Namespace,
    /// The collection or view of the same database that the pipeline reads. It need not exist.
    pub view_on: Namespace,
    pub pipeline: ArrayBuf,
    /// Collation of its strings; that of its collection has no effect here.
    pub collation: Collation,
}

impl ViewDefinition {
    /// As `listCollections` shows it, and as the catalogue keeps it.
    pub fn options(&self) -> DocBuf {
        let mut options = DocBuf::new().with("viewOn", self.view_on.collection()).with("pipeline", &self.pipeline);
        if !self.collation.is_simple() {
            options.append("collation", &self.collation.to_doc());
        }
        options
    }

    /// As a document of `system.views`.
    pub fn document(&self) -> DocBuf {
        let id = DocBuf::new().with("_id", self.namespace.as_str());
        id.as_doc().iter().chain(self.options().as_doc()).collect()
    }

    pub(crate) fn is_same(&self, other: &ViewDefinition) -> bool {
        let bytes = |view: &ViewDefinition| view.pipeline.as_array().as_bytes().to_vec();
        self.namespace == other.namespace
            && self.view_on == other.view_on
            && self.collation == other.collation
            && bytes(self) == bytes(other)
    }

    /// The collections and views that it reads.
    fn references(&self) -> Vec<Namespace> {
        let mut names = vec![self.view_on.collection()];
        collect_references(self.pipeline.as_array(), &mut names);
        names.into_iter().filter_map(|name| Namespace::new(self.namespace.db(), name).ok()).collect()
    }

    /// Errors: `ViewCycle` and `ViewTooDeep`, if the catalogue had this view.
    pub(crate) fn check_nesting(&self, catalogue: &Catalogue) -> Result<()> {
        let mut nesting = Nesting { catalogue, new: self, on_way: Vec::new(), heights: HashMap::new() };
        nesting.height(self).map(drop)
    }
}

/// Names in the stages that read other collections. What is no stage is found when the pipeline is parsed.
fn collect_references<'p>(pipeline: Array<'p>, names: &mut Vec<&'p str>) {
    for stage in pipeline.iter() {
        let ValueRef::Document(stage) = stage else { continue };
        match stage.first() {
            Some(("$unionWith", ValueRef::String(name))) => names.push(name),
            Some(("$lookup" | "$graphLookup" | "$unionWith", ValueRef::Document(spec))) => {
                for (name, value) in spec {
                    match (name, value) {
                        ("from" | "coll", ValueRef::String(name)) => names.push(name),
                        ("pipeline", ValueRef::Array(inner)) => collect_references(inner, names),
                        _ => {}
                    }
                }
            }
            Some(("$facet", ValueRef::Document(facets))) => {
                for (_, facet) in facets {
                    if let ValueRef::Array(inner) = facet {
                        collect_references(inner, names);
                    }
                }
            }
            _ => {}
        }
    }
}

/// A walk along what views read, from a view that the catalogue does not have yet, or has otherwise.
struct Nesting<'n> {
    catalogue: &'n Catalogue,
    new: &'n ViewDefinition,
    on_way: Vec<Namespace>,
    /// Views below a view and itself, of those that were walked.
    heights: HashMap<Namespace, usize>,
}

impl Nesting<'_> {
    fn height(&mut self, view: &ViewDefinition) -> Result<usize> {
        if self.on_way.contains(&view.namespace) {
            let way: Vec<&str> = self.on_way.iter().map(Namespace::as_str).collect();
            return Err(Error::ViewCycle(format!("{} => {}", way.join(" => "), view.namespace)));
        }
        let known = self.heights.get(&view.namespace).copied();
        if self.on_way.len() + known.unwrap_or(1) > VIEW_DEPTH_MAX {
            return Err(Error::ViewTooDeep);
        }
        if let Some(height) = known {
            return Ok(height);
        }
        self.on_way.push(view.namespace.clone());
        let mut height = 1;
        for name in view.references() {
            let catalogue = self.catalogue;
            let next =
                if name == self.new.namespace { Some(self.new) } else { catalogue.view(&name).map(|view| &**view) };
            if let Some(next) = next {
                height = height.max(self.height(next)? + 1);
            }
        }
        let last = self.on_way.pop();
        debug_assert!(last.as_ref() == Some(&view.namespace), "the way back is the way there");
        self.heights.insert(view.namespace.clone(), height);
        Ok(height)
    }
}
