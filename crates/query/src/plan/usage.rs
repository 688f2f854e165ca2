//! Noting which indexes a statement uses.

use arbor_store::Collection;

use super::access::{Access, IndexAccess, Solution};
use super::index_shape::IndexSource;

/// To be called once for each execution of a plan. Each index counts once for each scan of it.
pub fn note_use(collection: &Collection, solution: &Solution) {
    match &solution.access {
        Access::Record { .. } => collection.usage.id_index.note(),
        Access::Collection(_) => collection.usage.scans.note(),
        Access::Index(access) => note_scan(collection, access),
        Access::Or(branches) => branches.iter().for_each(|branch| note_scan(collection, &branch.access)),
        Access::Merge(merge) => merge.scans.iter().for_each(|access| note_scan(collection, access)),
        _ => {}
    }
}

pub fn note_scan(collection: &Collection, access: &IndexAccess) {
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
