//! Noting which indexes a statement uses.

use arbor_store::Collection;

use super::access::{Access, IndexAccess, Solution};
use super::{index_shape::IndexSource, summary};

/// To be called once for each execution of a plan. Each index counts once for each scan of it.
pub(crate) fn note_use(collection: &Collection, solution: &Solution) {
    summary::note_plan(collection, solution);
    match &solution.access {
        Access::Record { .. } => collection.usage.id_index.note(),
        Access::Collection(_) => collection.usage.scans.note(),
        Access::Index(access) => count_scan(collection, access),
        Access::Or(branches) => branches.iter().for_each(|branch| count_scan(collection, &branch.access)),
        Access::Merge(merge) => merge.scans.iter().for_each(|access| count_scan(collection, access)),
        _ => {}
    }
}

/// As [`note_use`], for a statement that counts documents: entries of an index are enough where they settle the filter.
pub(crate) fn note_count(collection: &Collection, solution: &Solution) {
    match &solution.access {
        Access::Index(access) if solution.residual.is_none() => {
            summary::note_index("COUNT_SCAN", collection, access);
            count_scan(collection, access);
        }
        _ => note_use(collection, solution),
    }
}

/// As [`note_use`], for `distinct` from an index.
pub(crate) fn note_distinct(collection: &Collection, access: &IndexAccess) {
    summary::note_index("DISTINCT_SCAN", collection, access);
    count_scan(collection, access);
}

fn count_scan(collection: &Collection, access: &IndexAccess) {
    match access.shape.source {
        IndexSource::Records => collection.usage.id_index.note(),
        IndexSource::Natural => collection.usage.scans.note(),
        IndexSource::Secondary(at) => {
            if let Some(index) = collection.indexes.get(at) {
                index.usage.note();
            }
        }
    }
}
