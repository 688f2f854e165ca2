//! The pace of a copy, by what it costs the clients of a shard.
//!
//! A copy works for a slice of time, makes a pause, and so on. If the clients' reads and writes are slower by a part `s` in the slices than in
//! the pauses, it works for the share [`LOSS`]` / s` of the time only: clients lose about [`LOSS`].

use std::time::Duration;

use arbor_bson::Doc;

use crate::fields;

/// Work between two pauses.
pub(crate) const SLICE: Duration = Duration::from_millis(50);
/// Part of the clients' speed that a copy may take.
const LOSS: f64 = 0.03;
/// Least pause as a part of the work before it, as long as there are clients: it shows how fast they are without the work.
const PAUSE_MIN: f64 = 0.1;
/// A pause is at most this many times as long as the work before it: copies end.
const PAUSE_MAX: f64 = 19.0;
const PAUSE_LIMIT: Duration = Duration::from_secs(1);
/// Operations after which a mean has forgotten the ones before.
const MEMORY: f64 = 200.0;
/// Operations that must have been seen with and without the work.
const SEEN_MIN: f64 = 20.0;

/// Mean latency of the last operations.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    seen: f64,
    micros: f64,
}

impl Mean {
    fn add(&mut self, ops: f64, micros: f64) {
        if ops > 0.0 {
            self.seen = (self.seen + ops).min(MEMORY.max(ops));
            self.micros += (micros / ops - self.micros) * (ops / self.seen);
        }
    }
}

/// Operations of clients since the server began, and their time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sum {
    ops: i64,
    micros: i64,
}

impl Sum {
    /// Reads the report of a shard.
    pub(crate) fn of(reply: Doc<'_>) -> Sum {
        Sum { ops: fields::int(reply, "ops"), micros: fields::int(reply, "micros") }
    }
}

/// The clients of one shard.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    during: Mean,
    between: Mean,
    last: Option<Sum>,
}

impl Throttle {
    /// Takes the sums of before and after a slice of work; returns the pause to make after it.
    pub(crate) fn pause_after(&mut self, before: Sum, after: Sum, work: Duration) -> Duration {
        let add = |mean: &mut Mean, from: Sum, to: Sum| {
            // the counts of another primary are not comparable
            if to.ops >= from.ops && to.micros >= from.micros {
                mean.add((to.ops - from.ops) as f64, (to.micros - from.micros) as f64);
            }
        };
        if let Some(last) = self.last {
            add(&mut self.between, last, before);
        }
        add(&mut self.during, before, after);
        self.last = Some(after);
        if after.ops == before.ops {
            return Duration::ZERO;
        }
        let is_known = self.during.seen >= SEEN_MIN && self.between.seen >= SEEN_MIN && self.between.micros > 0.0;
        let slower = if is_known { self.during.micros / self.between.micros - 1.0 } else { 0.0 };
        work.mul_f64((slower / LOSS - 1.0).clamp(PAUSE_MIN, PAUSE_MAX)).min(PAUSE_LIMIT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORK: Duration = Duration::from_millis(50);

    fn pass(now: Sum, millis: i64, rate: i64, each: i64) -> Sum {
        Sum { ops: now.ops + millis * rate, micros: now.micros + millis * rate * each }
    }

    /// Runs a copy next to clients with `rate` operations in a ms, of which each takes `usual` microseconds, or `during` while the copy
    /// works; returns the share of the time in which it works, of the second half.
    fn share(rate: i64, usual: i64, during: i64) -> f64 {
        let (mut throttle, mut now) = (Throttle::default(), Sum { ops: 1000, micros: 70_000 });
        let (mut works, mut pauses) = (0.0, 0.0);
        for slice in 0..200 {
            let after = pass(now, WORK.as_millis() as i64, rate, during);
            let pause = throttle.pause_after(now, after, WORK);
            if slice >= 100 {
                works += WORK.as_secs_f64();
                pauses += pause.as_secs_f64();
            }
            now = pass(after, pause.as_millis() as i64, rate, usual);
        }
        works / (works + pauses)
    }

    #[test]
    fn clients_that_are_as_fast_as_before_do_not_slow_it_down() {
        let shortest = 1.0 / (1.0 + PAUSE_MIN);
        for during in [50, 100, 102] {
            assert!((share(5, 100, during) - shortest).abs() < 0.001, "{during}");
        }
        assert_eq!(share(0, 100, 1000), 1.0, "without clients it is as fast as it can");
    }

    #[test]
    fn clients_lose_little() {
        for (during, expected) in [(106, 0.5), (115, 0.2), (130, 0.1), (160, 0.05), (2000, 0.05)] {
            let share = share(5, 100, during);
            assert!((share - expected).abs() < 0.01, "{during}: {share}");
        }
    }

    #[test]
    fn it_is_fast_again_when_clients_are_slower_by_themselves() {
        let (mut throttle, mut now) = (Throttle::default(), Sum { ops: 0, micros: 0 });
        let mut slice = |throttle: &mut Throttle, during: i64, between: i64| {
            let after = pass(now, 10, 5, during);
            let pause = throttle.pause_after(now, after, WORK);
            now = pass(after, 10, 5, between);
            pause
        };
        let longest = WORK.mul_f64(PAUSE_MAX);
        for _ in 0..20 {
            assert!(slice(&mut throttle, 200, 100) <= longest);
        }
        assert_eq!(slice(&mut throttle, 200, 100), longest);
        for _ in 0..40 {
            assert!(slice(&mut throttle, 300, 300) <= longest);
        }
        let shortest = WORK.mul_f64(PAUSE_MIN);
        assert_eq!(slice(&mut throttle, 300, 300), shortest);
        // another primary counts from the beginning
        let begin = Sum { ops: 0, micros: 0 };
        assert_eq!(throttle.pause_after(begin, pass(begin, 1, 5, 300), WORK), shortest);
    }
}
