//! The lines of news of a run, kept for pages that open later.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Above this many interval lines every second one of the older half is dropped: a run of days stays small.
const INTERVALS_MAX: usize = 20_000;

#[derive(Debug, Default)]
pub(super) struct Hub {
    lines: Mutex<Lines>,
    grown: Condvar,
}

#[derive(Debug, Default)]
struct Lines {
    closed: bool,
    /// Numbered upwards from 1.
    all: Vec<Line>,
    intervals: usize,
    last: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Line {
    pub number: u64,
    pub text: Arc<str>,
    is_interval: bool,
}

impl Hub {
    pub(super) fn add(&self, text: String, is_interval: bool) {
        let mut lines = self.lines.lock();
        lines.last += 1;
        let number = lines.last;
        lines.all.push(Line { number, text: text.into(), is_interval });
        lines.intervals += usize::from(is_interval);
        if lines.intervals > INTERVALS_MAX {
            lines.thin();
        }
        drop(lines);
        self.grown.notify_all();
    }

    /// Returns the lines after `seen`, waiting up to `wait` for one; empty after that time. `None` when no more will come.
    pub(super) fn after(&self, seen: u64, wait: Duration) -> Option<Vec<Line>> {
        let mut lines = self.lines.lock();
        self.grown.wait_while_for(&mut lines, |lines| lines.last <= seen && !lines.closed, wait);
        let from = lines.all.partition_point(|line| line.number <= seen);
        let lines_after = lines.all.get(from..).unwrap_or_default();
        (!lines_after.is_empty() || !lines.closed).then(|| lines_after.to_vec())
    }

    /// No more lines will come.
    pub(super) fn close(&self) {
        self.lines.lock().closed = true;
        self.grown.notify_all();
    }
}

impl Lines {
    fn thin(&mut self) {
        let (half, mut nth) = (self.all.len() / 2, 0_usize);
        let mut place = 0_usize;
        self.all.retain(|line| {
            place += 1;
            nth += usize::from(line.is_interval);
            place > half || !line.is_interval || nth % 2 == 0
        });
        self.intervals = self.all.iter().filter(|line| line.is_interval).count();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(hub: &Hub, seen: u64) -> Vec<u64> {
        hub.after(seen, Duration::ZERO).unwrap_or_default().iter().map(|line| line.number).collect()
    }

    #[test]
    fn a_page_gets_what_it_has_not_seen() {
        let hub = Hub::default();
        assert!(numbers(&hub, 0).is_empty());
        (0..3).for_each(|n| hub.add(n.to_string(), false));
        assert_eq!((numbers(&hub, 0), numbers(&hub, 2)), (vec![1, 2, 3], vec![3]));
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| hub.after(3, Duration::from_secs(60)).unwrap().len());
            hub.add("late".to_owned(), false);
            assert_eq!(waiter.join().unwrap(), 1);
        });
        hub.close();
        assert_eq!(numbers(&hub, 3), [4]);
        assert!(hub.after(4, Duration::from_secs(60)).is_none());
    }

    #[test]
    fn long_runs_lose_old_intervals_but_no_event() {
        let hub = Hub::default();
        hub.add("event".to_owned(), false);
        (0..=INTERVALS_MAX).for_each(|n| hub.add(n.to_string(), true));
        let lines = hub.after(0, Duration::ZERO).unwrap();
        assert_eq!((lines[0].text.as_ref(), lines.len()), ("event", INTERVALS_MAX * 3 / 4 + 2));
        assert_eq!(lines.last().unwrap().text.as_ref(), INTERVALS_MAX.to_string());
        assert!(lines.windows(2).all(|pair| pair[0].number < pair[1].number));
    }
}
