//! Keeps work in the background to idle processors, and to a small share of all when none is idle.
//!
//! Every [`WINDOW`] it reads how long the [processors](processors) that it may use were idle. While a good part of them is, the share of the work doubles; once less than
//! half of that is, it falls to a quarter, down to its floor. Without a floor the work would not end; the floor is what running clients can lose.
//! The share rises from the floor, since clients that wait for each other's replies leave processors idle for moments and still lose what
//! the work takes.
//!
//! - T1: over any time without idle processors the work uses its floor, and one step more: what a step has used beyond the share is a debt,
//!   which is not forgiven. What was not used is not saved.
//! - T2: a rest is finite, at most the debt divided by the floor: the work ends.

mod processors;

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use self::processors::Processors;

const WINDOW: Duration = Duration::from_millis(250);
/// The least floor, in processors.
const FLOOR_MIN: f64 = 0.005;

/// Work on one processor at a time, by whichever threads.
#[derive(Debug)]
pub struct Throttle {
    rule: Rule,
    processors: Processors,
    began: Instant,
}

impl Throttle {
    /// `floor`: the part of all processors that the work may take away from others. `idle`: the part that has to be idle for more.
    pub fn new(floor: f64, idle: f64) -> Throttle {
        let processors = Processors::of(Path::new("/"));
        Throttle { rule: Rule::new(processors.number(), floor, idle), processors, began: Instant::now() }
    }

    /// Raises the floor, for a copy that does not gain on the writers; at most to one processor.
    pub fn press_on(&mut self) {
        self.rule.press_on();
    }

    /// Takes note of processor time that the work has used since the last call. Returns for how long it has to rest. To be called often.
    pub fn rest(&mut self, used: Duration) -> Duration {
        self.rule.rest(self.began.elapsed(), used, |window| self.processors.idle(window))
    }
}

/// The throttle of the thread that makes it: the work is all that it does.
#[derive(Debug)]
pub struct ThreadThrottle {
    throttle: Throttle,
    used: Duration,
}

impl ThreadThrottle {
    /// See [`Throttle::new`].
    pub fn new(floor: f64, idle: f64) -> ThreadThrottle {
        ThreadThrottle { throttle: Throttle::new(floor, idle), used: thread_time() }
    }

    pub fn press_on(&mut self) {
        self.throttle.press_on();
    }

    /// Like [`Throttle::rest`].
    pub fn rest(&mut self) -> Duration {
        let used = thread_time();
        let since = used.saturating_sub(std::mem::replace(&mut self.used, used));
        self.throttle.rest(since)
    }
}

/// Returns the time of this thread on a processor.
pub fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec.max(0) as u32)
}

/// The rule, without a clock.
#[derive(Debug)]
struct Rule {
    processors: f64,
    /// Processors that the work may use, at most one.
    share: f64,
    floor: f64,
    /// Idle part of all processors from which on the share rises; it falls below half of that.
    much_idle: f64,
    /// Time of the last call.
    now: Duration,
    /// Processor time, in seconds, that was used beyond the share.
    debt: f64,
    /// Begin of the window.
    window: Duration,
}

impl Rule {
    fn new(processors: f64, floor: f64, much_idle: f64) -> Rule {
        assert!(0.0 < much_idle && much_idle <= 0.5, "work on one of two processors leaves half of them idle");
        let floor = (processors * floor).clamp(FLOOR_MIN, 1.0);
        Rule { processors, share: floor, floor, much_idle, now: Duration::ZERO, debt: 0.0, window: Duration::ZERO }
    }

    fn press_on(&mut self) {
        self.floor = (self.floor * 1.5).min(1.0);
        self.share = self.share.max(self.floor);
    }

    /// `idle` returns how many processors were idle in a window that ends now.
    fn rest(&mut self, now: Duration, used: Duration, idle: impl FnOnce(Duration) -> f64) -> Duration {
        let elapsed = now.saturating_sub(std::mem::replace(&mut self.now, now));
        self.debt = (self.debt + used.as_secs_f64() - elapsed.as_secs_f64() * self.share).max(0.0);
        let window = now.saturating_sub(self.window);
        if window >= WINDOW {
            self.window = now;
            self.measure(idle(window));
        }
        assert!(self.floor <= self.share && self.share <= 1.0, "{} of at least {}", self.share, self.floor);
        Duration::from_secs_f64(self.debt / self.share)
    }

