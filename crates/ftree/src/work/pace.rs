//! Throttling of writers.
//!
//! Debt is work that was accepted and is not done, as a part of what may wait. Below one half a writer is not slowed at
//! all; from there its pace goes down smoothly, is that of the background work at three quarters, and a quarter of it at full
//! debt. So debt settles where the writer brings as much as is done: with debt `d` of `D` bytes and a pace of `r`, `D d' = r (1 /
//! slowness(d) - 1)` has one fixed point, at three quarters, and goes there without swinging, within `D / 8 r` seconds, as long
//! as one job is small compared to `D`. Nothing is remembered but measured rates, so a delay never outlives its cause.

use std::time::Duration;

use parking_lot::Mutex;

/// No single sleep is longer.
pub const SLEEP_MAX: Duration = Duration::from_millis(50);
/// The step of waiting where no writer is let in.
pub const STEP: Duration = Duration::from_millis(5);
const _: () = assert!(STEP.as_millis() <= SLEEP_MAX.as_millis());

const RATE_MIN: f64 = 1e6;
const WINDOW: Duration = Duration::from_millis(100);
const MEMORY: Duration = Duration::from_secs(5);

/// Returns how long a writer of `bytes` sleeps while background work does `rate` bytes a second.
pub fn delay(debt: f64, bytes: u64, rate: f64) -> Duration {
    let seconds = bytes as f64 / rate.max(RATE_MIN) * slowness(debt);
    Duration::from_secs_f64(seconds.clamp(0.0, SLEEP_MAX.as_secs_f64()))
}

/// 0 up to half debt, 1 (the pace of the background work) at three quarters, 4 at full debt, 36 at twice that.
fn slowness(debt: f64) -> f64 {
    ((debt - 0.5).max(0.0) / 0.25).powi(2)
}

/// Bytes a second that some threads do together while all of them work, averaged over some seconds of work.
pub struct Rate {
    threads: u32,
    state: Mutex<State>,
}

struct State {
    average: f64,
    /// Length of the measurement, in seconds: the first measurements count as much as they are long.
    measured: f64,
    /// Below zero: work made more work.
    bytes: i64,
    /// Time of all threads that the bytes took.
    busy: Duration,
}

impl Rate {
    pub fn of(threads: usize) -> Rate {
        let state = State { average: 20e6, measured: 0.0, bytes: 0, busy: Duration::ZERO };
        Rate { threads: threads.max(1) as u32, state: Mutex::new(state) }
    }

    pub fn get(&self) -> f64 {
        self.state.lock().average
    }

    /// So much was done meanwhile by other work.
    pub fn add(&self, bytes: i64) {
        self.state.lock().bytes += bytes;
    }

