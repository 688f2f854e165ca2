//! Explaining plans: how a statement would be or was executed.

mod aggregate;
pub(crate) mod filter_doc;

use std::time::Instant;

use arbor_bson::{ArrayBuf, DocBuf};
use arbor_store::{Collection, Namespace};
use arbor_txn::ReadView;

use crate::operator::{Detail, DistinctScan, Examined, Operator, Run, StageDoc, Timed, int};
use crate::plan::{self, Decider, Decision, IndexAccess, Query, ShapeHash, Slots, Solution};
use crate::read::{count_rows, counting_operator, query_of};
use crate::{
    AggregateSpec, Change, CountSpec, DeleteSpec, DistinctSpec, ExplainSpec, FindAndModifySpec, Interrupt, Result,
    Scope, UpdateSpec, Verbosity,
};

/// `explainVersion`, `queryPlanner` and, from `executionStats` on, `executionStats` (of a pipeline: `stages`). The caller
/// adds `command`, `serverInfo` and `ok`.
///
/// Nothing is written: of a write statement the finding of its documents is run.
pub fn explain(
    scope: &Scope<'_>,
    spec: &ExplainSpec<'_>,
    verbosity: Verbosity,
    interrupt: &Interrupt,
) -> Result<DocBuf> {
    let explainer = Explainer { scope, verbosity, interrupt };
    if let Some(view) = scope.resolved_view(spec.namespace())? {
        let stages = view.explained_stages(spec)?;
        let collation = Some(view.collation_for(spec.namespace(), spec.collation())?);
        return aggregate::explain(&explainer, &AggregateSpec { collation, ..view.spec(&stages) });
    }
    match spec {
        ExplainSpec::Find(spec) => explainer.whole(&spec.namespace, &query_of(scope, spec)?, &Shape::Rows),
        ExplainSpec::Count(spec) => explainer.count(spec),
        ExplainSpec::Distinct(spec) => explainer.distinct(spec),
        ExplainSpec::Update(spec) => explainer.update(spec),
        ExplainSpec::Delete(spec) => explainer.delete(spec),
        ExplainSpec::FindAndModify(spec) => explainer.find_and_modify(spec),
        ExplainSpec::Aggregate(spec) => aggregate::explain(&explainer, spec),
    }
}

struct Explainer<'e> {
    scope: &'e Scope<'e>,
    verbosity: Verbosity,
    interrupt: &'e Interrupt,
}

/// Statement-specific stage above the rows that the plan finds.
enum Shape<'s> {
    Rows,
    Count(&'s CountSpec<'s>),
    /// The values at a path.
    Distinct(&'s str),
    /// UPDATE or DELETE, for all rows or for one.
    Write {
        stage: &'static str,
        counter: &'static str,
        all: bool,
    },
}

/// One plan that was built, and perhaps run.
struct Explained {
    stage: DocBuf,
    returned: u64,
    examined: Examined,
    millis: u64,
}

