//! A trial of several candidate plans: each runs in slices for a bounded number of works, and the measurements
//! decide.
//!
//! T1: the winner continues where the trial left it. The rows that it has found already come first, so that none is lost or
//! comes twice. T2: the reads of a plan here count as read by the statement only if the plan wins.

use std::collections::VecDeque;

use arbor_bson::DocBuf;
use arbor_store::Collection;
use arbor_txn::View;

use super::access::Solution;
use super::build::{Slots, rows};
use super::cost::Measured;
use super::query::Query;
use crate::operator::{Detail, Examined, Operator, Resumed, Row, Run};
use crate::{Error, Interrupt, Result};

/// Works of one slice.
const SLICE_WORKS: u64 = 128;
/// Number of rows after which a plan has shown enough. COMPAT: MongoDB's internalQueryPlanEvaluationMaxResults.
const ROWS_MAX: usize = 101;
/// Size of these rows after which it has.
const BYTES_MAX: usize = 4 << 20;
/// Works of one plan in all. COMPAT: MongoDB's internalQueryPlanEvaluationWorks.
pub(super) const WORKS_MAX: u64 = 10_000;

/// One plan on trial.
pub(super) struct Contender {
    operator: Box<dyn Operator>,
    found: VecDeque<Row>,
    bytes: usize,
    pub works: u64,
    pub examined: Examined,
    ended: bool,
    failed: Option<Error>,
}

/// Input shared by all contenders.
pub(super) struct Trial<'t> {
    pub query: &'t Query,
    pub view: &'t dyn View,
    pub collection: &'t Collection,
    pub interrupt: &'t Interrupt,
}

impl Trial<'_> {
    /// Runs the first plan alone, up to `head_start` works. When that is not enough, all of them.
    pub(super) fn run(&self, solutions: &[&Solution], slots: &mut Slots, head_start: u64) -> Result<Vec<Contender>> {
        let mut contenders: Vec<Contender> =
            solutions.iter().map(|solution| Contender::new(solution, self.query, slots)).collect();
        let mut run = Run::new(self.view, Some(self.collection), self.interrupt, slots.count());
        if let Some(first) = contenders.first_mut() {
            while first.works < head_start && !first.is_through(self.query) {
                first.run_slice(self.query, &mut run)?;
            }
        }
        let through = |contender: &Contender| contender.is_through(self.query);
        while !contenders.iter().any(through) {
            // those with the fewest works run first
            let fewest = contenders.iter().filter(|one| one.failed.is_none()).map(|one| one.works).min();
            let Some(fewest) = fewest.filter(|fewest| *fewest < WORKS_MAX) else { break };
            for contender in
                contenders.iter_mut().filter(|one| one.works < fewest + SLICE_WORKS && one.failed.is_none())
            {
                contender.run_slice(self.query, &mut run)?;
            }
        }
        contenders.iter_mut().for_each(|contender| contender.operator.suspend(&mut run));
        // T2: what the winner read comes back with its rows
        run.examined = Examined::default();
        if contenders.iter().all(|contender| contender.failed.is_some())
            && let Some(error) = contenders.first_mut().and_then(|first| first.failed.take())
        {
            return Err(error);
        }
        Ok(contenders)
    }
}

impl Contender {
    fn new(solution: &Solution, query: &Query, slots: &mut Slots) -> Contender {
        Contender {
            operator: rows(solution, query, slots),
            found: VecDeque::new(),
            bytes: 0,
            works: 0,
            examined: Examined::default(),
            ended: false,
            failed: None,
        }
    }

    fn run_slice(&mut self, query: &Query, run: &mut Run<'_>) -> Result<()> {
        let before = run.examined;
        run.allow(SLICE_WORKS);
        while !self.is_through(query) {
            match self.operator.next(run) {
                Ok(Some(row)) => {
                    self.bytes += row.document.as_bytes().len();
                    self.found.push_back(row);
                }
                Ok(None) => self.ended = true,
                Err(Error::Paused) => break,
                Err(error) => {
                    run.interrupt.check()?;
                    // another plan may not reach the document on which this one fails
                    self.failed = Some(error);
                    break;
                }
            }
        }
        self.works += run.allowance_used(SLICE_WORKS).max(1);
        self.examined.keys += run.examined.keys - before.keys;
        self.examined.documents += run.examined.documents - before.documents;
        Ok(())
    }

    /// It has shown enough.
    fn is_through(&self, query: &Query) -> bool {
        let rows_max = query.sort_limit().map_or(ROWS_MAX, |limit| ROWS_MAX.min(limit.max(1) as usize));
        self.ended || self.found.len() >= rows_max || self.bytes >= BYTES_MAX
    }

    pub(super) fn measured(&self) -> Option<Measured> {
        let advanced = self.found.len() as u64;
        self.failed.is_none().then_some(Measured { works: self.works, advanced, ended: self.ended })
    }

    pub(super) fn explain(&self) -> DocBuf {
        self.operator.explain(Detail::Execution)
    }

    pub(super) fn plan(&self) -> DocBuf {
        self.operator.explain(Detail::Plan)
    }

    pub(super) fn returned(&self) -> u64 {
        self.found.len() as u64
    }

    /// The rows from the first one on.
    pub(super) fn resume(self) -> Box<dyn Operator> {
        Box::new(Resumed::new(self.operator, self.found, self.examined))
    }
}
