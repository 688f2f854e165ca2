//! Keeps a long copy to idle processors, and to a small share of them when all are busy.
//!
//! Every [`WINDOW`] it reads how long the processors were idle. While a good part of them is, the share of the copy
//! doubles; once hardly any is, it falls to a quarter, down to its floor. Below the floor a switch would not end; the
//! floor is what running clients can lose. The share rises from the floor, since clients that wait for each other's
//! replies leave processors idle for moments and still lose what the copy takes.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Idle parts of all processors from which on the share rises, and below which it falls.
const MUCH_IDLE: f64 = 0.2;
const LITTLE_IDLE: f64 = 0.1;
/// The copy may take this share of all processors away from other work.
const FLOOR: f64 = 0.06;
const _: () = assert!(LITTLE_IDLE < MUCH_IDLE && 0.0 < FLOOR && FLOOR < LITTLE_IDLE);
const WINDOW: Duration = Duration::from_millis(250);
/// Longest sleep at once, so that an aborted switch ends soon.
const SLEEP_MAX: Duration = Duration::from_millis(100);

/// The throttle of one thread: it counts that thread's time on a processor.
pub(crate) struct Throttle {
    processors: f64,
    /// Processors that the thread may use at once, at most one.
    share: f64,
    floor: f64,
    window: Window,
    /// Begin of the current share, and the time that the thread had used by then.
    since: Instant,
    used_then: Duration,
}

struct Window {
    began: Instant,
    used: Duration,
    idle: Duration,
}

impl Throttle {
    pub(crate) fn new() -> Throttle {
        let processors = std::thread::available_parallelism().map_or(1.0, |number| number.get() as f64);
        let floor = (processors * FLOOR).min(1.0);
        let window = Window { began: Instant::now(), used: used(), idle: idle() };
        let (since, used_then) = (window.began, window.used);
        Throttle { processors, share: floor, floor, window, since, used_then }
    }

    /// Raises the floor, for a copy that does not gain on the writers; at most to one processor.
    pub(crate) fn press_on(&mut self) {
        self.floor = (self.floor * 1.5).min(1.0);
        self.share = self.share.max(self.floor);
    }

    /// Sleeps until the thread has used no more than its share. To be called often.
    pub(crate) fn pause(&mut self) {
        if self.window.began.elapsed() >= WINDOW {
            self.measure();
        }
        debug_assert!(self.floor <= self.share && self.share <= 1.0, "{} of at least {}", self.share, self.floor);
        let used = used().saturating_sub(self.used_then);
        let due = used.div_f64(self.share.max(0.01));
        let ahead = due.saturating_sub(self.since.elapsed());
        if ahead > Duration::from_millis(2) {
            std::thread::sleep(ahead.min(SLEEP_MAX));
        }
    }

    fn measure(&mut self) {
        let now = Window { began: Instant::now(), used: used(), idle: idle() };
        let elapsed = (now.began - self.window.began).as_secs_f64();
        let idle = now.idle.saturating_sub(self.window.idle).as_secs_f64() / elapsed / self.processors;
        if idle >= MUCH_IDLE {
            self.share *= 2.0;
        } else if idle < LITTLE_IDLE {
            self.share /= 4.0;
        }
        self.share = self.share.clamp(self.floor, 1.0);
        // What was used or saved before counts no longer, or a busy second would be paid for in an idle one.
        (self.since, self.used_then) = (now.began, now.used);
        self.window = now;
    }
}

/// Time of this thread on a processor.
fn used() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec.max(0) as u32)
}

/// Time that all processors together were idle since the system started, or waited for a disk. Zero where the system does
/// not say: then the copy keeps to its floor.
fn idle() -> Duration {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let first = text.lines().next().unwrap_or_default();
    let ticks: u64 = first.split_whitespace().skip(4).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    // USER_HZ is 100 wherever Linux runs.
    Duration::from_millis(ticks * 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn throttle(share: f64) -> Throttle {
        let window = Window { began: Instant::now(), used: used(), idle: idle() };
        Throttle { processors: 2.0, share, floor: 0.1, window, since: Instant::now(), used_then: used() }
    }

    /// Uses a processor for about that long.
    fn work(time: Duration) {
        let until = used() + time;
        while used() < until {
            std::hint::black_box(0);
        }
    }

    #[test]
    fn the_thread_sleeps_until_it_has_used_no_more_than_its_share() {
        let mut throttle = throttle(0.25);
        let (began, before) = (Instant::now(), used());
        for _ in 0..4 {
            work(Duration::from_millis(5));
            throttle.pause();
        }
        let share = (used() - before).as_secs_f64() / began.elapsed().as_secs_f64();
        assert!(share < 0.4, "{share}");
    }

    #[test]
    fn the_share_rises_while_processors_are_idle_and_falls_to_the_floor() {
        let after = |share: f64, idle_then: Duration| {
            let mut throttle = throttle(share);
            throttle.window.began -= Duration::from_secs(1);
            throttle.window.idle = idle_then;
            throttle.measure();
            throttle.share
        };
        let (none, both) = (idle() + Duration::from_secs(60), idle().saturating_sub(Duration::from_secs(2)));
        assert_eq!((after(0.2, both), after(0.8, both)), (0.4, 1.0));
        assert_eq!((after(0.8, none), after(0.2, none)), (0.2, 0.1));
        let mut pressed = throttle(0.1);
        (0..9).for_each(|_| pressed.press_on());
        assert_eq!(pressed.share, 1.0);
    }
}