impl Explainer<'_> {
    fn count(&self, spec: &CountSpec<'_>) -> Result<DocBuf> {
        let query =
            Query::parse(spec.query, spec.hint, &self.scope.context(&spec.namespace, spec.collation.as_ref(), None)?)?;
        self.whole(&spec.namespace, &query, &Shape::Count(spec))
    }

    fn distinct(&self, spec: &DistinctSpec<'_>) -> Result<DocBuf> {
        let query =
            Query::parse(spec.query, spec.hint, &self.scope.context(&spec.namespace, spec.collation.as_ref(), None)?)?;
        self.whole(&spec.namespace, &query, &Shape::Distinct(spec.key))
    }

    fn update(&self, spec: &UpdateSpec<'_>) -> Result<DocBuf> {
        let Some(first) = spec.updates.first() else { return Ok(DocBuf::new()) };
        let context = self.scope.context(&spec.namespace, first.collation.as_ref(), spec.let_variables)?;
        let mut query = Query::parse(first.q, first.hint, &context)?;
        query.sort_one_by(first.q, first.sort, &context)?;
        let shape = Shape::Write { stage: "UPDATE", counter: "nWouldModify", all: first.multi };
        self.whole(&spec.namespace, &query, &shape)
    }

    fn delete(&self, spec: &DeleteSpec<'_>) -> Result<DocBuf> {
        let Some(first) = spec.deletes.first() else { return Ok(DocBuf::new()) };
        let context = self.scope.context(&spec.namespace, first.collation.as_ref(), spec.let_variables)?;
        let query = Query::parse(first.q, first.hint, &context)?;
        let shape = Shape::Write { stage: "DELETE", counter: "nWouldDelete", all: first.multi };
        self.whole(&spec.namespace, &query, &shape)
    }

    fn find_and_modify(&self, spec: &FindAndModifySpec<'_>) -> Result<DocBuf> {
        let context = self.scope.context(&spec.namespace, spec.collation.as_ref(), spec.let_variables)?;
        let mut query = Query::parse(spec.query, spec.hint, &context)?;
        query.sort_one_by(spec.query, spec.sort, &context)?;
        let (stage, counter) = match spec.change {
            Change::Remove => ("DELETE", "nWouldDelete"),
            Change::Update { .. } => ("UPDATE", "nWouldModify"),
        };
        self.whole(&spec.namespace, &query, &Shape::Write { stage, counter, all: false })
    }

    fn whole(&self, namespace: &Namespace, query: &Query, shape: &Shape<'_>) -> Result<DocBuf> {
        let mut doc = DocBuf::new().with("explainVersion", "1");
        for (name, value) in self.sections(namespace, query, shape)?.as_doc() {
            doc.append(name, value);
        }
        Ok(doc)
    }

    /// `queryPlanner` and `executionStats`.
    fn sections(&self, namespace: &Namespace, query: &Query, shape: &Shape<'_>) -> Result<DocBuf> {
        let Some((collection, view)) = self.scope.snapshot(namespace)? else {
            return Ok(self.missing_collection(namespace, query));
        };
        let query = &*self.scope.constrained(&collection, query);
        if let Shape::Distinct(key) = shape
            && let Some(access) = plan::distinct_access(&collection, key, query)
        {
            return self.distinct_scan(namespace, query, &view, &collection, &access);
        }
        let target = Target { view: &view, collection: &collection, query, shape };
        let started = Instant::now();
        let hashes = plan::hashes(query, &plan::plan(&view, &collection, query)?);
        let mut slots = Slots::default();
        let decision = self.decide(&target, &mut slots)?;
        let millis = started.elapsed().as_millis() as u64;
        let planned = self.stage(&target, &decision.winner)?;
        let mut others = ArrayBuf::new();
        for solution in &decision.rejected {
            others.push(&self.stage(&target, solution)?);
        }
        let planner = planner_doc(namespace, query, Some((hashes, millis)), &planned, &others);
        let mut doc = DocBuf::new().with("queryPlanner", &planner);
        if self.verbosity >= Verbosity::ExecutionStats {
            let tried = plan::trial_docs(&decision.trial);
            let mut stats = execution_doc(&self.run(&target, decision, slots)?);
            if self.verbosity == Verbosity::AllPlansExecution {
                stats.append("allPlansExecution", &tried);
            }
            doc.append("executionStats", &stats);
        }
        Ok(doc)
    }

    /// As the statement does it, but without the plan cache.
    fn decide(&self, target: &Target<'_>, slots: &mut Slots) -> Result<Decision> {
        let Target { view, collection, query, shape } = *target;
        match shape {
            Shape::Rows => {
                let decider = Decider::new(self.scope, view, collection, self.interrupt);
                decider.without_cache().decide(query, slots)
            }
            _ => Ok(Decision::untried(plan::plan(view, collection, query)?)),
        }
    }

    fn distinct_scan(
        &self,
        namespace: &Namespace,
        query: &Query,
        view: &ReadView,
        collection: &Collection,
        access: &IndexAccess,
    ) -> Result<DocBuf> {
        let mut slots = Slots::default();
        let mut scan = DistinctScan::new(plan::index_scan(access, &mut slots));
        let planned = planner_doc(namespace, query, None, &scan.explain(Detail::Plan), &ArrayBuf::new());
        let mut doc = DocBuf::new().with("queryPlanner", &planned);
        if self.verbosity >= Verbosity::ExecutionStats {
            let mut run = Run::new(view, Some(collection), self.interrupt, slots.count());
            let (start, _timed, mut returned) = (Instant::now(), Timed::begin(), 0);
            while scan.next(&mut run)?.is_some() {
                returned += 1;
            }
            let (examined, millis) = (run.examined, start.elapsed().as_millis() as u64);
            let stage = scan.explain(Detail::Execution);
            doc.append("executionStats", &execution_doc(&Explained { stage, returned, examined, millis }));
        }
        Ok(doc)
    }

    fn missing_collection(&self, namespace: &Namespace, query: &Query) -> DocBuf {
        let stage = StageDoc::new("EOF", Detail::Plan).finish();
        let mut doc =
            DocBuf::new().with("queryPlanner", &planner_doc(namespace, query, None, &stage, &ArrayBuf::new()));
        if self.verbosity >= Verbosity::ExecutionStats {
            let nothing = Explained { stage, returned: 0, examined: Examined::default(), millis: 0 };
            doc.append("executionStats", &execution_doc(&nothing));
        }
        doc
    }

    fn stage(&self, target: &Target<'_>, solution: &Solution) -> Result<DocBuf> {
        let (settings, mut slots) = (&self.scope.settings, Slots::default());
        let root = match target.shape {
            Shape::Count(_) => counting_operator(settings, solution, target.query, &mut slots),
            _ => plan::operator(solution, target.query, settings, &mut slots),
        };
        Ok(target.shape.above(root.as_ref(), Detail::Plan, 0))
    }

    fn run(&self, target: &Target<'_>, mut decision: Decision, mut slots: Slots) -> Result<Explained> {
        let settings = &self.scope.settings;
        let mut root = match target.shape {
            Shape::Count(_) => counting_operator(settings, &decision.winner, target.query, &mut slots),
            _ => plan::decided(&mut decision, target.query, settings, &mut slots),
        };
        let mut run = Run::new(target.view, Some(target.collection), self.interrupt, slots.count());
        let (start, _timed) = (Instant::now(), Timed::begin());
        let mut rows = 0;
        match target.shape {
            Shape::Count(spec) => rows = count_rows(root.as_mut(), &mut run, spec)?,
            Shape::Write { all: false, .. } => rows += u64::from(root.next(&mut run)?.is_some()),
            _ => {
                while root.next(&mut run)?.is_some() {
                    rows += 1;
                }
            }
        }
        let returned = if matches!(target.shape, Shape::Rows | Shape::Distinct(_)) { rows } else { 0 };
        let millis = start.elapsed().as_millis() as u64;
        let stage = target.shape.above(root.as_ref(), Detail::Execution, rows);
        Ok(Explained { stage, returned, examined: run.examined, millis })
    }
}

