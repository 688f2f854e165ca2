//! Throttling of writers.
//!
//! Debt is work that was accepted and is not done, as a part of what may wait. Up to a quarter a writer is not slowed at all; from three
//! eighths on its pace is the background work's times three quarters of the reciprocal of the debt: twice as fast there, as fast at three
//! quarters, three quarters as fast at one. Beyond one it falls with the sixth power of the debt. So debt settles where the writer brings
//! as much as is done: with debt `d` of `D` bytes and a pace of `r`, `D d' = r (3 / 4 d - 1)` has one fixed point, at three quarters, and
//! goes there without swinging, within `3 D / 4 r` seconds.
//!
//! Background work does not come evenly: what moves between inner nodes makes debt that writing leaves then pays, up to a quarter of `D` in
//! half a second. The pace must not follow that, so it changes with the debt no more than this. It is an absolute pace, which counts the time
//! that the writer takes itself: a sleep for each byte would slow it most when others have the processors anyway. Nothing is remembered
//! but measured rates and the next [`SLEEP_MAX`], so a delay never outlives its cause.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// No single sleep is longer.
pub const SLEEP_MAX: Duration = Duration::from_millis(50);
/// The step of waiting where no writer is let in.
pub const STEP: Duration = Duration::from_millis(5);
const _: () = assert!(STEP.as_millis() <= SLEEP_MAX.as_millis());

/// Less is not slept: timers are not that exact. What it was for is slept for later.
const SLEEP_MIN: Duration = Duration::from_micros(200);
/// Time that a writer may catch up.
const CREDIT: Duration = Duration::from_millis(20);
/// Debt up to which a writer is not slowed.
pub const FREE: f64 = 0.25;
/// Debt from which on the law holds; between both it sets in.
const SLOWED: f64 = 0.375;
/// Debt at which a writer has the pace of the background work.
const BALANCED: f64 = 0.75;
const _: () = assert!(FREE < SLOWED && SLOWED < BALANCED && BALANCED < 1.0);

const RATE_MIN: f64 = 1e6;
const WINDOW: Duration = Duration::from_millis(100);
const MEMORY: Duration = Duration::from_secs(2);

/// Exponent of the additional fall of the pace at a debt above one: a rate that was measured too high by half stays below 1.1.
const BEYOND_POWER: i32 = 5;

/// Returns the bytes a second that a writer may bring at this debt while background work does `rate`. Infinite: as many as it can.
pub fn pace(debt: f64, rate: f64) -> f64 {
    let part = ((debt - FREE) / (SLOWED - FREE)).clamp(0.0, 1.0);
    let beyond = debt.max(1.0).powi(BEYOND_POWER);
    if part > 0.0 { rate.max(RATE_MIN) * BALANCED / debt / beyond / part } else { f64::INFINITY }
}

/// The time for which what was written is due, at the paces that it was written at.
#[derive(Default)]
pub struct Clock(Mutex<Option<Instant>>);

impl Clock {
    /// Counts bytes that were written and returns how long their writer sleeps.
    pub fn advance(&self, now: Instant, bytes: u64, pace: f64) -> Duration {
        debug_assert!(pace > 0.0, "a pace of {pace} bytes a second");
        let seconds = (bytes as f64 / pace).min(SLEEP_MAX.as_secs_f64());
        let earliest = now.checked_sub(CREDIT).unwrap_or(now);
        let mut due = self.0.lock();
        let next = due.map_or(earliest, |due| due.max(earliest)) + Duration::from_secs_f64(seconds);
        let next = next.min(now + SLEEP_MAX);
        *due = Some(next);
        let delay = next.saturating_duration_since(now);
        if delay >= SLEEP_MIN { delay } else { Duration::ZERO }
    }
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
    use super::*;

    #[test]
    fn writers_are_slowed_smoothly() {
        for (debt, rate, expected) in [
            (0.0, 1e7, f64::INFINITY),
            (0.25, 1e7, f64::INFINITY),
            (0.3125, 1e7, 4.8e7),
            (0.375, 1e7, 2e7),
            (0.75, 1e7, 1e7),
            (1.0, 1e7, 7.5e6),
            (2.0, 1e7, 1.171875e5),
            (1.0, -5.0, 7.5e5),
        ] {
            let pace = pace(debt, rate);
            assert!(pace == expected || (pace / expected - 1.0).abs() < 1e-9, "{debt} {rate}: {pace}");
        }
    }

    #[test]
    fn a_writer_sleeps_until_its_bytes_are_due() {
        let (clock, begin) = (Clock::default(), Instant::now() + Duration::from_secs(1));
        for (after_us, bytes, pace, expected_us) in [
            (0, 20_000, 1e6, 0),
            (0, 100, 1e6, 0),
            (0, 200, 1e6, 300),
            (300, 500, 1e6, 500),
            (300, 500, f64::INFINITY, 500),
            (5_000, 1_000, 1e6, 0),
            // what was not used for longer than that is lost
            (1_000_000, 21_000, 1e6, 1_000),
            (1_001_000, 1 << 30, 1e6, 50_000),
            (1_001_000, 1 << 30, 1e6, 50_000),
        ] {
            let delay = clock.advance(begin + Duration::from_micros(after_us), bytes, pace).as_micros();
            assert_eq!(delay, expected_us, "{bytes} bytes after {after_us} us");
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
        clock: Clock,
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
            Play {
                rate,
                clock: Clock::default(),
                begin: now,
                now,
                done: now,
                debt: 0.0,
                longest: Duration::ZERO,
                most: 0.0,
            }
        }

        /// Writes for `seconds` while `work(second)` bytes a second are done, and returns the bytes of each half second.
        fn write(&mut self, seconds: f64, work: impl Fn(f64) -> f64) -> Vec<f64> {
            let (mut written, mut begun) = (vec![0.0], 0.0);
            let (from, until) = (self.now, self.now + Duration::from_secs_f64(seconds));
            while self.now < until {
                let sleep = self.clock.advance(self.now, BATCH, pace(self.debt / FULL, self.rate.get()));
                let took = sleep + Duration::from_micros(60);
                self.now += took;
                (self.longest, self.debt) = (self.longest.max(sleep), self.debt + BATCH as f64);
                self.most = self.most.max(self.debt);
                begun += work((self.now - self.begin).as_secs_f64()) * took.as_secs_f64();
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