    fn measure(&mut self, idle: f64) {
        let part = idle / self.processors;
        if part >= self.much_idle {
            self.share *= 2.0;
        } else if part < self.much_idle / 2.0 {
            self.share /= 4.0;
        }
        self.share = self.share.clamp(self.floor, 1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine in virtual time on which others use processors.
    struct Machine {
        rule: Rule,
        processors: f64,
        now: f64,
        idle: f64,
        /// The idle time that the rule knows of.
        seen: f64,
    }

    impl Machine {
        fn new(processors: f64, floor: f64) -> Machine {
            Machine { rule: Rule::new(processors, floor, 0.4), processors, now: 0.0, idle: 0.0, seen: 0.0 }
        }

        fn pass(&mut self, seconds: f64, busy: f64) {
            self.now += seconds;
            self.idle += seconds * (self.processors - busy).max(0.0);
        }

        /// Works in steps for some seconds while others keep `others` processors busy. Returns the processors that the work has used.
        fn work(&mut self, step: f64, others: f64, seconds: f64) -> f64 {
            let (begin, mut used) = (self.now, 0.0);
            while self.now < begin + seconds {
                // with others on all processors a step takes twice its time
                let slower = if others + 1.0 > self.processors { 2.0 } else { 1.0 };
                self.pass(step * slower, others + 1.0 / slower);
                used += step;
                let (idle, seen) = (self.idle, &mut self.seen);
                let read = |window: Duration| (idle - std::mem::replace(seen, idle)) / window.as_secs_f64();
                let rest = self.rule.rest(Duration::from_secs_f64(self.now), Duration::from_secs_f64(step), read);
                assert!(rest.as_secs_f64() <= 2.0 * step / self.rule.floor, "T2: {rest:?}");
                self.pass(rest.as_secs_f64(), others);
            }
            used / (self.now - begin)
        }
    }

    #[test]
    fn work_keeps_to_its_floor_while_no_processor_is_idle_however_large_its_steps_are() {
        for processors in [1.0, 2.0, 8.0] {
            for step in [0.001, 0.02, 0.3] {
                let used = Machine::new(processors, 0.02).work(step, processors, 120.0) / processors;
                assert!((0.01..=0.021).contains(&used), "{used} of {processors} in steps of {step}");
            }
        }
    }

    #[test]
    fn work_uses_what_is_idle_and_gives_it_back() {
        for step in [0.001, 0.02] {
            let mut machine = Machine::new(4.0, 0.02);
            machine.work(step, 0.5, 5.0);
            let used = machine.work(step, 0.5, 10.0);
            assert!(used > 0.95, "{used} while three processors are idle");
            machine.work(step, 4.0, 1.5);
            let used = machine.work(step, 4.0, 30.0);
            assert!(used < 0.085, "{used} once all are busy");
            machine.work(step, 1.0, 5.0);
            let used = machine.work(step, 1.0, 10.0);
            assert!(used > 0.95, "{used} when they are idle again");
        }
    }

    #[test]
    fn a_large_machine_has_a_floor_of_one_processor_and_a_copy_that_falls_behind_gets_it() {
        assert!(Machine::new(128.0, 0.02).work(0.01, 128.0, 10.0) > 0.45, "a step takes twice its time");
        let mut machine = Machine::new(2.0, 0.02);
        (0..12).for_each(|_| machine.rule.press_on());
        assert_eq!((machine.rule.floor, machine.rule.share), (1.0, 1.0));
    }

    #[test]
    fn the_time_of_a_thread_is_its_own() {
        let mut throttle = ThreadThrottle::new(0.02, 0.4);
        let until = thread_time() + Duration::from_millis(20);
        while thread_time() < until {
            std::hint::black_box(0);
        }
        assert!(throttle.rest() > Duration::ZERO, "20 ms are beyond any share for that time");
        assert!(std::thread::spawn(thread_time).join().unwrap() < until);
    }
}
