//! History of a service as clients see it: when each operation was acknowledged, and the time without any around an event. No I/O.

/// An operation that was acknowledged, in nanoseconds since the load began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Operation {
    pub begin: u64,
    pub end: u64,
}

/// All operations of all clients, in the order in which they were acknowledged.
#[derive(Clone, Debug, Default)]
pub(super) struct History(Vec<Operation>);

/// Seconds since the load began.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Gap {
    pub begin: f64,
    pub end: f64,
}

impl Gap {
    pub(super) fn millis(self) -> f64 {
        (self.end - self.begin) * 1e3
    }
}

const SECOND: f64 = 1e9;

impl History {
    pub(super) fn of(each: impl IntoIterator<Item = Vec<Operation>>) -> History {
        let mut all: Vec<Operation> = each.into_iter().flatten().collect();
        all.sort_unstable_by_key(|operation| operation.end);
        History(all)
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the longest time between two acknowledgements of which the later one came in the given seconds: an outage that begins at an event
    /// begins with the last acknowledgement before it.
    pub(super) fn longest_gap(&self, from: f64, to: f64) -> Option<Gap> {
        let seconds = |operation: &Operation| operation.end as f64 / SECOND;
        let pairs = self.0.windows(2).filter_map(|pair| match pair {
            [before, after] => Some(Gap { begin: seconds(before), end: seconds(after) }),
            _ => None,
        });
        let ended = pairs.filter(|gap| gap.end > from && gap.end <= to);
        ended.max_by(|a, b| a.millis().total_cmp(&b.millis()))
    }

    /// Returns the milliseconds of the longest operation that was acknowledged in the given seconds.
    pub(super) fn longest_operation(&self, from: f64, to: f64) -> Option<f64> {
        let ended = self.between(from, to);
        ended.map(|operation| (operation.end - operation.begin) as f64 / 1e6).max_by(f64::total_cmp)
    }

    /// Returns the operations per second that were acknowledged in the given seconds.
    pub(super) fn rate(&self, from: f64, to: f64) -> f64 {
        self.between(from, to).count() as f64 / (to - from)
    }

    fn between(&self, from: f64, to: f64) -> impl Iterator<Item = &Operation> {
        let seconds = |operation: &&Operation| operation.end as f64 / SECOND;
        self.0.iter().filter(move |operation| seconds(operation) > from && seconds(operation) <= to)
    }

    /// Returns how many operations were acknowledged in each slice of time that is complete, with the begin of each, in seconds.
    pub(super) fn slices(&self, seconds: f64) -> Vec<(f64, u64)> {
        let last = self.0.last().map_or(0.0, |operation| operation.end as f64 / SECOND);
        let mut counts = vec![0u64; (last / seconds) as usize];
        for operation in &self.0 {
            if let Some(count) = counts.get_mut((operation.end as f64 / SECOND / seconds) as usize) {
                *count += 1;
            }
        }
        counts.into_iter().enumerate().map(|(number, count)| (number as f64 * seconds, count)).collect()
    }
}

/// Median, 99th percentile and longest of some times, by the nearest rank; `None` of none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Times {
    pub median: f64,
    pub p99: f64,
    pub longest: f64,
}

impl Times {
    pub(super) fn of(values: impl IntoIterator<Item = f64>) -> Option<Times> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_unstable_by(f64::total_cmp);
        let longest = *values.last()?;
        let at = |quantile: f64| {
            let rank = (quantile * values.len() as f64).ceil() as usize;
            values.get(rank.saturating_sub(1)).copied().unwrap_or(longest)
        };
        Some(Times { median: at(0.5), p99: at(0.99), longest })
    }
}

/// Returns the number of the value that is the median, by the nearest rank.
pub(super) fn median_of(values: &[f64]) -> Option<usize> {
    let median = Times::of(values.iter().copied())?.median;
    values.iter().position(|value| *value == median)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(begin_ms: u64, end_ms: u64) -> Operation {
        Operation { begin: begin_ms * 1_000_000, end: end_ms * 1_000_000 }
    }

    fn history() -> History {
        // two clients, of which the second waits from 250 to 1400 ms
        History::of([
            vec![operation(0, 100), operation(100, 200), operation(200, 300), operation(300, 1350)],
            vec![operation(150, 250), operation(250, 1400), operation(1400, 1450)],
        ])
    }

    #[test]
    fn an_outage_lasts_from_the_last_acknowledgement_to_the_next() {
        let gap = history().longest_gap(0.31, 1.4).unwrap();
        assert!((gap.begin, gap.end) == (0.3, 1.35) && (gap.millis() - 1050.0).abs() < 1e-6, "{gap:?}");
        // an event in the middle of it sees all of it, one behind it what follows
        assert_eq!(history().longest_gap(1.0, 1.4), Some(gap));
        assert_eq!(history().longest_gap(1.35, 1.4).unwrap(), Gap { begin: 1.35, end: 1.4 });
        assert!(history().longest_gap(1.45, 9.0).is_none() && History::default().longest_gap(0.0, 1.0).is_none());
    }

    #[test]
    fn operations_and_rates_are_those_that_ended_in_the_time() {
        assert_eq!(history().longest_operation(0.3, 1.4), Some(1150.0));
        assert_eq!(history().longest_operation(0.0, 0.3), Some(100.0));
        assert_eq!(history().longest_operation(0.3, 0.4), None);
        assert_eq!(history().rate(0.0, 0.5), 8.0);
        assert_eq!(history().count(), 7);
    }

    #[test]
    fn slices_without_an_operation_are_there_and_the_last_one_is_complete() {
        let slices = history().slices(0.25);
        assert_eq!(slices, [(0.0, 2), (0.25, 2), (0.5, 0), (0.75, 0), (1.0, 0)]);
        assert_eq!(History::default().slices(0.1), []);
    }

    #[test]
    fn quantiles_by_the_nearest_rank() {
        assert_eq!(Times::of([]), None);
        let check = |values: &[f64], expect: (f64, f64, f64)| {
            let times = Times::of(values.iter().copied()).unwrap();
            assert_eq!((times.median, times.p99, times.longest), expect);
        };
        check(&[3.0], (3.0, 3.0, 3.0));
        check(&[4.0, 1.0, 3.0, 2.0], (2.0, 4.0, 4.0));
        let hundred: Vec<f64> = (1..=200).map(f64::from).collect();
        check(&hundred, (100.0, 198.0, 200.0));
        assert_eq!((median_of(&[9.0, 1.0, 5.0]), median_of(&[])), (Some(2), None));
    }
}
