//! Generation and choice of candidate plans.
//!
//! An index is a candidate when its first component is bounded or when it gives the order. Candidates are sorted by an
//! estimate of what they read, from a few reads of the engine; with one candidate nothing is estimated. A collection
//! scan is the last resort, as in MongoDB. Where estimates are inconclusive, [`super::decide`] decides.

use std::collections::HashSet;

use arbor_bson::{DocBuf, Value, ValueRef};
use arbor_lang::matcher::{Compare, Node};
use arbor_lang::{Code, Collation, Filter, stop};
use arbor_store::{Collection, Index};
use arbor_txn::View;

use super::access::{Access, Branch, IndexAccess, Merge, Plans, ScanRange, Solution};
use super::cost::{Cost, Reads};
use super::index_bounds::IndexBounds;
use super::index_filters::AllowedIndexes;
use super::index_shape::{IndexShape, IndexSource};
use super::predicate::{Readings, conjuncts};
use super::query::{ChosenIndex, Query};
use super::sort_merge::{SCANS_MAX, explode};
use super::sort_order::{self, Direction};
use super::summary;
use super::{hinted_range, near, text, wildcard};
use crate::{Error, Result};

/// Ranges of one index that are estimated one by one.
const ESTIMATES_MAX: usize = 8;

pub(crate) fn plan(view: &dyn View, collection: &Collection, query: &Query) -> Result<Plans> {
    let plans = plans(view, collection, query)?;
    // bounds of many values are cut short when the statement is to stop
    stop::check()?;
    match plans.winner.access {
        Access::Collection(_) => summary::check_scan(collection, query).map(|()| plans),
        _ => Ok(plans),
    }
}

fn plans(view: &dyn View, collection: &Collection, query: &Query) -> Result<Plans> {
    if let Some(near) = query.filter.near() {
        return near::plan(view, collection, query, near);
    }
    let allowed = query.allowed.as_ref().map(|allowed| allowed.names(collection));
    let planner = Planner { view, collection, query, allowed: allowed.as_deref() };
    if let Some(text) = query.filter.text() {
        return text::plan(collection, query, text, &|branch, others| planner.branch(branch, others));
    }
    if query.min.is_some() || query.max.is_some() {
        return planner.min_max();
    }
    match &query.hint {
        Some(ChosenIndex::Natural(direction)) => Ok(Plans::only(planner.collection_scan(*direction))),
        Some(hint) => planner.hinted(hint),
        None => match &query.allowed {
            Some(allowed) => planner.restricted(allowed),
            None => planner.free(),
        },
    }
}

/// The documents of a query by an index that the caller has chosen; None: it may lack some, or would be read whole.
pub(crate) fn by_index(
    view: &dyn View,
    collection: &Collection,
    query: &Query,
    shape: &IndexShape,
) -> Option<Solution> {
    let planner = Planner { view, collection, query, allowed: None };
    let candidate = planner.candidate(shape.clone(), &Readings::new(&query.filter));
    // bounds that were cut short lack documents
    let fits = candidate.bounds.narrows() && planner.is_complete(&candidate) && stop::ended().is_ok();
    fits.then(|| planner.solution(candidate))
}

struct Planner<'p> {
    view: &'p dyn View,
    collection: &'p Collection,
    query: &'p Query,
    /// Names of the indexes that may be used. None: all.
    allowed: Option<&'p [&'p str]>,
}

/// One index that the query could use.
struct Candidate {
    shape: IndexShape,
    bounds: IndexBounds,
    /// It gives the requested order in this direction.
    order: Option<Direction>,
    /// Bounds of the scans, if only several merged scans give that order.
    merged: Vec<IndexBounds>,
}

impl Candidate {
    /// A value for each component of a unique index: one document or none.
    fn finds_one(&self) -> bool {
        self.shape.unique && self.bounds.points() == self.shape.parts.len()
    }

