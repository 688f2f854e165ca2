//! `count`.

use arbor_lang::Context;

use crate::operator::{CountScan, Operator, RecordCount, Run};
use crate::plan::summary;
use crate::plan::{self, Access, Query, Slots, Solution};
use crate::{AggregateSpec, CountSpec, Interrupt, Result, Scope, Settings, aggregate};

/// Counts the documents that a query finds. Without a filter the collection's counter knows; exact index bounds are counted
/// without reading documents.
pub fn count(scope: &Scope<'_>, spec: &CountSpec<'_>, interrupt: &Interrupt) -> Result<u64> {
    interrupt.check()?;
    let context = scope.context(&spec.namespace, spec.collation.as_ref(), None)?;
    let query = Query::parse(spec.query, spec.hint, &Context { without_times: true, ..context })?;
    let Some((collection, view)) = scope.snapshot(&spec.namespace)? else {
        return count_view(scope, spec, interrupt);
    };
    let query = scope.constrained(&collection, &query);
    if query.filter.matches_everything() && query.hint.is_none() {
        summary::note_stage("RECORD_STORE_FAST_COUNT");
        let all = arbor_store::count(&view, &collection)?;
        return Ok(all.saturating_sub(spec.skip).min(spec.limit.unwrap_or(u64::MAX)));
    }
    let solution = plan::plan(&view, &collection, &query)?.winner;
    plan::note_count(&collection, &solution);
    let mut slots = Slots::default();
    let mut root = counting_operator(&scope.settings, &solution, &query, &mut slots);
    let mut run = Run::new(&view, Some(&collection), interrupt, slots.count());
    count_rows(root.as_mut(), &mut run, spec)
}

/// Nothing is in what does not exist.
fn count_view(scope: &Scope<'_>, spec: &CountSpec<'_>, interrupt: &Interrupt) -> Result<u64> {
    let Some(view) = scope.resolved_view(&spec.namespace)? else { return Ok(0) };
    let collation = Some(view.collation_for(&spec.namespace, spec.collation.as_ref())?);
    let stages = view.count_stages(spec);
    let behind = AggregateSpec { hint: spec.hint, collation, ..view.spec(&stages) };
    let counted = aggregate(scope, &behind, interrupt)?.all(interrupt)?;
    let count = counted.first().and_then(|doc| arbor_lang::number::exact_i64(doc.get("count")?));
    Ok(count.unwrap_or(0) as u64)
}

/// Returns an operator with one row per document; documents are read only if the index does not settle the filter.
pub(crate) fn counting_operator(
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

pub(crate) fn count_rows(root: &mut dyn Operator, run: &mut Run<'_>, spec: &CountSpec<'_>) -> Result<u64> {
    let stop = spec.limit.map(|limit| limit.saturating_add(spec.skip));
    let mut found = 0;
    while stop.is_none_or(|stop| found < stop) && root.next(run)?.is_some() {
        found += 1;
    }
    Ok(found.saturating_sub(spec.skip))
}
