//! Estimates of how much of a run is done and how long the rest takes.
//!
//! The steps' lengths are planned; the time between them (loads, warm-ups, starts) is not. Systems that have not begun
//! are taken to need as much of that as those before them.

use std::time::{Duration, Instant};

use crate::results::{Event, Phase, StepRecord};
use crate::run::{Interval, Watch};

#[derive(Clone, Debug)]
pub struct Estimate {
    began: Instant,
    /// Number of systems in the run.
    systems_planned: usize,
    /// Time of each step before its measured part.
    warm: Duration,
    /// Time of the steps of all systems, with their warm-ups.
    planned: Option<Duration>,
    /// Time of completed steps.
    finished: Duration,
    /// Time of the current step so far.
    running: Duration,
    /// Systems that have begun.
    systems: Vec<String>,
}

impl Watch for Estimate {
    fn planned(&mut self, steps: Duration) {
        self.planned = Some(steps);
    }

    fn interval(&mut self, interval: &Interval) {
        self.at(&interval.system);
        if interval.phase == Phase::Run {
            self.running = self.warm + interval.elapsed;
        }
    }

    fn event(&mut self, event: &Event) {
        self.at(&event.system);
    }

    fn step(&mut self, system: &str, step: &StepRecord) {
        self.at(system);
        if step.phase == Phase::Run {
            self.finished(Duration::from_secs_f64((step.end_s - step.begin_s).max(0.0)));
        }
    }
}

impl Estimate {
    pub fn new(systems: usize, warm: Duration) -> Estimate {
        let (finished, running) = (Duration::ZERO, Duration::ZERO);
        let began = Instant::now();
        Estimate { began, systems_planned: systems, warm, planned: None, finished, running, systems: Vec::new() }
    }

    fn finished(&mut self, measured: Duration) {
        self.finished += self.warm + measured;
        self.running = Duration::ZERO;
    }

    /// A system is at work; the run itself has no name.
    fn at(&mut self, system: &str) {
        if !system.is_empty() && !self.systems.iter().any(|known| known == system) {
            self.systems.push(system.to_owned());
        }
    }

    fn measured(&self) -> Duration {
        self.finished + self.running
    }

    /// The part of the planned steps that is over, 0 to 1.
    pub fn done(&self) -> Option<f64> {
        let steps = self.planned.filter(|steps| !steps.is_zero())?;
        Some((self.measured().as_secs_f64() / steps.as_secs_f64()).min(1.0))
    }

    pub fn left(&self) -> Option<Duration> {
        self.left_at(self.began.elapsed())
    }

    fn left_at(&self, elapsed: Duration) -> Option<Duration> {
        let (steps, begun) = (self.planned?, self.systems.len().max(1));
        let between = elapsed.saturating_sub(self.measured()) / begun as u32;
        Some(steps.saturating_sub(self.measured()) + between * self.systems_planned.saturating_sub(begun) as u32)
    }
}

impl Estimate {
    /// `[######--------------]  30 %, 2 min 10 s left`; empty while nothing is planned.
    pub fn bar(&self) -> String {
        self.bar_at(self.began.elapsed())
    }

    fn bar_at(&self, elapsed: Duration) -> String {
        const CELLS: usize = 20;
        let Some((done, left)) = self.done().zip(self.left_at(elapsed)) else { return String::new() };
        let full = (done * CELLS as f64) as usize;
        let bar = "#".repeat(full) + &"-".repeat(CELLS.saturating_sub(full));
        format!("[{bar}] {:3.0} %, {} left", (done * 100.0).floor(), in_words(left))
    }
}

/// `2 h 5 min`, `3 min 20 s`, `45 s`.
fn in_words(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn loads_of_systems_to_come_are_counted() {
        let mut estimate = Estimate::new(3, s(5));
        assert_eq!((estimate.done(), estimate.left()), (None, None));
        estimate.planned(s(300));
        estimate.at("ftree");
        // 40 s of load so far: two more loads, and all steps.
        assert_eq!(estimate.left_at(s(40)), Some(s(380)));
        assert_eq!(estimate.bar_at(s(40)), "[--------------------]   0 %, 6 min 20 s left");
        estimate.finished(s(55));
        estimate.running = s(15);
        estimate.at("ftree");
        assert_eq!((estimate.left_at(s(115)), estimate.done()), (Some(s(305)), Some(0.25)));
        assert_eq!(estimate.bar_at(s(115)), "[#####---------------]  25 %, 5 min 5 s left");
        estimate.at("lmdb");
        estimate.at("rocksdb");
        assert_eq!(estimate.left_at(s(200)), Some(s(225)));
        estimate.finished(s(600));
        assert_eq!((estimate.left_at(s(900)), estimate.done()), (Some(s(0)), Some(1.0)));
    }

    #[test]
    fn times_in_words() {
        for (seconds, text) in [(45, "45 s"), (200, "3 min 20 s"), (7500, "2 h 5 min")] {
            assert_eq!(in_words(s(seconds)), text);
        }
    }
}
