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

use arbor_lang::Filter;
use arbor_lang::matcher::Node;
use arbor_lang::time_series::{TimeSeriesOptions, Unpack};
use arbor_store::{Collection, Namespace};

use crate::plan::{Query, conjuncts};
use crate::{Error, Result, Scope};

pub use delete::delete;
pub use expire::expired;
pub use insert::insert;
pub use update::update;

pub struct TimeSeries {
    pub buckets: Arc<Collection>,
    pub options: TimeSeriesOptions,
}

impl TimeSeries {
    pub fn of(buckets: Arc<Collection>) -> Result<TimeSeries> {
        let options = options_of(&buckets)?;
        Ok(TimeSeries { buckets, options })
    }

    /// The buckets that may hold measurements which match.
    fn buckets_for(&self, filter: &Filter) -> Query {
        let unpack = Unpack::of(&self.options);
        let nodes = conjuncts(filter.root()).iter().flat_map(|node| unpack.narrow(node)).collect();
        Query::new(Filter::from_root(Node::And(nodes), filter.collation()))
    }
}

fn refuse_in_transaction(scope: &Scope<'_>, what: &str, series: &Namespace) -> Result<()> {
    scope.refuse_in_transaction(|| {
        format!("Cannot {what} a time-series collection in a multi-document transaction: {series}")
    })
}

pub fn options_of(buckets: &Collection) -> Result<TimeSeriesOptions> {
    let missing = || Error::internal(format!("{} is no collection of buckets", buckets.namespace));
    Ok(TimeSeriesOptions::parse(buckets.time_series().ok_or_else(missing)?)?)
}