    fn accesses(self) -> Vec<IndexAccess> {
        let direction = self.order.unwrap_or_default();
        let all = if self.merged.is_empty() { vec![self.bounds] } else { self.merged };
        let accesses = all.into_iter().map(|bounds| index_access(self.shape.clone(), bounds, direction));
        accesses.flatten().collect()
    }
}

impl Planner<'_> {
    /// Plans with the allowed indexes; where they are no help, those of a filter leave a collection scan, and others are dropped.
    fn restricted(&self, allowed: &AllowedIndexes) -> Result<Plans> {
        let plans = self.free()?;
        if allowed.is_filter || !matches!(plans.winner.access, Access::Collection(_)) {
            return Ok(plans);
        }
        match allowed.natural() {
            Some(direction) => Ok(Plans::only(self.collection_scan(direction))),
            None => Planner { allowed: None, ..*self }.free(),
        }
    }

    fn is_allowed(&self, shape: &IndexShape) -> bool {
        self.allowed.is_none_or(|allowed| allowed.contains(&shape.name.as_str()))
    }

    fn free(&self) -> Result<Plans> {
        let root = self.query.filter.root();
        if matches!(root, Node::AlwaysFalse) {
            return Ok(Plans::only(Solution::unsorted(Access::Nothing, None)));
        }
        if let Some((at, id)) = self.id_equality() {
            return Ok(Plans::only(self.record(at, id)));
        }
        let readings = Readings::new(&self.query.filter);
        let unbounded = readings.of(self.query.filter.collation()).is_empty();
        if unbounded && self.query.sort.is_none() && !matches!(root, Node::Or(_) | Node::And(_)) {
            return Ok(Plans::only(self.collection_scan(Direction::Forward)));
        }
        let candidates: Vec<Candidate> = self
            .candidates(&readings)
            .filter(|candidate| self.is_complete(candidate))
            .filter(|candidate| candidate.bounds.narrows() || (self.query.sort.is_some() && candidate.order.is_some()))
            .collect();
        let narrow = candidates.iter().any(|candidate| candidate.bounds.narrows());
        if !narrow && let Some(or) = self.or(root)? {
            let rejected = candidates.into_iter().map(|candidate| self.solution(candidate)).collect();
            return Ok(Plans { winner: or, rejected, costs: Vec::new() });
        }
        let plans = self.plans(self.by_cost(candidates)?);
        Ok(plans.unwrap_or_else(|| Plans::only(self.collection_scan(Direction::Forward))))
    }

    /// None: there are no candidates. Requires the cheapest first.
    fn plans(&self, priced: Vec<(Option<Cost>, Candidate)>) -> Option<Plans> {
        let costs = priced.iter().filter_map(|(cost, _)| *cost).collect();
        let mut solutions = priced.into_iter().map(|(_, candidate)| self.solution(candidate));
        let winner = solutions.next()?;
        Some(Plans { winner, rejected: solutions.collect(), costs })
    }

    /// Every index, usable for the query or not.
    fn candidates(&self, readings: &Readings) -> impl Iterator<Item = Candidate> {
        let fixed = IndexShape::of(self.collection).into_iter().map(|shape| self.candidate(shape, readings));
        let wildcards = wildcard::candidates(self.collection, readings).into_iter();
        let all = fixed.chain(wildcards.map(|(shape, bounds)| self.with_bounds(shape, bounds)));
        all.filter(|candidate| self.is_allowed(&candidate.shape))
    }

    fn candidate(&self, shape: IndexShape, readings: &Readings) -> Candidate {
        let bounds = IndexBounds::of(&shape, &readings.of(&shape.collation));
        self.with_bounds(shape, bounds)
    }

    fn with_bounds(&self, shape: IndexShape, bounds: IndexBounds) -> Candidate {
        let comparable = self.query.sort.as_ref().filter(|sort| *sort.collation() == shape.collation);
        if self.query.sort.is_some() && comparable.is_none() {
            return Candidate { shape, bounds, order: None, merged: Vec::new() };
        }
        let sort = comparable.map_or(&[][..], |sort| sort.parts());
        let order = sort_order::direction(&shape, &bounds, sort);
        if order.is_none()
            && let Some((merged, direction)) = explode(&shape, &bounds, sort)
        {
            return Candidate { shape, bounds, order: Some(direction), merged };
        }
        Candidate { shape, bounds, order, merged: Vec::new() }
    }

    /// No document that matches is missing in the index.
    fn is_complete(&self, candidate: &Candidate) -> bool {
        candidate.bounds.complete && candidate.shape.holds_all_of(&self.query.filter)
    }

    fn solution(&self, candidate: Candidate) -> Solution {
        let residual = residual(&self.query.filter, &candidate.bounds.settled);
        let sorts = self.query.sort.is_some() && candidate.order.is_none();
        let merges = !candidate.merged.is_empty();
        let covers = residual.is_none() && !sorts && !merges;
        let covered = if covers { self.covered(&candidate.shape) } else { None };
        let distinct = !candidate.shape.is_multikey();
        let mut scans = candidate.accesses();
        let access = match scans.pop() {
            Some(only) if scans.is_empty() && !merges => Access::Index(only),
            Some(last) => {
                scans.push(last);
                Access::Merge(Merge { scans, distinct })
            }
            None => Access::Nothing,
        };
        Solution { access, residual, sorts, covered }
    }

    /// The projection's fields as components of the index, when it holds them all.
    fn covered(&self, shape: &IndexShape) -> Option<Vec<(String, usize)>> {
        let shown = self.query.projection.as_ref()?.projection.covered_by()?;
        let has_values = shape.collation.is_simple() && !shape.is_multikey() && shape.source != IndexSource::Records;
        if !has_values || shown.is_empty() || self.query.show_record_id {
            return None;
        }
        let plain = shown.iter().all(|path| path.components().len() == 1);
        let held =
            shown.iter().all(|path| shape.parts.iter().any(|part| part.is_plain() && part.path == path.as_str()));
        let is_shown = |part: &str| shown.iter().any(|path| path.as_str() == part);
        let fields = shape.parts.iter().enumerate().filter(|(_, part)| is_shown(&part.path));
        (plain && held).then(|| fields.map(|(at, part)| (part.path.clone(), at)).collect())
    }

    /// The value of an equality on `_id`, if it compares as the keys of the records do.
    fn id_equality(&self) -> Option<(usize, &Value)> {
        let same = *self.query.filter.collation() == self.collection.collation;
        id_equality_in(self.query.filter.root()).filter(|(_, id)| same || !Collation::touches(id.as_ref()))
    }

    fn collection_scan(&self, direction: Direction) -> Solution {
        let filter = (!self.query.filter.matches_everything()).then(|| self.query.filter.clone());
        Solution { sorts: self.query.sort.is_some(), ..Solution::unsorted(Access::Collection(direction), filter) }
    }

    fn record(&self, conjunct: usize, id: &Value) -> Solution {
        if self.collection.clustered_index().is_some() {
            let shape = IndexShape::primary(self.collection);
            return self.solution(self.candidate(shape, &Readings::new(&self.query.filter)));
        }
        let access = Access::Record { id_key: self.collection.id_key(id.as_ref()) };
        Solution::unsorted(access, residual(&self.query.filter, &[conjunct]))
    }

    // ---- cost

    /// Sorts candidates by cost, cheapest first. A single candidate has no cost, nor have others if one finds at most one document:
    /// their reads need not be known, and estimating them may cost more than reading the document.
    fn by_cost(&self, mut candidates: Vec<Candidate>) -> Result<Vec<(Option<Cost>, Candidate)>> {
        candidates.sort_by_key(|candidate| !candidate.finds_one());
        if candidates.len() < 2 || candidates.first().is_some_and(Candidate::finds_one) {
            return Ok(candidates.into_iter().map(|other| (None, other)).collect());
        }
        let mut priced = Vec::with_capacity(candidates.len());
        for candidate in candidates {
            priced.push((self.cost(&candidate)?, candidate));
        }
        priced.sort_by(|(a, left), (b, right)| {
            a.guessed().total_cmp(&b.guessed()).then_with(|| right.bounds.points().cmp(&left.bounds.points()))
        });
        Ok(priced.into_iter().map(|(cost, candidate)| (Some(cost), candidate)).collect())
    }

    fn cost(&self, candidate: &Candidate) -> Result<Cost> {
        let (shape, intervals) = (&candidate.shape, &candidate.bounds.intervals);
        let settled = candidate.bounds.settled.len() == conjuncts(self.query.filter.root()).len();
        let sorts = self.query.sort.is_some() && candidate.order.is_none();
        let merges = !candidate.merged.is_empty();
        let reads = match shape {
            shape if settled && !sorts && !merges && self.covered(shape).is_some() => Reads::Key,
            shape if shape.source == IndexSource::Records => Reads::Record,
            shape if shape.clustering => Reads::Clustering,
            _ => Reads::KeyAndDocument,
        };
        let behind = intervals.iter().skip(candidate.bounds.points() + 1).filter(|all| !all.is_full());
        Ok(Cost {
            keys: self.keys(candidate)?,
            narrowing: behind.count(),
            reads,
            settled,
            sorts,
            rows: self.query.sort_limit(),
            scans: candidate.merged.len(),
        })
    }

    /// Estimates the index keys inside the bounds from the engine's range statistics.
    fn keys(&self, candidate: &Candidate) -> Result<f64> {
        let (shape, bounds) = (&candidate.shape, &candidate.bounds);
        let index = match shape.source {
            IndexSource::Records | IndexSource::Natural => None,
            IndexSource::Secondary(at) => match self.collection.indexes.get(at) {
                Some(index) => Some(index),
                None => return Ok(f64::MAX),
            },
        };
        let mut keys = 1.0;
        for span in bounds.keys(shape).hulls(ESTIMATES_MAX) {
            let (low, high) = (&span.low, span.high.as_deref());
            keys += match index {
                Some(index) => index.estimate(self.view, low, high)?.keys,
                None => arbor_store::estimate(self.view, self.collection, low, high)?.keys,
            } as f64;
        }
        Ok(keys)
    }

    // ---- $or

    /// A scan per branch, when each branch can use an index.
    fn or(&self, root: &Node) -> Result<Option<Solution>> {
        let all = conjuncts(root);
        for (at, node) in all.iter().enumerate() {
            let Node::Or(branches) = node else { continue };
            stop::tick_for(size_of_val(all))?;
            let others: Vec<Node> = all.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, n)| n.clone()).collect();
            if let Some(merge) = self.merged_or(branches, &others)? {
                return Ok(Some(merge));
            }
            let branches = branches.iter().map(|branch| self.branch(branch, &others));
            if let Some(branches) = branches.collect::<Result<Option<Vec<Branch>>>>()? {
                let sorts = self.query.sort.is_some();
                return Ok(Some(Solution { sorts, ..Solution::unsorted(Access::Or(branches), None) }));
            }
        }
        Ok(None)
    }

    fn branch(&self, branch: &Node, others: &[Node]) -> Result<Option<Branch>> {
        stop::tick_for(size_of_val(others))?;
        let mut query = Query::new(branch_filter(branch, others, self.query.filter.collation()));
        query.limit = self.query.limit.filter(|_| self.query.sort.is_none());
        let planner = Planner { query: &query, ..*self };
        let best = planner.best_narrowing()?.map(|candidate| planner.solution(candidate));
        Ok(best.and_then(|solution| match solution.access {
            Access::Index(access) => Some(Branch { access, residual: solution.residual }),
            _ => None,
        }))
    }

    /// If the best plan of each branch gives the order: all of them merged. Conditions that the scans do not settle are checked on
    /// each document once, by the filter as a whole.
    fn merged_or(&self, branches: &[Node], others: &[Node]) -> Result<Option<Solution>> {
        let Some(sort) = &self.query.sort else { return Ok(None) };
        let (mut scans, mut settled) = (Vec::new(), true);
        for branch in branches {
            stop::tick_for(size_of_val(others))?;
            let mut query = Query::new(branch_filter(branch, others, self.query.filter.collation()));
            query.sort = Some(sort.clone());
            query.limit = self.query.limit;
            let planner = Planner { query: &query, ..*self };
            let Some(best) = planner.best_narrowing()?.filter(|best| best.order.is_some()) else { return Ok(None) };
            settled &= best.bounds.settled.len() == conjuncts(query.filter.root()).len();
            scans.extend(best.accesses());
            if scans.len() > SCANS_MAX {
                return Ok(None);
            }
        }
        let residual = (!settled).then(|| self.query.filter.clone());
        let access = if scans.is_empty() { Access::Nothing } else { Access::Merge(Merge { scans, distinct: false }) };
        Ok(Some(Solution::unsorted(access, residual)))
    }

    fn best_narrowing(&self) -> Result<Option<Candidate>> {
        let readings = Readings::new(&self.query.filter);
        let candidates: Vec<Candidate> = self
            .candidates(&readings)
            .filter(|candidate| candidate.bounds.narrows() && self.is_complete(candidate))
            .collect();
        Ok(self.by_cost(candidates)?.into_iter().next().map(|(_, best)| best))
    }

    // ---- hints

    fn hinted(&self, hint: &ChosenIndex) -> Result<Plans> {
        if let Some(name) = self.hinted_wildcard(hint) {
            return self.wildcard(name);
        }
        let shape = self.hinted_shape(hint)?;
        if let (IndexSource::Records, Some((at, id))) = (shape.source, self.id_equality()) {
            return Ok(Plans::only(self.record(at, id)));
        }
        let candidate = self.candidate(shape, &Readings::new(&self.query.filter));
        // an order that the whole index gives may be what the hint is for
        if !candidate.bounds.narrows()
            && let Some(or) = self.or_by(&candidate.shape.name)?
            && !(or.sorts && candidate.order.is_some())
        {
            return Ok(Plans::only(or));
        }
        Ok(Plans::only(self.solution(candidate)))
    }

    /// A scan of this index per branch of an `$or`.
    fn or_by(&self, name: &str) -> Result<Option<Solution>> {
        Planner { allowed: Some(&[name]), ..*self }.or(self.query.filter.root())
    }

    fn hinted_wildcard(&self, hint: &ChosenIndex) -> Option<&str> {
        let fits = |index: &Index| match hint {
            ChosenIndex::Name(name) => index.name == *name,
            ChosenIndex::Pattern(pattern) => same_pattern(pattern, &index.key),
            ChosenIndex::HiddenToo(_) | ChosenIndex::Natural(_) => false,
        };
        let mut wildcards =
            self.collection.indexes.iter().filter(|index| index.generator.wildcard().is_some() && !index.hidden);
        wildcards.find(|index| fits(index)).map(|index| index.name.as_str())
    }

    /// Returns the best use of this wildcard index.
    fn wildcard(&self, name: &str) -> Result<Plans> {
        let found = wildcard::candidates(self.collection, &Readings::new(&self.query.filter)).into_iter();
        let found = found.filter(|(shape, _)| shape.name == name);
        let candidates = found.map(|(shape, bounds)| self.with_bounds(shape, bounds)).collect();
        if let Some(plans) = self.plans(self.by_cost(candidates)?) {
            return Ok(plans);
        }
        self.or_by(name)?.map(Plans::only).ok_or_else(|| {
            let message = "error processing query: planner returned error :: caused by :: No query solutions";
            Error::new(Code::NO_QUERY_EXECUTION_PLANS, message)
        })
    }

    fn hinted_shape(&self, hint: &ChosenIndex) -> Result<IndexShape> {
        let fits = |shape: &IndexShape| match hint {
            ChosenIndex::Name(name) => shape.name == *name,
            ChosenIndex::Pattern(pattern) => same_pattern(pattern, &shape.key_pattern()),
            ChosenIndex::HiddenToo(name) => shape.name == *name,
            ChosenIndex::Natural(_) => false,
        };
        let unknown = || Error::bad_value("hint provided does not correspond to an existing index");
        let shapes = match hint {
            ChosenIndex::HiddenToo(_) => IndexShape::all(self.collection),
            _ => IndexShape::of(self.collection),
        };
        shapes.into_iter().find(fits).ok_or_else(unknown)
    }

    fn min_max(&self) -> Result<Plans> {
        let hint = self.query.hint.as_ref().filter(|hint| !matches!(hint, ChosenIndex::Natural(_)));
        let hint = hint.ok_or_else(hinted_range::without_hint)?;
        let shape = self.hinted_shape(hint)?;
        let (min, max) = (self.query.min.as_ref(), self.query.max.as_ref());
        let span = hinted_range::span(&shape, min, max, self.query.filter.collation())?;
        let filter = (!self.query.filter.matches_everything()).then(|| self.query.filter.clone());
        let bounds = IndexBounds::of(&shape, &[]);
        let candidate = self.with_bounds(shape, bounds.clone());
        let access = IndexAccess {
            direction: candidate.order.unwrap_or_default(),
            shape: candidate.shape,
            range: ScanRange::Keys(span),
            intervals: bounds.intervals,
        };
        let sorts = self.query.sort.is_some() && candidate.order.is_none();
        Ok(Plans::only(Solution { sorts, ..Solution::unsorted(Access::Index(access), filter) }))
    }
}

