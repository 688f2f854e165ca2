//! Statements over views: the name is resolved to the underlying collection, and the statement becomes a pipeline there.

use std::sync::Arc;

use arbor_bson::{ArrayBuf, DocBuf, USER_SIZE_MAX, ValueRef};
use arbor_lang::{Code, Collation};
use arbor_store::{Namespace, Store, VIEW_DEPTH_MAX, ViewDefinition};
use arbor_txn::Durability;

use crate::{AggregateSpec, CountSpec, DistinctSpec, Error, ExplainSpec, FindSpec, Result};

/// A view with all views below it.
pub(crate) struct ResolvedView {
    /// The underlying collection, which need not exist.
    pub namespace: Namespace,
    /// The stages of all views on the way, the innermost first.
    pub stages: ArrayBuf,
    /// The collation of the view.
    pub collation: Collation,
    /// It is a time series: a statement may have a collation of its own, which it may not over another view.
    pub takes_collation: bool,
}

impl ResolvedView {
    /// Wraps a collection that is read like a view and is none.
    pub(crate) fn plain(namespace: &Namespace) -> ResolvedView {
        let (stages, collation) = (ArrayBuf::new(), Collation::simple());
        ResolvedView { namespace: namespace.clone(), stages, collation, takes_collation: false }
    }

    /// Resolves a view to its underlying collection.
    pub(crate) fn of(store: &Store, mut view: Arc<ViewDefinition>) -> Result<ResolvedView> {
        let (collation, takes_collation) = (view.collation.clone(), view.is_time_series());
        let mut on_way = Vec::new();
        loop {
            on_way.push(view.clone());
            match store.view(&view.view_on) {
                // the last view may have been dropped, and changed what a name is, meanwhile: then it ends here
                Some(_) if on_way.len() == VIEW_DEPTH_MAX => return Err(arbor_store::Error::ViewTooDeep.into()),
                Some(below) => view = below,
                None => break,
            }
        }
        let stages: ArrayBuf = on_way.iter().rev().flat_map(|view| view.pipeline.as_array().iter()).collect();
        if stages.as_array().as_bytes().len() > USER_SIZE_MAX {
            let message = format!("View pipeline exceeds maximum size; maximum size is {USER_SIZE_MAX}");
            return Err(Error::new(Code::VIEW_PIPELINE_MAX_SIZE_EXCEEDED, message));
        }
        Ok(ResolvedView { namespace: view.view_on.clone(), stages, collation, takes_collation })
    }

    /// Returns the collation of a statement over the view `namespace`. Errors: `OptionNotSupportedOnView` for another one than the view's.
    pub(crate) fn collation_for(&self, namespace: &Namespace, asked: Option<&Collation>) -> Result<Collation> {
        match asked {
            Some(asked) if self.takes_collation => Ok(asked.clone()),
            Some(asked) if *asked != self.collation => Err(other_collation(namespace)),
            _ => Ok(self.collation.clone()),
        }
    }

    /// The stages of the view and those of a statement over it.
    pub(crate) fn followed_by<'s>(&self, stages: impl IntoIterator<Item = ValueRef<'s>>) -> ArrayBuf {
        let mut all = self.stages.clone();
        for stage in stages {
            all.push(stage);
        }
        all
    }

    /// Returns a `find` as stages.
    pub(crate) fn find_stages(&self, spec: &FindSpec<'_>) -> Result<ArrayBuf> {
        let refused = [
            (spec.min.is_some(), "min"),
            (spec.max.is_some(), "max"),
            (spec.show_record_id, "showRecordId"),
            (spec.return_key, "returnKey"),
            (spec.tailable, "tailable"),
        ];
        if let Some((_, name)) = refused.iter().find(|(given, _)| *given) {
            let message = format!("Option {name} not supported in aggregation.");
            return Err(Error::new(Code::INVALID_PIPELINE_OPERATOR, message));
        }
        let mut stages = vec![stage("$match", spec.filter)];
        stages.extend(spec.sort.map(|sort| stage("$sort", sort)));
        stages.extend((spec.skip > 0).then(|| stage("$skip", spec.skip as i64)));
        stages.extend(spec.limit.map(|limit| stage("$limit", limit as i64)));
        stages.extend(spec.projection.map(|projection| stage("$project", projection)));
        Ok(self.followed_by(stages.iter().map(ValueRef::from)))
    }

    /// Ends in one document `{ count: n }`, or in none.
    pub(crate) fn count_stages(&self, spec: &CountSpec<'_>) -> ArrayBuf {
        let mut stages = vec![stage("$match", spec.query)];
        stages.extend((spec.skip > 0).then(|| stage("$skip", spec.skip as i64)));
        stages.extend(spec.limit.map(|limit| stage("$limit", limit as i64)));
        stages.push(stage("$count", "count"));
        self.followed_by(stages.iter().map(ValueRef::from))
    }

    /// Returns stages for the documents whose values are requested.
    pub(crate) fn distinct_stages(&self, spec: &DistinctSpec<'_>) -> ArrayBuf {
        self.followed_by([&stage("$match", spec.query)].map(ValueRef::from))
    }

    /// Returns an explained statement over the view as stages. Errors: `NamespaceIsView` for statements that write.
    pub(crate) fn explained_stages(&self, spec: &ExplainSpec<'_>) -> Result<ArrayBuf> {
        match spec {
            ExplainSpec::Find(spec) => self.find_stages(spec),
            ExplainSpec::Count(spec) => Ok(self.count_stages(spec)),
            ExplainSpec::Distinct(spec) => Ok(self.distinct_stages(spec)),
            ExplainSpec::Aggregate(spec) => Ok(self.followed_by(spec.pipeline.iter())),
            ExplainSpec::Update(_) | ExplainSpec::Delete(_) | ExplainSpec::FindAndModify(_) => {
                Err(arbor_store::Error::NamespaceIsView(spec.namespace().clone()).into())
            }
        }
    }

    /// Returns a pipeline over the underlying collection.
    pub(crate) fn spec<'s>(&self, pipeline: &'s ArrayBuf) -> AggregateSpec<'s> {
        AggregateSpec {
            namespace: self.namespace.clone(),
            collectionless: false,
            pipeline: pipeline.as_array(),
            hint: None,
            collation: Some(self.collation.clone()),
            let_variables: None,
            durability: Durability::Applied,
            allow_disk_use: true,
            bypass_validation: false,
        }
    }
}

pub(crate) fn other_collation(namespace: &Namespace) -> Error {
    let message = format!("Cannot override a view's default collation, {namespace}");
    Error::new(Code::OPTION_NOT_SUPPORTED_ON_VIEW, message)
}

fn stage<'v>(name: &str, spec: impl Into<ValueRef<'v>>) -> DocBuf {
    DocBuf::new().with(name, spec)
}
