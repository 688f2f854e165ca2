//! Explaining a pipeline: as a query when one does all of it, else as a list of stages.

use arbor_bson::{ArrayBuf, Doc, DocBuf, ValueRef};

use super::{Explainer, Shape};
use crate::aggregate::pipeline::Pipeline;
use crate::aggregate::start;
use crate::aggregate::step::Step;
use crate::aggregate::surroundings::Surroundings;
use crate::operator::{Detail, Timed};
use crate::plan::{Decider, Query, Slots};
use crate::{AggregateSpec, Result, Verbosity};

pub(super) fn explain(explainer: &Explainer<'_>, spec: &AggregateSpec<'_>) -> Result<DocBuf> {
    let pipeline = Pipeline::parse(explainer.scope, spec)?;
    pipeline.sink.iter().try_for_each(|sink| sink.check_target(explainer.scope))?;
    if pipeline.is_query() {
        return explainer.whole(&spec.namespace, &pipeline.query, &Shape::Rows);
    }
    let mut stages = ArrayBuf::new();
    if pipeline.documents.is_none() {
        let cursor = explainer.sections(&spec.namespace, &query_below(explainer, spec, &pipeline)?, &Shape::Rows)?;
        let name = if pipeline.query.filter.near().is_some() { "$geoNearCursor" } else { "$cursor" };
        stages.push(&DocBuf::new().with(name, &cursor));
    }
    let mut statistics = match explainer.verbosity {
        Verbosity::QueryPlanner => Vec::new(),
        _ => executed(explainer, spec, &pipeline)?,
    }
    .into_iter();
    let sink = pipeline.sink.as_ref().and_then(|_| spec.pipeline.iter().last());
    for stage in pipeline.stages.as_array().iter().skip(pipeline.pushed).chain(sink) {
        let ValueRef::Document(stage) = stage else { continue };
        let mut shown = stage.to_buf();
        // a stage of the client may be several operators; what it returned is what the last one did
        let own: Vec<DocBuf> = statistics.by_ref().take(operators_of(explainer, spec, stage)?).collect();
        add_statistics(&mut shown, &own);
        stages.push(&shown);
    }
    Ok(DocBuf::new().with("explainVersion", "1").with("stages", &stages))
}

/// The query below the stages: for some fields only, when an index covers these.
fn query_below(explainer: &Explainer<'_>, spec: &AggregateSpec<'_>, pipeline: &Pipeline) -> Result<Query> {
    let mut of_fields = pipeline.query_of_fields();
    if let Some((collection, view)) = explainer.scope.snapshot(&spec.namespace)? {
        of_fields = explainer.scope.constrained(&collection, &of_fields).into_owned();
        let decider = Decider::new(explainer.scope, &view, &collection, explainer.interrupt).without_cache();
        if decider.decide(&of_fields, &mut Slots::default())?.winner.covered.is_some() {
            return Ok(of_fields);
        }
    }
    Ok(pipeline.query.clone())
}

/// Counts the operators that a stage of the client consists of.
fn operators_of(explainer: &Explainer<'_>, spec: &AggregateSpec<'_>, stage: Doc<'_>) -> Result<usize> {
    if stage.first().is_some_and(|(name, _)| matches!(name, "$documents" | "$out" | "$merge")) {
        return Ok(0);
    }
    if stage.first().is_some_and(|(name, _)| name == "$geoNear") {
        return Ok(1);
    }
    let context = explainer.scope.context(&spec.namespace, spec.collation.as_ref(), spec.let_variables)?;
    let names = explainer.scope.names();
    let around = Surroundings::outermost(&names, spec, &context);
    let alone: ArrayBuf = [stage].into_iter().collect();
    Ok(Step::parse_all(alone.as_array(), &around)?.len())
}

/// Runs the pipeline; returns the statistics of each operator above the query, the first one first. Nothing is written.
fn executed(explainer: &Explainer<'_>, spec: &AggregateSpec<'_>, pipeline: &Pipeline) -> Result<Vec<DocBuf>> {
    let steps = pipeline.steps();
    let mut plan = start(explainer.scope, spec, pipeline.clone(), true, explainer.interrupt)?;
    let (mut run, root) = plan.run(explainer.interrupt);
    let _timed = Timed::begin();
    while root.next(&mut run)?.is_some() {
        explainer.interrupt.check()?;
    }
    let mut operators = Vec::new();
    let mut next = Some(root.explain(Detail::Execution));
    while let Some(operator) = next.filter(|_| operators.len() < steps) {
        next = match operator.get("inputStage") {
            Some(ValueRef::Document(input)) => Some(input.to_buf()),
            _ => None,
        };
        operators.push(operator);
    }
    operators.reverse();
    Ok(operators)
}

/// Statistics of an operator, and their names in MongoDB's output for a stage.
const STATISTICS: &[(&str, &str)] = &[
    ("maxUsedMemBytes", "maxTotalMemoryUsageBytes"),
    ("totalDataSizeSorted", "totalDataSizeSortedBytesEstimate"),
    ("strategy", "strategy"),
    ("totalDocsExamined", "totalDocsExamined"),
    ("totalKeysExamined", "totalKeysExamined"),
    ("collectionScans", "collectionScans"),
    ("indexesUsed", "indexesUsed"),
    ("usedDisk", "usedDisk"),
    ("spills", "spills"),
];

fn add_statistics(shown: &mut DocBuf, operators: &[DocBuf]) {
    let Some(last) = operators.last() else { return };
    for name in ["nReturned", "executionTimeMillisEstimate"] {
        if let Some(value) = last.get(name) {
            shown.append(name, value);
        }
    }
    for (own, name) in STATISTICS {
        if let Some(value) = operators.iter().find_map(|operator| operator.get(own)) {
            shown.append(name, value);
        }
    }
}