/// None: nothing is inside the bounds.
fn index_access(shape: IndexShape, bounds: IndexBounds, direction: Direction) -> Option<IndexAccess> {
    let keys = bounds.keys(&shape);
    let access = IndexAccess { range: ScanRange::Components(keys), intervals: bounds.intervals, shape, direction };
    matches!(&access.range, ScanRange::Components(keys) if !keys.is_empty()).then_some(access)
}

/// Returns the filter of one branch, with the statement's collation.
fn branch_filter(branch: &Node, others: &[Node], collation: &Collation) -> Filter {
    Filter::from_root(Node::And(conjuncts(branch).iter().chain(others).cloned().collect()), collation)
}

/// `{ _id: value }` among the conjuncts.
fn id_equality_in(root: &Node) -> Option<(usize, &Value)> {
    conjuncts(root).iter().enumerate().find_map(|(at, node)| match node {
        Node::Compare { path, op: Compare::Eq, value } if path.as_str() == "_id" => Some((at, value)),
        _ => None,
    })
}

/// The filter without the conjuncts that the bounds settle.
pub(super) fn residual(filter: &Filter, settled: &[usize]) -> Option<Filter> {
    let settled: HashSet<usize> = settled.iter().copied().collect();
    let rest = conjuncts(filter.root()).iter().enumerate().filter(|(at, _)| !settled.contains(at));
    let rest: Vec<Node> = rest.map(|(_, node)| node.clone()).collect();
    (!rest.is_empty()).then(|| Filter::from_root(Node::And(rest), filter.collation()))
}

/// Same fields in the same order; 1 and 1.0 are the same direction.
pub(super) fn same_pattern(a: &DocBuf, b: &DocBuf) -> bool {
    let direction = |value: ValueRef<'_>| match value {
        ValueRef::Double(v) => i32::from(v < 0.0),
        ValueRef::Int64(v) => i32::from(v < 0),
        ValueRef::Int32(v) => i32::from(v < 0),
        ValueRef::Decimal128(v) => i32::from(v.is_negative()),
        ValueRef::String(_) => 2,
        _ => 0,
    };
    let field = |(name, value)| (name, direction(value));
    a.as_doc().iter().map(field).eq(b.as_doc().iter().map(field))
}