    /// Counts bytes that a thread has done in this time.
    pub fn done(&self, bytes: i64, took: Duration) {
        let mut state = self.state.lock();
        (state.bytes, state.busy) = (state.bytes + bytes, state.busy + took);
        let took = state.busy / self.threads;
        if took < WINDOW {
            return;
        }
        let took = took.as_secs_f64();
        state.measured += took;
        let weight = (1.0 - (-took / MEMORY.as_secs_f64()).exp()).max(took / state.measured);
        let rate = state.bytes as f64 / took;
        debug_assert!((0.0..=1.0).contains(&weight), "a measurement of {took} s has the weight {weight}");
        state.average += weight * (rate - state.average);
        (state.bytes, state.busy) = (0, Duration::ZERO);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn writers_are_slowed_smoothly() {
        for (debt, bytes, rate, expected_us) in [
            (0.0, 1 << 20, 1e6, 0),
            (0.5, 1 << 20, 1e6, 0),
            (0.625, 1000, 10e6, 25),
            (0.75, 1000, 10e6, 100),
            (1.0, 1000, 10e6, 400),
            (2.0, 1000, 10e6, 3600),
            (1.0, 1000, 1.0, 4000),
            (1.0, 1 << 30, 10e6, 50_000),
        ] {
            let delay = delay(debt, bytes, rate).as_micros();
            assert!(delay.abs_diff(expected_us) <= 1, "{debt} {bytes} {rate}: {delay}");
        }
    }

    #[test]
    fn the_rate_is_that_of_all_threads_at_work() {
        for (threads, rate) in [(1, 10e6), (2, 20e6)] {
            let measured = Rate::of(threads);
            // jobs shorter than a measurement, whatever is between them
            (0..6000).for_each(|_| measured.done(100_000, Duration::from_millis(10)));
            assert!((measured.get() - rate).abs() < rate / 100.0, "{} of {threads} threads", measured.get());
        }
    }

    /// A writer in batches, concurrent with work of some pace, in virtual time.
    struct Play {
        rate: Rate,
        begin: Instant,
        now: Instant,
        /// End of the last job.
        done: Instant,
        debt: f64,
        longest: Duration,
        most: f64,
    }

    const BATCH: u64 = 16 << 10;
    /// Debt that may be.
    const FULL: f64 = 32e6;
    const JOB: f64 = 300e3;

    impl Play {
        fn new() -> Play {
            let now = Instant::now();
            let rate = Rate::of(1);
            Play { rate, begin: now, now, done: now, debt: 0.0, longest: Duration::ZERO, most: 0.0 }
        }

        /// Writes for `seconds` while work does `pace(seconds)` bytes a second, and returns the bytes of each half second.
        fn write(&mut self, seconds: f64, pace: impl Fn(f64) -> f64) -> Vec<f64> {
            let (mut written, mut begun) = (vec![0.0], 0.0);
            let (from, until) = (self.now, self.now + Duration::from_secs_f64(seconds));
            while self.now < until {
                let sleep = delay(self.debt / FULL, BATCH, self.rate.get());
                let took = sleep + Duration::from_micros(60);
                self.now += took;
                (self.longest, self.debt) = (self.longest.max(sleep), self.debt + BATCH as f64);
                self.most = self.most.max(self.debt);
                begun += pace((self.now - self.begin).as_secs_f64()) * took.as_secs_f64();
                while begun >= JOB && self.debt >= JOB {
                    (begun, self.debt) = (begun - JOB, self.debt - JOB);
                    self.rate.done(JOB as i64, self.now - self.done);
                    self.done = self.now;
                }
                begun = begun.min(JOB);
                let half = ((self.now - from).as_secs_f64() * 2.0) as usize;
                written.resize(written.len().max(half + 1), 0.0);
                written[half] += BATCH as f64;
            }
            written.truncate((seconds * 2.0) as usize);
            written
        }
    }

    #[test]
    fn a_writer_comes_to_the_pace_of_the_work_and_does_not_swing() {
        for pace in [5e6, 20e6, 70e6, 150e6] {
            let mut play = Play::new();
            let halves = play.write(40.0, |_| pace);
            for (at, half) in halves.iter().enumerate().skip(30) {
                let part = half * 2.0 / pace;
                assert!((0.85..1.15).contains(&part), "{part} of {pace} at {at}: {halves:?}");
            }
            assert!(play.most < FULL * 1.5 && play.longest <= SLEEP_MAX, "{pace}: {} {:?}", play.most, play.longest);
        }
    }

    #[test]
    fn work_that_stops_now_and_then_stops_no_writer() {
        let mut play = Play::new();
        // Every two seconds nothing is done for 300 ms.
        let halves = play.write(30.0, |second| if second % 2.0 > 1.7 { 0.0 } else { 60e6 });
        let mean = halves.iter().skip(10).sum::<f64>() / (halves.len() - 10) as f64;
        let slowest = halves.iter().skip(10).copied().fold(f64::INFINITY, f64::min);
        assert!(slowest > mean * 0.7, "{slowest} of {mean}");
        assert!(play.longest < Duration::from_millis(5) && play.most < FULL * 1.2, "{:?} {}", play.longest, play.most);
        // It stops for good: what waits stays bounded while calls sleep no longer than they may.
        play.write(8.0, |_| 0.0);
        assert!(play.longest <= SLEEP_MAX && play.most < FULL * 2.0, "{:?} {}", play.longest, play.most);
    }
}
