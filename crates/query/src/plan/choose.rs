//! Choosing the way to the documents.
//!
//! An index is a candidate when its first component is bounded or when it gives the order. Candidates compete by an
//! estimate of what they read, from a few reads of the engine; with one candidate nothing is estimated. A collection
//! scan is the last resort, as in MongoDB.

use arbor_bson::{DocBuf, Value, ValueRef};
use arbor_lang::matcher::{Compare, Node};
use arbor_lang::{Code, Filter};
use arbor_store::{Collection, Index};
use arbor_txn::View;

use super::access::{Access, Branch, IndexAccess, Plans, ScanRange, Solution};
use super::index_bounds::IndexBounds;
use super::index_shape::{IndexShape, IndexSource};
use super::predicate::{conjuncts, predicates};
use super::query::{ChosenIndex, Query};
use super::sort_order::{self, Direction};
use super::{hinted_range, predicate::Predicate, wildcard};
use crate::{Error, Result};

/// Ranges of one index that are estimated one by one.
const ESTIMATES_MAX: usize = 8;
/// Cost of fetching a document, in index keys read.
const FETCH_COST: f64 = 4.0;
/// Cost of an entry that holds the document. A little more than that of a record, so that the collection's own order is
/// preferred where both would do.
const CLUSTERING_COST: f64 = 1.1;
/// Cost of keeping a row in a sort, in index keys read.
const SORT_COST: f64 = 4.0;
/// With a limit, and a filter behind the scan, so many rows are thought to be read for one that is kept.
const ROWS_PER_HIT: f64 = 10.0;

pub fn plan(view: &dyn View, collection: &Collection, query: &Query) -> Result<Plans> {
    let planner = Planner { view, collection, query };
    if query.min.is_some() || query.max.is_some() {
        return planner.min_max();
    }
    match &query.hint {
        Some(ChosenIndex::Natural(direction)) => Ok(Plans::only(planner.collection_scan(*direction))),
        Some(hint) => planner.hinted(hint),
        None => planner.free(),
    }
}

struct Planner<'p> {
    view: &'p dyn View,
    collection: &'p Collection,
    query: &'p Query,
}

/// One index that could answer the query.
struct Candidate {
    shape: IndexShape,
    bounds: IndexBounds,
    /// It gives the order that is asked for in this direction.
    order: Option<Direction>,
}

