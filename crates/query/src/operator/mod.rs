//! Streaming operators: each pulls rows from the one below it.
//!
//! O1: an operator borrows nothing between two batches. What it reads through lives in the [`Run`]; before a run ends
//! with rows left, [`Operator::suspend`] is called, and the next run continues after the last row.

mod collection_scan;
mod count_scan;
mod covered;
mod distinct_scan;
mod documents;
mod entries;
mod eof;
mod facet;
mod fetch;
mod filter;
mod flow;
mod geo_near;
mod graph_lookup;
mod group;
mod index_scan;
mod known;
mod limit;
mod lookup;
mod map;
mod or;
mod place;
mod projection;
mod record_count;
mod record_fetch;
mod record_ids;
mod remote;
mod resumed;
mod return_key;
mod row;
mod run;
mod sample;
mod shared;
mod skip;
mod sort;
mod sort_merge;
mod stage_doc;
mod text_match;
mod union_with;
mod unpack;
mod unwind;

use arbor_bson::DocBuf;

use crate::Result;

pub(crate) use collection_scan::CollectionScan;
pub(crate) use count_scan::CountScan;
pub(crate) use covered::Covered;
pub(crate) use distinct_scan::DistinctScan;
pub(crate) use documents::Documents;
pub(crate) use entries::Entries;
pub(crate) use eof::Eof;
pub(crate) use facet::FacetRow;
pub(crate) use fetch::Fetch;
pub(crate) use filter::FilterRows;
pub(crate) use flow::FlowRows;
pub(crate) use geo_near::GeoNear;
pub(crate) use graph_lookup::GraphLookupRows;
pub(crate) use group::GroupRows;
pub(crate) use index_scan::IndexScan;
pub(crate) use known::Known;
pub(crate) use limit::Limit;
pub(crate) use lookup::LookupRows;
pub(crate) use map::MapRows;
pub(crate) use or::Or;
pub(crate) use projection::{Project, project};
pub(crate) use record_count::RecordCount;
pub(crate) use record_fetch::RecordFetch;
pub(crate) use record_ids::RecordIds;
pub(crate) use remote::Remote;
pub use remote::Rows;
pub(crate) use resumed::Resumed;
pub(crate) use return_key::{NotedKeys, ReturnKey};
pub(crate) use row::Row;
pub(crate) use run::{Examined, Run, Slot};
pub(crate) use sample::Sample;
pub(crate) use shared::{Shared, SharedRows, Sharing};
pub(crate) use skip::Skip;
pub(crate) use sort::{Sort, pattern_doc};
pub(crate) use sort_merge::SortMerge;
pub(crate) use stage_doc::{Detail, StageDoc, Tally, Timed, int};
pub(crate) use text_match::TextMatch;
pub(crate) use union_with::UnionRows;
pub(crate) use unpack::UnpackRows;
pub(crate) use unwind::UnwindRows;

pub(crate) trait Operator: Send {
    fn next(&mut self, run: &mut Run<'_>) -> Result<Option<Row>>;

    /// Saves the position to continue from; called before a run ends early.
    fn suspend(&mut self, run: &mut Run<'_>);

    /// Returns true if it is known to have no more rows, without a call of `next`.
    fn is_done(&self) -> bool {
        false
    }

    /// Returns true if it reads no more of the collection: the rest is in memory or in files of its own.
    fn has_read_all(&self) -> bool {
        false
    }

    /// Returns true if the next batch may be read from a newer snapshot: between two batches the operator keeps a key to continue after, and
    /// nothing that has to match later reads.
    fn can_change_snapshot(&self) -> bool {
        false
    }

    /// Returns the total number of rows, where that is known once the first one is out.
    fn rows_in_all(&self) -> Option<u64> {
        None
    }

    /// The stage in MongoDB's form, with its input stages.
    fn explain(&self, detail: Detail) -> DocBuf;
}
