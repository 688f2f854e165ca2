//! The decision among the candidate plans.
//!
//! Statistics of the ranges decide when one plan is cheaper than all others whatever share of documents matches. Otherwise
//! the plans that may be best are tried, or the plan cache has the one that won for queries of this shape.

use arbor_bson::{ArrayBuf, DocBuf};
use arbor_store::Collection;
use arbor_txn::View;

use super::access::{Plans, Solution};
use super::build::{Slots, rows};
use super::cache::{CachedPlan, CollectionState, PlanCache, REPLAN_FACTOR, details};
use super::choose;
use super::query::Query;
use super::shape::ShapeHash;
use super::trial::{Contender, Trial, WORKS_MAX};
use crate::explain::filter_doc;
use crate::operator::{Detail, Examined, Operator, int, pattern_doc};
use crate::{Database, Interrupt, Result};

/// A plan may be the best one when at its best it costs less than this many times what another one costs at its worst.
const NEAR: f64 = 2.0;
/// Maximum number of plans in a trial.
const CONTENDERS_MAX: usize = 8;
/// Works that a cached plan has at least before it is doubted.
const REPLAN_WORKS_MIN: u64 = 1000;

/// The chosen plan, possibly started by a trial.
pub(crate) struct Decision {
    pub winner: Solution,
    pub rejected: Vec<Solution>,
    /// Its rows, when a trial has begun it.
    pub begun: Option<Box<dyn Operator>>,
    /// Results of the trial, the winner first. Empty: there was none.
    pub trial: Vec<TrialResult>,
}

/// Result of one plan in a trial.
pub(crate) struct TrialResult {
    /// Score: 2 for the best plan, less for others.
    pub score: f64,
    pub returned: u64,
    pub examined: Examined,
    pub stage: DocBuf,
}

/// Environment of a decision.
pub(crate) struct Decider<'d> {
    pub view: &'d dyn View,
    pub collection: &'d Collection,
    pub interrupt: &'d Interrupt,
    /// None: nothing is remembered, and nothing kept.
    pub cache: Option<&'d PlanCache>,
    /// Maximum cost of a plan that is taken without a trial.
    pub trial_cost_min: f64,
}

/// A plan that was on trial.
struct Judged {
    /// Position among all candidate plans.
    plan: usize,
    cost: f64,
    contender: Contender,
}

impl<'d> Decider<'d> {
    pub(crate) fn new(
        database: &'d Database,
        view: &'d dyn View,
        collection: &'d Collection,
        interrupt: &'d Interrupt,
    ) -> Decider<'d> {
        let trial_cost_min = database.settings.trial_cost_min;
        Decider { view, collection, interrupt, cache: Some(&database.plan_cache), trial_cost_min }
    }

    /// As for a collection that was never asked before.
    pub(crate) fn without_cache(self) -> Decider<'d> {
        Decider { cache: None, ..self }
    }

    pub(crate) fn decide(&self, query: &Query, slots: &mut Slots) -> Result<Decision> {
        let plans = choose::plan(self.view, self.collection, query)?;
        match rivals(&plans, self.trial_cost_min) {
            rivals if rivals.len() < 2 => {
                if plans.costs.len() > 1 {
                    self.note(&plans, query)?;
                }
                Ok(Decision::untried(plans))
            }
            rivals => self.by_trial(&plans, rivals, query, slots),
        }
    }

    /// Shows a decision by statistics in `$planCacheStats`.
    fn note(&self, plans: &Plans, query: &Query) -> Result<()> {
        let Some(cache) = self.cache.filter(|cache| cache.is_news(self.collection, query)) else { return Ok(()) };
        let (shape, key) = hashes(query, plans);
        let state = CollectionState::of(self.view, self.collection)?;
        let works = plans.costs.first().map_or(0.0, |cost| cost.most().min(1e15)) as u64;
        let plan = rows(&plans.winner, query, &mut Slots::default()).explain(Detail::Plan);
        let none = ArrayBuf::new();
        let entry =
            CachedPlan::new(shape, plans.winner.name(), works, state, details(&asked(query), &plan, &none, &none));
        cache.keep(&self.collection.namespace, key, entry.untried());
        Ok(())
    }

    fn by_trial(&self, plans: &Plans, mut rivals: Vec<usize>, query: &Query, slots: &mut Slots) -> Result<Decision> {
        let solutions: Vec<&Solution> = plans.all().collect();
        let (shape, key) = hashes(query, plans);
        let state = CollectionState::of(self.view, self.collection)?;
        let known = self.cache.and_then(|cache| cache.find(&self.collection.namespace, key, &state));
        let mut head_start = 0;
        if let Some((name, works)) = known
            && let Some(at) = rivals.iter().position(|rival| solutions[*rival].name() == name)
        {
            rivals.swap(0, at);
            head_start = works.saturating_mul(REPLAN_FACTOR).clamp(REPLAN_WORKS_MIN, WORKS_MAX);
        }
        let contenders: Vec<&Solution> = rivals.iter().map(|rival| solutions[*rival]).collect();
        let trial = Trial { query, view: self.view, collection: self.collection, interrupt: self.interrupt };
        let tried = trial.run(&contenders, slots, head_start)?.into_iter().zip(&rivals);
        let mut judged: Vec<Judged> = tried.map(|(contender, plan)| judge(plans, *plan, contender)).collect();
        // a cached plan that did well ran alone
        if judged.iter().skip(1).any(|other| other.contender.works > 0) {
            judged.sort_by(|a, b| a.cost.total_cmp(&b.cost));
            if let (Some(cache), Some(best)) = (self.cache, judged.first()) {
                let entry = CachedPlan::new(
                    shape,
                    solutions[best.plan].name(),
                    best.contender.works,
                    state,
                    remembered(query, &judged),
                );
                cache.keep(&self.collection.namespace, key, entry);
            }
        }
        Ok(Decision::of(plans, judged))
    }
}

