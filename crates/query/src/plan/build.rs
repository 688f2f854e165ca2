//! Building operators from a chosen plan.

use super::access::{Access, Branch, IndexAccess, Merge, Solution};
use super::decide::Decision;
use super::query::Query;
use crate::Settings;
use crate::operator::{
    CollectionScan, Covered, Entries, Eof, Fetch, GeoNear, IndexScan, Known, Limit, NotedKeys, Operator, Or, Project,
    RecordFetch, RecordIds, ReturnKey, Skip, Slot, Sort, SortMerge, TextMatch,
};

/// Allots the cursor slots of the leaves.
#[derive(Debug, Default)]
pub(crate) struct Slots(usize);

impl Slots {
    pub(crate) fn allot(&mut self) -> Slot {
        self.0 += 1;
        Slot(self.0 - 1)
    }

    pub(crate) fn count(&self) -> usize {
        self.0
    }
}

/// The whole query: access, sort, skip, limit, projection.
pub(crate) fn operator(
    solution: &Solution,
    query: &Query,
    settings: &Settings,
    slots: &mut Slots,
) -> Box<dyn Operator> {
    let rows = rows(solution, query, slots);
    above(rows, solution, query, settings)
}

/// Like [`operator`], but from a decision.
pub(crate) fn decided(
    decision: &mut Decision,
    query: &Query,
    settings: &Settings,
    slots: &mut Slots,
) -> Box<dyn Operator> {
    let rows = decision.begun.take().unwrap_or_else(|| rows(&decision.winner, query, slots));
    above(rows, &decision.winner, query, settings)
}

/// Adds the operators above the rows: sort, skip, limit, projection.
fn above(mut root: Box<dyn Operator>, solution: &Solution, query: &Query, settings: &Settings) -> Box<dyn Operator> {
    if let Some(pattern) = query.sort.as_ref().filter(|_| solution.sorts) {
        root = Box::new(Sort::new(root, pattern.clone(), query.sort_limit(), settings.sort_memory()));
    }
    root = skip_and_limit(root, query);
    if query.return_key {
        root = Box::new(ReturnKey::new(root));
    }
    if query.shows_sort_key || query.shows_record_id {
        root = Box::new(Known::new(root, query.sort.clone().filter(|_| query.shows_sort_key), query.shows_record_id));
    }
    if let Some(shown) = query.projection.as_ref().filter(|_| solution.covered.is_none()) {
        root = Box::new(Project::new(root, shown.projection.clone(), &query.filter, shown.spec.clone()));
    }
    // a key alone is shown without the place of its document
    if query.show_record_id && !query.return_key {
        root = Box::new(RecordIds::new(root));
    }
    root
}

pub(crate) fn skip_and_limit(mut root: Box<dyn Operator>, query: &Query) -> Box<dyn Operator> {
    if query.skip > 0 {
        root = Box::new(Skip::new(root, query.skip));
    }
    match query.limit {
        Some(limit) => Box::new(Limit::new(root, limit)),
        None => root,
    }
}

/// The rows in the order of the access, with the keys that found them where these are requested.
pub(super) fn rows(solution: &Solution, query: &Query, slots: &mut Slots) -> Box<dyn Operator> {
    if !query.return_key && !query.shows_index_key {
        return documents(solution, query, slots);
    }
    let filter = solution.residual.clone();
    match &solution.access {
        Access::Index(access) => {
            Box::new(NotedKeys::of_entries(Fetch::new(Entries::Scan(index_scan(access, slots)), filter)))
        }
        Access::Merge(merge) => Box::new(NotedKeys::of_entries(Fetch::new(
            Entries::Merged(Box::new(sort_merge(merge, query, slots))),
            filter,
        ))),
        Access::Or(branches) => {
            let branches = branches.iter().map(|branch| {
                let entries = Entries::Scan(index_scan(&branch.access, slots));
                Box::new(NotedKeys::of_entries(Fetch::new(entries, branch.residual.clone()))) as Box<dyn Operator>
            });
            Box::new(Or::new(branches.collect()))
        }
        Access::Record { .. } => Box::new(NotedKeys::of_record(documents(solution, query, slots))),
        _ => documents(solution, query, slots),
    }
}

fn documents(solution: &Solution, query: &Query, slots: &mut Slots) -> Box<dyn Operator> {
    let filter = solution.residual.clone();
    match &solution.access {
        Access::Nothing => Box::new(Eof::default()),
        Access::Record { id_key } => Box::new(RecordFetch::new(id_key.clone(), filter)),
        Access::Collection(direction) => {
            Box::new(CollectionScan::new(slots.allot(), *direction, filter, rows_to_read(solution, query)))
        }
        Access::Or(branches) => Box::new(Or::new(branches.iter().map(|branch| or_branch(branch, slots)).collect())),
        Access::Near(access) => Box::new(GeoNear::new(slots.allot(), access.clone(), filter)),
        Access::Text(text) => Box::new(TextMatch::new(text.clone(), filter, slots)),
        Access::TextOr(text, rest, branches) => {
            // first the search, since its rows have scores
            let mut inputs: Vec<Box<dyn Operator>> = vec![Box::new(TextMatch::new(text.clone(), rest.clone(), slots))];
            inputs.extend(branches.iter().map(|branch| or_branch(branch, slots)));
            Box::new(Or::new(inputs))
        }
        Access::Merge(merge) => {
            Box::new(Fetch::new(Entries::Merged(Box::new(sort_merge(merge, query, slots))), filter))
        }
        Access::Index(access) => {
            let scan = index_scan(access, slots).expecting(rows_to_read(solution, query));
            match (&solution.covered, &query.projection) {
                (Some(fields), Some(shown)) => {
                    Box::new(Covered::new(scan, shown.projection.clone(), fields.clone(), shown.spec.clone()))
                }
                _ => Box::new(Fetch::new(Entries::Scan(scan), filter)),
            }
        }
    }
}

/// Returns the rows that a scan reads for a query with a limit. `None`: a filter or a sort may need any number.
fn rows_to_read(solution: &Solution, query: &Query) -> Option<u64> {
    query.sort_limit().filter(|_| solution.residual.is_none() && !solution.sorts)
}

fn or_branch(branch: &Branch, slots: &mut Slots) -> Box<dyn Operator> {
    Box::new(Fetch::new(Entries::Scan(index_scan(&branch.access, slots)), branch.residual.clone()))
}

fn sort_merge(merge: &Merge, query: &Query, slots: &mut Slots) -> SortMerge {
    let scans = merge.scans.iter().map(|access| index_scan(access, slots)).collect();
    SortMerge::new(scans, query.sort.clone().unwrap_or_default(), merge.distinct)
}

pub(crate) fn index_scan(access: &IndexAccess, slots: &mut Slots) -> IndexScan {
    IndexScan::new(slots.allot(), access.clone())
}
