//! Statements that write into a time series: the measurements go into buckets, see [`arbor_lang::time_series`].
//!
//! | file | holds |
//! |---|---|
//! | `insert.rs` | measurements into buckets |
//! | `delete.rs` | measurements out of buckets |
//! | `update.rs` | changes of `meta` |
//! | `expire.rs` | buckets that are too old |
//!
//! Reads need nothing of this: the view over the buckets unpacks them.

mod delete;
mod expire;
mod insert;
mod update;

use std::sync::Arc;

use arbor_bson::{ArrayBuf, Doc, DocBuf};
use arbor_lang::matcher::Node;
use arbor_lang::time_series::{TimeSeriesOptions, Unpack, of_buckets};
use arbor_lang::{Collation, Context, Filter};
use arbor_store::{Collection, Created, Namespace, PartialFilter, Store};

use crate::explain::filter_doc;
use crate::plan::{Query, conjuncts};
use crate::{Error, Result, Scope};

pub(crate) use delete::delete;
pub(crate) use expire::expired;
pub(crate) use insert::insert;
pub(crate) use update::update;

pub(crate) struct TimeSeries {
    pub buckets: Arc<Collection>,
    pub options: TimeSeriesOptions,
}

impl TimeSeries {
    pub(crate) fn of(buckets: Arc<Collection>) -> Result<TimeSeries> {
        let options = options_of(&buckets)?;
        Ok(TimeSeries { buckets, options })
    }

    /// The buckets that may hold measurements which match.
    fn buckets_for(&self, scope: &Scope<'_>, filter: &Filter) -> Result<Query> {
        let unpack = Unpack::of(&self.options);
        let nodes = conjuncts(filter.root()).iter().flat_map(|node| unpack.narrow(node)).collect();
        seen(scope, nodes, filter)
    }
}

/// Returns the query of buckets for which conditions hold, of those that a statement sees.
fn seen(scope: &Scope<'_>, mut conditions: Vec<Node>, filter: &Filter) -> Result<Query> {
    if let Some(seen) = scope.buckets() {
        conditions.push(Filter::parse(seen, &Context::new(0))?.root().clone());
    }
    Ok(Query::new(Filter::from_root(Node::And(conditions), filter.collation())))
}

fn refuse_in_transaction(scope: &Scope<'_>, what: &str, series: &Namespace) -> Result<()> {
    scope.refuse_in_transaction(|| {
        format!("Cannot {what} a time-series collection in a multi-document transaction: {series}")
    })
}

/// Options of the collection of buckets of a new time series, given those that clients may add.
pub fn bucket_options(options: &TimeSeriesOptions, others: DocBuf) -> DocBuf {
    let key = DocBuf::new().with("_id", 1i32);
    let clustered = DocBuf::new().with("v", 2i32).with("key", &key).with("name", "_id_").with("unique", true);
    others.with("clusteredIndex", &clustered).with("timeseries", &options.to_doc())
}

/// Returns the `partialFilterExpression` of an index on buckets for that of an index on measurements: it holds for every bucket with a
/// measurement for which `filter` holds. Errors: what no partial index takes.
pub fn bucket_filter(options: &TimeSeriesOptions, filter: Doc<'_>, collation: &Collation) -> Result<DocBuf> {
    let partial = PartialFilter::parse(filter, collation)?;
    let nodes = Unpack::of(options).narrow(partial.filter().root());
    Ok(filter_doc::of_node(&Node::And(nodes)))
}

/// Returns true if a filter is about the metaField alone.
pub fn is_about_meta(options: &TimeSeriesOptions, filter: Doc<'_>, collation: &Collation) -> Result<bool> {
    let partial = PartialFilter::parse(filter, collation)?;
    Ok(Unpack::of(options).about_meta(partial.filter().root()).is_some())
}

/// Creates a time series with an index on meta and time. `bucket_options` are those of [`bucket_options`].
pub fn create(
    store: &Store,
    namespace: &Namespace,
    options: &TimeSeriesOptions,
    bucket_options: &DocBuf,
) -> Result<()> {
    let stages: ArrayBuf = [&Unpack::of(options).to_doc()].into_iter().collect();
    if store.create_time_series(namespace, bucket_options, stages)? == Created::Now
        && let (Some(meta_field), Some(buckets)) = (&options.meta_field, store.buckets_of(namespace))
    {
        let time_field = &options.time_field;
        let key = DocBuf::new().with(meta_field, 1i32).with(time_field, 1i32);
        let key = of_buckets(key.as_doc(), options).unwrap_or_default();
        let index = DocBuf::new().with("key", &key).with("name", &format!("{meta_field}_1_{time_field}_1"));
        store.create_indexes(&buckets.namespace, &[index])?;
    }
    Ok(())
}

pub(crate) fn options_of(buckets: &Collection) -> Result<TimeSeriesOptions> {
    let missing = || Error::internal(format!("{} is no collection of buckets", buckets.namespace));
    Ok(TimeSeriesOptions::parse(buckets.time_series().ok_or_else(missing)?)?)
}