/// Returns the positions of the plans that may be the best one; fewer than two: no trial is needed.
fn rivals(plans: &Plans, cost_min: f64) -> Vec<usize> {
    let sure = plans.costs.iter().map(|cost| cost.most()).fold(f64::INFINITY, f64::min);
    if plans.costs.len() < 2 || sure <= cost_min {
        return Vec::new();
    }
    let near = plans.costs.iter().enumerate().filter(|(_, cost)| cost.least() < NEAR * sure);
    near.map(|(plan, _)| plan).take(CONTENDERS_MAX).collect()
}

fn judge(plans: &Plans, plan: usize, contender: Contender) -> Judged {
    let cost = match (plans.costs.get(plan), contender.measured()) {
        (Some(cost), Some(measured)) => cost.measured(&measured),
        _ => f64::INFINITY,
    };
    Judged { plan, cost, contender }
}

/// The shape of a query, and the key of its entry in the plan cache.
pub(crate) fn hashes(query: &Query, plans: &Plans) -> (ShapeHash, ShapeHash) {
    let shape = ShapeHash::of(query);
    let mut names: Vec<String> = plans.all().map(Solution::name).collect();
    names.sort_unstable();
    (shape, shape.with(&names))
}

impl Decision {
    pub(crate) fn untried(plans: Plans) -> Decision {
        Decision { winner: plans.winner, rejected: plans.rejected, begun: None, trial: Vec::new() }
    }

    /// The first one has won.
    fn of(plans: &Plans, judged: Vec<Judged>) -> Decision {
        let best = judged.first().map_or(0, |best| best.plan);
        let lowest = judged.first().map_or(1.0, |best| best.cost);
        let trial = judged.iter().map(|one| one.shown(lowest)).collect();
        let mut rejected: Vec<Solution> = plans.all().cloned().collect();
        let winner = rejected.remove(best);
        let begun = judged.into_iter().next().map(|best| best.contender.resume());
        Decision { winner, rejected, begun, trial }
    }
}

impl Judged {
    fn shown(&self, lowest: f64) -> TrialResult {
        TrialResult {
            score: 1.0 + lowest.max(1.0) / self.cost.max(1.0),
            returned: self.contender.returned(),
            examined: self.contender.examined,
            stage: self.contender.explain(),
        }
    }
}

impl TrialResult {
    /// As `creationExecStats` and `allPlansExecution` have it.
    pub(crate) fn doc(&self) -> DocBuf {
        DocBuf::new()
            .with("nReturned", int(self.returned).as_ref())
            .with("executionTimeMillisEstimate", 0i32)
            .with("totalKeysExamined", int(self.examined.keys).as_ref())
            .with("totalDocsExamined", int(self.examined.documents).as_ref())
            .with("score", self.score)
            .with("executionStages", &self.stage)
    }
}

pub(crate) fn trial_docs(tried: &[TrialResult]) -> ArrayBuf {
    let mut docs = ArrayBuf::new();
    for one in tried {
        docs.push(&one.doc());
    }
    docs
}

/// `createdFromQuery`.
fn asked(query: &Query) -> DocBuf {
    DocBuf::new()
        .with("query", &filter_doc::of_filter(&query.filter))
        .with("sort", &query.sort.as_ref().map(pattern_doc).unwrap_or_default())
        .with("projection", &query.projection.as_ref().map(|shown| shown.spec.clone()).unwrap_or_default())
}

fn remembered(query: &Query, judged: &[Judged]) -> DocBuf {
    let lowest = judged.first().map_or(1.0, |best| best.cost);
    let tried: Vec<TrialResult> = judged.iter().map(|one| one.shown(lowest)).collect();
    let stats = trial_docs(&tried);
    let scores: ArrayBuf = tried.iter().map(|one| one.score).collect();
    let plan = judged.first().map(|best| best.contender.plan()).unwrap_or_default();
    details(&asked(query), &plan, &stats, &scores)
}
