//! One measured step: a number of clients, for a time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::worker::Worker;
use super::{Arrival, Interrupt, Recorder, Schedule, Watch};
use crate::observe::{Sample, Usage, processors};
use crate::target::Target;
use crate::workload::{Kind, Place, Workload};
use crate::{Error, Result};

/// How long and how hard.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    pub warm: Duration,
    pub measured: Duration,
    pub interval: Duration,
    /// Units per second of all clients together; `None`: each client as fast as answers come (a closed loop).
    pub rate: Option<(f64, Arrival)>,
    pub seed: u64,
}

/// What one interval brought.
#[derive(Clone, Debug)]
pub struct Interval {
    pub phase: &'static str,
    pub clients: usize,
    /// Since the step's measured part began, at the interval's end.
    pub elapsed: Duration,
    /// Of the measured part as planned; zero when the end is not a time.
    pub planned: Duration,
    pub unit: Kind,
    pub recorder: Recorder,
    pub usage: Usage,
    /// Operations due and not begun, with a rate limit.
    pub backlog: Option<f64>,
}

/// What a step brought, all intervals together.
#[derive(Clone, Debug)]
pub struct Step {
    pub clients: usize,
    pub unit: Kind,
    pub recorder: Recorder,
    pub usage: Usage,
    pub backlog: Option<f64>,
    /// Ended early by Ctrl-C.
    pub interrupted: bool,
}

impl Step {
    /// Units per second.
    pub fn rate(&self) -> f64 {
        self.recorder.count(self.unit) as f64 / self.usage.seconds.max(1e-9)
    }

    /// `(us + sy) / Q * 1e6`, us and sy in percent of the host.
    pub fn cpu_per_unit(&self) -> f64 {
        (self.usage.user_percent + self.usage.system_percent) / self.rate() * 1e6
    }

    pub fn context_switches_per_unit(&self) -> f64 {
        self.usage.context_switches / self.recorder.count(self.unit) as f64
    }

    /// The generator's share of all processors.
    pub fn client_share(&self) -> f64 {
        self.usage.client_cpu_s / (self.usage.seconds.max(1e-9) * processors() as f64)
    }
}

/// Runs `workload` against `target` with `clients` threads, one connection each.
pub fn run_step(
    target: &dyn Target,
    workload: &dyn Workload,
    clients: usize,
    pace: &Pace,
    interrupt: &Interrupt,
    watch: &mut dyn Watch,
) -> Result<Step> {
    let place = |number| Place { number, of: workload.threads(clients) };
    let sessions = (0..place(0).of).map(|_| target.connect()).collect::<Result<Vec<_>>>()?;
    let slots: Vec<Mutex<Recorder>> = (0..place(0).of).map(|_| Mutex::default()).collect();
    let stop = AtomicBool::new(false);
    let schedule =
        pace.rate.map(|(rate, arrival)| Schedule::new(rate, arrival, pace.seed.wrapping_mul(31), Instant::now()));
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (number, session) in sessions.into_iter().enumerate() {
            let slot = slots.get(number).ok_or(Error::Panicked)?;
            let (schedule, stop) = (schedule.as_ref(), &stop);
            let worker = Worker { target, unit: workload.unit(), schedule, stop, interrupt, slot };
            let client = workload.client(place(number), pace.seed.wrapping_add(1_000_003 * (number as u64 + 1)));
            threads.push(scope.spawn(move || worker.run(client, session)));
        }
        let collector =
            Collector { target, unit: workload.unit(), clients, slots: &slots, schedule: schedule.as_ref() };
        let step = collector.collect(pace, interrupt, watch);
        stop.store(true, Ordering::Relaxed);
        for thread in threads {
            thread.join().map_err(|_| Error::Panicked)??;
        }
        step
    })
}

/// The side of a step that measures.
struct Collector<'a> {
    target: &'a dyn Target,
    unit: Kind,
    clients: usize,
    slots: &'a [Mutex<Recorder>],
    schedule: Option<&'a Schedule>,
}

impl Collector<'_> {
    fn collect(&self, pace: &Pace, interrupt: &Interrupt, watch: &mut dyn Watch) -> Result<Step> {
        let process = self.target.process();
        interrupt.sleep_until(Instant::now() + pace.warm);
        self.drain();
        let first = Sample::take(process)?;
        let (mut last, mut total) = (first, Recorder::default());
        while last.at() - first.at() < pace.measured && !interrupt.is_set() {
            let end = (last.at() + pace.interval).min(first.at() + pace.measured);
            interrupt.sleep_until(end);
            let (recorder, now) = (self.drain(), Sample::take(process)?);
            total.merge(&recorder);
            watch.interval(
                self.target.name(),
                &Interval {
                    phase: "run",
                    clients: self.clients,
                    elapsed: now.at() - first.at(),
                    planned: pace.measured,
                    unit: self.unit,
                    recorder,
                    usage: now.since(&last),
                    backlog: self.backlog(now.at()),
                },
            );
            last = now;
        }
        let (usage, backlog) = (last.since(&first), self.backlog(last.at()));
        let interrupted = interrupt.is_set();
        Ok(Step { clients: self.clients, unit: self.unit, recorder: total, usage, backlog, interrupted })
    }

    fn drain(&self) -> Recorder {
        let mut sum = Recorder::default();
        for slot in self.slots {
            let mut recorder = slot.lock().unwrap_or_else(PoisonError::into_inner);
            sum.merge(&recorder);
            recorder.reset();
        }
        sum
    }

    fn backlog(&self, now: Instant) -> Option<f64> {
        self.schedule.map(|schedule| schedule.backlog(now))
    }
}