impl Planner<'_> {
    fn free(&self) -> Result<Plans> {
        let root = self.query.filter.root();
        if matches!(root, Node::AlwaysFalse) {
            return Ok(Plans::only(Solution::unsorted(Access::Nothing, None)));
        }
        if let Some((at, id)) = id_equality(root) {
            return Ok(Plans::only(self.record(at, id)));
        }
        let predicates = predicates(root);
        if predicates.is_empty() && self.query.sort.is_none() && !matches!(root, Node::Or(_) | Node::And(_)) {
            return Ok(Plans::only(self.collection_scan(Direction::Forward)));
        }
        let candidates: Vec<Candidate> = self
            .candidates(&predicates)
            .filter(|candidate| self.is_complete(candidate))
            .filter(|candidate| candidate.bounds.narrows() || (self.query.sort.is_some() && candidate.order.is_some()))
            .collect();
        let narrow = candidates.iter().any(|candidate| candidate.bounds.narrows());
        if !narrow && let Some(or) = self.or(root)? {
            return Ok(Plans { winner: or, rejected: self.solutions(candidates) });
        }
        if candidates.is_empty() {
            return Ok(Plans::only(self.collection_scan(Direction::Forward)));
        }
        let mut solutions = self.solutions(self.by_cost(candidates)?);
        let winner = solutions.remove(0);
        Ok(Plans { winner, rejected: solutions })
    }

    /// Every index, whether it can answer the query or not.
    fn candidates(&self, predicates: &[Predicate]) -> impl Iterator<Item = Candidate> {
        let fixed = IndexShape::of(self.collection).into_iter().map(|shape| self.candidate(shape, predicates));
        let wildcards = wildcard::candidates(self.collection, predicates).into_iter();
        fixed.chain(wildcards.map(|(shape, bounds)| self.with_bounds(shape, bounds)))
    }

    fn candidate(&self, shape: IndexShape, predicates: &[Predicate]) -> Candidate {
        let bounds = IndexBounds::of(&shape, predicates);
        self.with_bounds(shape, bounds)
    }

    fn with_bounds(&self, shape: IndexShape, bounds: IndexBounds) -> Candidate {
        let sort = self.query.sort.as_ref().map_or(&[][..], |sort| sort.parts());
        let order = sort_order::direction(&shape, &bounds, sort);
        Candidate { shape, bounds, order }
    }

    /// No document that matches is missing in the index.
    fn is_complete(&self, candidate: &Candidate) -> bool {
        candidate.bounds.complete && candidate.shape.holds_all_of(&self.query.filter)
    }

    fn solutions(&self, candidates: Vec<Candidate>) -> Vec<Solution> {
        candidates.into_iter().map(|candidate| self.solution(candidate)).collect()
    }

    fn solution(&self, candidate: Candidate) -> Solution {
        let residual = residual(&self.query.filter, &candidate.bounds.settled);
        let sorts = self.query.sort.is_some() && candidate.order.is_none();
        let covered = if residual.is_none() && !sorts { self.covered(&candidate.shape) } else { None };
        let direction = candidate.order.unwrap_or_default();
        let access = index_access(candidate.shape, candidate.bounds, direction);
        Solution { access, residual, sorts, covered }
    }

    /// The projection's fields as components of the index, when it holds them all.
    fn covered(&self, shape: &IndexShape) -> Option<Vec<(String, usize)>> {
        let shown = self.query.projection.as_ref()?.projection.covered_by()?;
        if shape.is_multikey() || shape.source == IndexSource::Records || shown.is_empty() || self.query.show_record_id
        {
            return None;
        }
        let plain = shown.iter().all(|path| path.components().len() == 1);
        let held =
            shown.iter().all(|path| shape.parts.iter().any(|part| part.is_plain() && part.path == path.as_str()));
        let is_shown = |part: &str| shown.iter().any(|path| path.as_str() == part);
        let fields = shape.parts.iter().enumerate().filter(|(_, part)| is_shown(&part.path));
        (plain && held).then(|| fields.map(|(at, part)| (part.path.clone(), at)).collect())
    }

    fn collection_scan(&self, direction: Direction) -> Solution {
        let filter = (!self.query.filter.matches_everything()).then(|| self.query.filter.clone());
        Solution { sorts: self.query.sort.is_some(), ..Solution::unsorted(Access::Collection(direction), filter) }
    }

    fn record(&self, conjunct: usize, id: &Value) -> Solution {
        let access = Access::Record { id_key: arbor_store::id_key(id.as_ref()) };
        Solution::unsorted(access, residual(&self.query.filter, &[conjunct]))
    }

    // ---- cost

    /// Cheapest first.
    fn by_cost(&self, candidates: Vec<Candidate>) -> Result<Vec<Candidate>> {
        if candidates.len() < 2 {
            return Ok(candidates);
        }
        let mut priced = Vec::with_capacity(candidates.len());
        for candidate in candidates {
            priced.push((self.cost(&candidate)?, candidate));
        }
        priced.sort_by(|(a, left), (b, right)| {
            a.total_cmp(b).then_with(|| right.bounds.points().cmp(&left.bounds.points()))
        });
        Ok(priced.into_iter().map(|(_, candidate)| candidate).collect())
    }

    fn cost(&self, candidate: &Candidate) -> Result<f64> {
        let keys = self.keys(candidate)?;
        let settled = candidate.bounds.settled.len() == conjuncts(self.query.filter.root()).len();
        let sorts = self.query.sort.is_some() && candidate.order.is_none();
        let covered = settled && !sorts && self.covered(&candidate.shape).is_some();
        let row = match &candidate.shape {
            _ if covered => 1.0,
            shape if shape.source == IndexSource::Records => 1.0,
            shape if shape.clustering => CLUSTERING_COST,
            _ => 1.0 + FETCH_COST,
        };
        let read = match self.query.sort_limit() {
            Some(limit) if !sorts => keys.min(limit as f64 * if settled { 1.0 } else { ROWS_PER_HIT }),
            _ => keys,
        };
        Ok(read * (row + if sorts { SORT_COST } else { 0.0 }))
    }

    /// Index keys inside the bounds, about.
    fn keys(&self, candidate: &Candidate) -> Result<f64> {
        let (shape, bounds) = (&candidate.shape, &candidate.bounds);
        if shape.unique && bounds.points() == shape.parts.len() {
            return Ok(1.0);
        }
        let tree = match shape.source {
            IndexSource::Records | IndexSource::Natural => self.collection.tree,
            IndexSource::Secondary(at) => match self.collection.indexes.get(at) {
                Some(index) => index.tree,
                None => return Ok(f64::MAX),
            },
        };
        let mut keys = 1.0;
        for span in bounds.keys(shape).hulls(ESTIMATES_MAX) {
            keys += self.view.estimate(tree, &span.low, span.high.as_deref())?.keys as f64;
        }
        // components behind the first range are checked key by key
        let behind = bounds.intervals.iter().skip(bounds.points() + 1).filter(|all| !all.is_full()).count();
        Ok(keys * 0.7f64.powi(behind as i32))
    }

    // ---- $or

    /// A scan per branch, when each branch can use an index.
    fn or(&self, root: &Node) -> Result<Option<Solution>> {
        let all = conjuncts(root);
        for (at, node) in all.iter().enumerate() {
            let Node::Or(branches) = node else { continue };
            let others: Vec<Node> = all.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, n)| n.clone()).collect();
            let branches = branches.iter().map(|branch| self.branch(branch, &others));
            if let Some(branches) = branches.collect::<Result<Option<Vec<Branch>>>>()? {
                let sorts = self.query.sort.is_some();
                return Ok(Some(Solution { sorts, ..Solution::unsorted(Access::Or(branches), None) }));
            }
        }
        Ok(None)
    }

    fn branch(&self, branch: &Node, others: &[Node]) -> Result<Option<Branch>> {
        let mut nodes = conjuncts(branch).to_vec();
        nodes.extend_from_slice(others);
        let filter = Filter::from_root(Node::And(nodes));
        let mut query = Query::new(filter);
        query.limit = self.query.limit.filter(|_| self.query.sort.is_none());
        let planner = Planner { query: &query, ..*self };
        let predicates = predicates(query.filter.root());
        let candidates: Vec<Candidate> = planner
            .candidates(&predicates)
            .filter(|candidate| candidate.bounds.narrows() && planner.is_complete(candidate))
            .collect();
        let best = planner.by_cost(candidates)?.into_iter().next().map(|candidate| planner.solution(candidate));
        Ok(best.and_then(|solution| match solution.access {
            Access::Index(access) => Some(Branch { access, residual: solution.residual }),
            _ => None,
        }))
    }

    // ---- hints

    fn hinted(&self, hint: &ChosenIndex) -> Result<Plans> {
        if let Some(name) = self.hinted_wildcard(hint) {
            return self.wildcard(name);
        }
        let shape = self.hinted_shape(hint)?;
        if let (IndexSource::Records, Some((at, id))) = (shape.source, id_equality(self.query.filter.root())) {
            return Ok(Plans::only(self.record(at, id)));
        }
        let candidate = self.candidate(shape, &predicates(self.query.filter.root()));
        Ok(Plans::only(self.solution(candidate)))
    }

    fn hinted_wildcard(&self, hint: &ChosenIndex) -> Option<&str> {
        let fits = |index: &Index| match hint {
            ChosenIndex::Name(name) => index.name == *name,
            ChosenIndex::Pattern(pattern) => same_pattern(pattern, &index.key_document()),
            ChosenIndex::HiddenToo(_) | ChosenIndex::Natural(_) => false,
        };
        let mut wildcards =
            self.collection.indexes.iter().filter(|index| index.generator.wildcard().is_some() && !index.hidden);
        wildcards.find(|index| fits(index)).map(|index| index.name.as_str())
    }

    /// The best way to use this wildcard index.
    fn wildcard(&self, name: &str) -> Result<Plans> {
        let ways = wildcard::candidates(self.collection, &predicates(self.query.filter.root())).into_iter();
        let ways = ways.filter(|(shape, _)| shape.name == name);
        let candidates = ways.map(|(shape, bounds)| self.with_bounds(shape, bounds)).collect();
        let mut solutions = self.solutions(self.by_cost(candidates)?);
        if solutions.is_empty() {
            return Err(Error::new(
                Code::NO_QUERY_EXECUTION_PLANS,
                "error processing query: planner returned error :: caused by :: No query solutions",
            ));
        }
        let winner = solutions.remove(0);
        Ok(Plans { winner, rejected: solutions })
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
        let span = hinted_range::span(&shape, self.query.min.as_ref(), self.query.max.as_ref())?;
        let filter = (!self.query.filter.matches_everything()).then(|| self.query.filter.clone());
        let bounds = IndexBounds::of(&shape, &[]);
        let candidate = self.candidate(shape, &[]);
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

fn index_access(shape: IndexShape, bounds: IndexBounds, direction: Direction) -> Access {
    let keys = bounds.keys(&shape);
    if keys.is_empty() {
        return Access::Nothing;
    }
    Access::Index(IndexAccess { range: ScanRange::Components(keys), intervals: bounds.intervals, shape, direction })
}

/// `{ _id: value }` among the conjuncts.
fn id_equality(root: &Node) -> Option<(usize, &Value)> {
    conjuncts(root).iter().enumerate().find_map(|(at, node)| match node {
        Node::Compare { path, op: Compare::Eq, value } if path.as_str() == "_id" => Some((at, value)),
        _ => None,
    })
}

/// The filter without the conjuncts that the bounds settle.
fn residual(filter: &Filter, settled: &[usize]) -> Option<Filter> {
    let rest = conjuncts(filter.root()).iter().enumerate().filter(|(at, _)| !settled.contains(at));
    let rest: Vec<Node> = rest.map(|(_, node)| node.clone()).collect();
    (!rest.is_empty()).then(|| Filter::from_root(Node::And(rest)))
}

/// Same fields in the same order; 1 and 1.0 are the same direction.
fn same_pattern(a: &DocBuf, b: &DocBuf) -> bool {
    let direction = |value: ValueRef<'_>| match value {
        ValueRef::Double(v) => i32::from(v < 0.0),
        ValueRef::Int64(v) => i32::from(v < 0),
        ValueRef::Int32(v) => i32::from(v < 0),
        ValueRef::String(_) => 2,
        _ => 0,
    };
    let fields = |doc: &DocBuf| -> Vec<(String, i32)> {
        doc.as_doc().iter().map(|(name, value)| (name.to_owned(), direction(value))).collect()
    };
    fields(a) == fields(b)
}
