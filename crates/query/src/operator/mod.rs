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

pub use collection_scan::CollectionScan;
pub use count_scan::CountScan;
pub use covered::Covered;
pub use distinct_scan::DistinctScan;
pub use documents::Documents;
pub use entries::Entries;
pub use eof::Eof;
pub use facet::FacetRow;
pub use fetch::Fetch;
pub use filter::FilterRows;
pub use flow::FlowRows;
pub use geo_near::GeoNear;
pub use graph_lookup::GraphLookupRows;
pub use group::GroupRows;
pub use index_scan::IndexScan;
pub use known::Known;
pub use limit::Limit;
pub use lookup::LookupRows;
pub use map::MapRows;
pub use or::Or;
pub use projection::{Project, project};
pub use record_count::RecordCount;
pub use record_fetch::RecordFetch;
pub use record_ids::RecordIds;
pub use resumed::Resumed;
pub use return_key::ReturnKey;
pub use row::Row;
pub use run::{Examined, Run, Slot};
pub use sample::Sample;
pub use shared::{Shared, SharedRows, Sharing};
pub use skip::Skip;
pub use sort::{Sort, pattern_doc};
pub use sort_merge::SortMerge;
pub use stage_doc::{Detail, StageDoc, Tally, int};
pub use text_match::TextMatch;
pub use union_with::UnionRows;
pub use unpack::UnpackRows;
pub use unwind::UnwindRows;

pub trait Operator: Send {
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
