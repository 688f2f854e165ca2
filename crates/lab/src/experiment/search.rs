//! Search for the highest rate at which p99, counted from when operations were due, stays below a bound.
//!
//! The first try is a closed loop: no rate above it can be held. Then the rates between the highest that kept the bound and the
//! lowest that did not are halved.

use crate::results::{Clock, StepRecord};

/// Tries with a rate, after the closed loop.
pub(super) const TRIES: u32 = 8;
/// The search ends when both sides are as close as this.
const CLOSE: f64 = 0.03;
/// First rate, as a part of the closed loop's: near the capacity queues grow whatever the server is.
const FIRST: f64 = 0.8;
/// A rate is held if no more than this part of a second's operations waits at the end.
const BACKLOG_MAX: f64 = 0.05;

/// The state of a search.
#[derive(Clone, Copy, Debug)]
pub(super) struct Search {
    bound_ms: f64,
    kept: Option<f64>,
    broken: f64,
    has_tried: bool,
}

impl Search {
    /// Begins with the rate of a closed loop.
    pub(super) fn below(bound_ms: f64, capacity: f64) -> Search {
        Search { bound_ms, kept: None, broken: capacity, has_tried: false }
    }

    /// Returns the rate to try next; `None`: the search is over.
    pub(super) fn next(&self) -> Option<f64> {
        let kept = self.kept.unwrap_or(0.0);
        let is_close = self.kept.is_some_and(|kept| self.broken - kept <= CLOSE * self.broken);
        if is_close || self.broken <= 1.0 {
            return None;
        }
        Some(if self.has_tried { f64::midpoint(kept, self.broken) } else { self.broken * FIRST })
    }

    /// Takes the result of a try; returns true if the bound was kept.
    pub(super) fn tried(&mut self, rate: f64, step: &StepRecord) -> bool {
        let kept = keeps(self.bound_ms, rate, step);
        self.has_tried = true;
        if kept {
            self.kept = Some(rate)
        } else {
            self.broken = rate
        }
        kept
    }

    /// Returns the highest rate that kept the bound.
    pub(super) fn best(&self) -> Option<f64> {
        self.kept
    }
}

fn keeps(bound_ms: f64, rate: f64, step: &StepRecord) -> bool {
    let row = step.latency(&step.unit, Clock::Response).or_else(|| step.latency(&step.unit, Clock::Service));
    let is_fast = row.is_some_and(|row| row.p99 / 1000.0 <= bound_ms);
    is_fast && step.metric("backlog").unwrap_or(0.0) <= (rate * BACKLOG_MAX).max(1.0) && !step.interrupted
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::results::LatencyRow;

    /// A server whose p99 grows towards its capacity of 1000.
    fn at(rate: f64) -> StepRecord {
        let p99 = 1000.0 / (1.0 - (rate / 1000.0).min(0.999));
        let row = LatencyRow { kind: "query".to_owned(), clock: Clock::Response, p99, ..LatencyRow::default() };
        StepRecord { unit: "query".to_owned(), latencies: vec![row], ..StepRecord::default() }
    }

    #[test]
    fn the_highest_rate_below_the_bound_is_found() {
        // p99 is 5 ms at 800, 2 ms at 500
        for (bound, expect) in [(5.0, 800.0), (2.0, 500.0)] {
            let (mut search, mut tries) = (Search::below(bound, 990.0), 0);
            while let Some(rate) = search.next().filter(|_| tries < TRIES) {
                search.tried(rate, &at(rate));
                tries += 1;
            }
            let best = search.best().unwrap();
            assert!(best <= expect && best > expect * 0.96, "{bound}: {best}");
        }
    }

    #[test]
    fn a_bound_that_no_rate_keeps_has_no_rate() {
        let mut search = Search::below(0.5, 990.0);
        let mut rates = Vec::new();
        while let Some(rate) = search.next().filter(|_| rates.len() < TRIES as usize) {
            assert!(!search.tried(rate, &at(rate)));
            rates.push(rate);
        }
        assert!(rates.is_sorted_by(|a, b| a > b) && search.best().is_none(), "{rates:?}");
    }

    #[test]
    fn a_rate_that_was_not_held_is_not_kept() {
        let waiting =
            |backlog: f64| StepRecord { metrics: BTreeMap::from([("backlog".to_owned(), backlog)]), ..at(100.0) };
        assert!(keeps(5.0, 100.0, &waiting(4.0)) && !keeps(5.0, 100.0, &waiting(40.0)));
    }
}