/// Input shared by all plans of one explain.
struct Target<'t> {
    view: &'t ReadView,
    collection: &'t Collection,
    query: &'t Query,
    shape: &'t Shape<'t>,
}

impl Shape<'_> {
    fn above(&self, root: &dyn Operator, detail: Detail, rows: u64) -> DocBuf {
        let input = root.explain(detail);
        match self {
            Shape::Rows | Shape::Distinct(_) => input,
            Shape::Count(spec) => {
                let counted = StageDoc::new("COUNT", detail).counter("nCounted", rows).counter("nSkipped", spec.skip);
                counted.input(input)
            }
            Shape::Write { stage, counter, .. } => StageDoc::new(stage, detail).counter(counter, rows).input(input),
        }
    }
}

/// `planned`: the hashes of shape and cache entry, and how long planning took.
fn planner_doc(
    namespace: &Namespace,
    query: &Query,
    planned: Option<((ShapeHash, ShapeHash), u64)>,
    winner: &DocBuf,
    rejected: &ArrayBuf,
) -> DocBuf {
    let ((shape, key), millis) = planned.unwrap_or_else(|| {
        let shape = ShapeHash::of(query);
        ((shape, shape.with(&[])), 0)
    });
    let mut doc =
        DocBuf::new().with("namespace", namespace.as_str()).with("parsedQuery", &filter_doc::of_filter(&query.filter));
    if !query.filter.collation().is_simple() {
        doc.append("collation", &query.filter.collation().to_doc());
    }
    doc.with("indexFilterSet", query.allowed.as_ref().is_some_and(|allowed| allowed.is_filter))
        .with("queryHash", &shape.text())
        .with("planCacheShapeHash", &shape.text())
        .with("planCacheKey", &key.text())
        .with("optimizationTimeMillis", int(millis).as_ref())
        .with("maxIndexedOrSolutionsReached", false)
        .with("maxIndexedAndSolutionsReached", false)
        .with("maxScansToExplodeReached", false)
        .with("winningPlan", winner)
        .with("rejectedPlans", rejected)
}

fn execution_doc(explained: &Explained) -> DocBuf {
    DocBuf::new()
        .with("executionSuccess", true)
        .with("nReturned", int(explained.returned).as_ref())
        .with("executionTimeMillis", int(explained.millis).as_ref())
        .with("totalKeysExamined", int(explained.examined.keys).as_ref())
        .with("totalDocsExamined", int(explained.examined.documents).as_ref())
        .with("executionStages", &explained.stage)
}
