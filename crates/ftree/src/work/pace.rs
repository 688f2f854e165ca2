//! How much a writer is slowed down.
//!
//! Debt is work that was accepted and is not done, as a part of what may wait. Below one half a writer is not slowed at
//! all; from there its pace goes down smoothly to that of the background work, and at full debt it waits in short steps.
//! Nothing is remembered but measured rates, so a delay never outlives its cause.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// No single sleep is longer.
pub const SLEEP_MAX: Duration = Duration::from_millis(50);
/// The step of waiting at full debt.
pub const STEP: Duration = Duration::from_millis(20);

const RATE_MIN: f64 = 1e6;
const WINDOW: Duration = Duration::from_millis(100);
const MEMORY: Duration = Duration::from_secs(5);

/// How long a writer of `bytes` sleeps while background work does `rate` bytes a second.
pub fn delay(debt: f64, bytes: u64, rate: f64) -> Duration {
    let seconds = bytes as f64 / rate.max(RATE_MIN) * slowness(debt);
    Duration::from_secs_f64(seconds.clamp(0.0, SLEEP_MAX.as_secs_f64()))
}

/// 0 up to half debt, 1 (the pace of the background work) at nine tenths, 4 at full debt.
fn slowness(debt: f64) -> f64 {
    match debt {
        debt if debt <= 0.5 => 0.0,
        debt if debt <= 0.9 => ((debt - 0.5) / 0.4).powi(2),
        debt => (1.0 + (debt - 0.9) * 30.0).min(4.0),
    }
}

/// Bytes a second, averaged over some seconds of work. Time without work does not count.
pub struct Rate {
    state: Mutex<State>,
}

struct State {
    average: f64,
    bytes: u64,
    since: Option<Instant>,
}

impl Default for Rate {
    fn default() -> Rate {
        Rate { state: Mutex::new(State { average: 50e6, bytes: 0, since: None }) }
    }
}

impl Rate {
    pub fn get(&self) -> f64 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).average
    }

    /// Work begins. Does nothing while it goes on.
    pub fn begin(&self, now: Instant) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).since.get_or_insert(now);
    }

    /// So much was done. `more`: work goes on.
    pub fn done(&self, bytes: u64, now: Instant, more: bool) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.bytes += bytes;
        let Some(since) = state.since else { return };
        let took = now.saturating_duration_since(since);
        if took >= WINDOW {
            let weight = 1.0 - (-took.as_secs_f64() / MEMORY.as_secs_f64()).exp();
            let rate = state.bytes as f64 / took.as_secs_f64();
            state.average += weight * (rate - state.average);
            (state.bytes, state.since) = (0, Some(now));
        }
        if !more {
            state.since = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_are_slowed_smoothly() {
        for (debt, bytes, rate, expected_us) in [
            (0.0, 1 << 20, 1e6, 0),
            (0.5, 1 << 20, 1e6, 0),
            (0.7, 1000, 10e6, 25),
            (0.9, 1000, 10e6, 100),
            (1.0, 1000, 10e6, 400),
            (7.0, 1000, 10e6, 400),
            (1.0, 1000, 1.0, 4000),
            (1.0, 1 << 30, 10e6, 50_000),
        ] {
            let delay = delay(debt, bytes, rate).as_micros();
            assert!(delay.abs_diff(expected_us) <= 1, "{debt} {bytes} {rate}: {delay}");
        }
    }

    #[test]
    fn idle_time_does_not_lower_the_rate() {
        let (rate, start) = (Rate::default(), Instant::now());
        let mut now = start;
        for _ in 0..600 {
            rate.begin(now);
            now += Duration::from_millis(100);
            rate.done(1_000_000, now, false);
            now += Duration::from_secs(3);
        }
        assert!((rate.get() - 10e6).abs() < 1e5, "{}", rate.get());
    }
}
