//! `count`.

use crate::operator::{CountScan, Operator, RecordCount, Run};
use crate::plan::{self, Access, Query, Slots, Solution};
use crate::{CountSpec, Database, Interrupt, Result, Settings};

/// How many documents a query finds. Without a filter the collection's counter knows; exact index bounds are counted
/// without reading documents.
pub fn count(database: &Database, spec: &CountSpec<'_>, interrupt: &Interrupt) -> Result<u64> {
    interrupt.check()?;
    let query = Query::parse(spec.query, spec.hint, &database.context(None)?)?;
    let Some((collection, view)) = database.snapshot(&spec.namespace)? else { return Ok(0) };
    if query.filter.matches_everything() && query.hint.is_none() {
        let all = arbor_store::count(&view, &collection)?;
        return Ok(all.saturating_sub(spec.skip).min(spec.limit.unwrap_or(u64::MAX)));
    }
    let solution = plan::plan(&view, &collection, &query)?.winner;
    let mut slots = Slots::default();
    let mut root = counting_operator(&database.settings, &solution, &query, &mut slots);
    let mut run = Run::new(&view, Some(&collection), interrupt, slots.count());
    count_rows(root.as_mut(), &mut run, spec)
}

/// As many rows as there are documents; no document is read unless one must be looked at.
pub fn counting_operator(
    settings: &Settings,
    solution: &Solution,
    query: &Query,
    slots: &mut Slots,
) -> Box<dyn Operator> {
    let bare: Box<dyn Operator> = match &solution.access {
        Access::Collection(_) if solution.residual.is_none() => Box::new(RecordCount::default()),
        Access::Index(access) if solution.residual.is_none() => {
            Box::new(CountScan::new(plan::index_scan(access, slots)))
        }
        _ => return plan::operator(solution, query, settings, slots),
    };
    plan::skip_and_limit(bare, query)
}

pub fn count_rows(root: &mut dyn Operator, run: &mut Run<'_>, spec: &CountSpec<'_>) -> Result<u64> {
    let stop = spec.limit.map(|limit| limit.saturating_add(spec.skip));
    let mut found = 0;
    while stop.is_none_or(|stop| found < stop) && root.next(run)?.is_some() {
        found += 1;
    }
    Ok(found.saturating_sub(spec.skip))
}
