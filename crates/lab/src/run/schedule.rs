//! One global schedule for a rate limit (spec/workloads.md 1.3).
//!
//! A token is the time at which an operation is due; workers take the next one and wait for it. A token is never lost:
//! when the server is slow, tokens are in the past and the time since then is part of the response time. So nothing
//! hides that the rate was not held (coordinated omission).

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::Ramp;
use crate::workload::Random;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Equal gaps.
    Constant,
    /// Exponential gaps.
    Poisson,
}

#[derive(Debug)]
pub struct Schedule {
    ramp: Ramp,
    arrival: Arrival,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    random: Random,
    start: Instant,
    /// Number of the next token.
    next: f64,
}

impl Schedule {
    pub fn new(ramp: Ramp, arrival: Arrival, seed: u64, start: Instant) -> Schedule {
        let state = State { random: Random::new(seed), start, next: 0.0 };
        Schedule { ramp, arrival, state: Mutex::new(state) }
    }

    /// Takes the next token.
    pub fn take(&self) -> Instant {
        let mut state = self.state.lock();
        let due = state.start + Duration::from_secs_f64(self.ramp.due_s(state.next));
        state.next += match self.arrival {
            Arrival::Constant => 1.0,
            Arrival::Poisson => -state.random.fraction().ln(),
        };
        due
    }

    /// Tokens that are due at `now` and not taken: the length of the queue.
    pub fn backlog(&self, now: Instant) -> f64 {
        let state = self.state.lock();
        let elapsed = now.saturating_duration_since(state.start).as_secs_f64();
        (self.ramp.count(elapsed) - state.next).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last_of(n: usize, arrival: Arrival) -> f64 {
        let start = Instant::now();
        let schedule = Schedule::new(Ramp::level(100.0), arrival, 1, start);
        let tokens: Vec<Instant> = (0..n).map(|_| schedule.take()).collect();
        assert!(tokens.is_sorted());
        tokens.last().unwrap().duration_since(start).as_secs_f64()
    }

    #[test]
    fn tokens_come_at_the_rate() {
        assert!((last_of(1001, Arrival::Constant) - 10.0).abs() < 1e-3);
        let poisson = last_of(100_001, Arrival::Poisson);
        assert!((980.0..1020.0).contains(&poisson), "{poisson}");
    }

    #[test]
    fn tokens_not_taken_pile_up() {
        let start = Instant::now();
        let schedule = Schedule::new(Ramp::level(100.0), Arrival::Constant, 1, start);
        schedule.take();
        let backlog = schedule.backlog(start + Duration::from_secs(2));
        assert!((backlog - 199.0).abs() < 0.5, "{backlog}");
        assert_eq!(schedule.backlog(start), 0.0);
    }
}
