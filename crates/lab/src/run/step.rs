//! One measured step: a number of clients, for a time.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::clients::{Clients, Running};
use super::script::{self, Done};
use super::{Arrival, Context, Ramp, Recorder, Schedule, Script};
use crate::generator::{Generator, Task};
use crate::observe::{Observed, Sample, Usage, is_running, processors};
use crate::results::{EventKind, Phase};
use crate::target::process::signal;
use crate::target::{Driver, Statistics, Target};
use crate::workload::{Kind, Mode, Workload};
use crate::{Error, Result};

/// Times and rate of a step.
#[derive(Clone, Debug)]
pub struct Pace {
    pub warm: Duration,
    /// The warm-up continues until the rate is steady, up to this time.
    pub steady_within: Option<Duration>,
    pub measured: Duration,
    pub interval: Duration,
    /// Units per second of all clients together; `None`: each client as fast as replies arrive (a closed loop).
    pub rate: Option<(Ramp, Arrival)>,
    pub seed: u64,
    pub script: Script,
    /// The step ends with kill -9 of the server, while the clients are at work.
    pub kill_at_end: bool,
    /// Connections that a thread works on at a time. Above 1 only for workloads of single requests, without a rate.
    pub connections_per_thread: usize,
    /// Other hosts that run a part of the clients each.
    pub elsewhere: Option<Elsewhere>,
}

/// Hosts that run clients, and what they have to know of the step.
#[derive(Clone, Debug)]
pub struct Elsewhere {
    /// Addresses of generators.
    pub generators: Vec<String>,
    /// `[NAME=]URI` of the target, as those hosts reach it.
    pub target: String,
    pub driver: Driver,
    /// Name of the workload.
    pub workload: String,
    pub mode: Mode,
}

impl Elsewhere {
    /// Starts the clients of all shares but the first. Hosts without a client are left out.
    fn start(
        &self,
        workload: &dyn Workload,
        shares: &[Range<usize>],
        of: usize,
        pace: &Pace,
        rate_of: impl Fn(&Range<usize>) -> Option<(Ramp, Arrival)>,
    ) -> Result<Vec<Generator>> {
        let settings = workload.settings().as_object().cloned().unwrap_or_default();
        let hosts = self.generators.iter().zip(shares.iter().skip(1)).filter(|(_, share)| !share.is_empty());
        let start = |(address, share): (&String, &Range<usize>)| {
            let task = Task {
                target: self.target.clone(),
                driver: self.driver,
                workload: self.workload.clone(),
                is_compat: self.mode == Mode::Compat,
                settings: settings.clone(),
                numbers: share.clone(),
                of,
                seed: pace.seed,
                rate: rate_of(share).map(|(ramp, arrival)| (ramp, arrival == Arrival::Poisson)),
                connections_per_thread: pace.connections_per_thread,
            };
            Generator::start(address, &task).map_err(|error| Error::Usage(error.to_string()))
        };
        hosts.map(start).collect()
    }
}

/// Divides clients among hosts, as evenly as possible; the first ones get what is left.
fn shares(clients: usize, hosts: usize) -> Vec<Range<usize>> {
    let (each, rest) = (clients / hosts, clients % hosts);
    let begin = |host: usize| host * each + host.min(rest);
    (0..hosts).map(|host| begin(host)..begin(host + 1)).collect()
}

/// Measurements of one interval.
#[derive(Clone, Debug)]
pub struct Interval {
    pub system: String,
    pub step: String,
    pub phase: Phase,
    pub clients: usize,
    /// Begin on the run's clock.
    pub begin_s: f64,
    pub end_s: f64,
    /// Time since the step's measured part began, at the interval's end.
    pub elapsed: Duration,
    /// Planned length of the measured part; zero when the end is not a time.
    pub planned: Duration,
    pub unit: Kind,
    /// Rows that one unit counts for.
    pub unit_rows: u64,
    /// Loaded in the interval.
    pub documents: u64,
    pub recorder: Recorder,
    pub usage: Usage,
    /// Operations due and not begun, with a rate limit.
    pub backlog: Option<f64>,
    /// The server's own counters at the interval's end.
    pub statistics: Vec<(String, f64)>,
}

impl Interval {
    /// Units per second.
    pub fn rate(&self) -> f64 {
        (self.recorder.count(self.unit) * self.unit_rows) as f64 / self.usage.seconds.max(1e-9)
    }
}

/// Measurements of a step, all intervals together.
#[derive(Clone, Debug)]
pub struct Step {
    pub clients: usize,
    /// Begin of the measured part, on the run's clock.
    pub begin_s: f64,
    pub end_s: f64,
    pub unit: Kind,
    pub unit_rows: u64,
    pub recorder: Recorder,
    pub usage: Usage,
    pub backlog: Option<f64>,
    /// Units per second of each interval, and when it ended.
    pub rates: Vec<(f64, f64)>,
    /// The longest write of each interval.
    pub write_max_ms: Vec<f64>,
    /// Commands of the script that have ended.
    pub scripted: Vec<Span>,
    /// Resident memory of the server at most, seen at the intervals' ends.
    pub resident_max_bytes: Option<u64>,
    /// Ended early by Ctrl-C.
    pub interrupted: bool,
    /// Ended early because the server was of no more use.
    pub deserted: Option<String>,
}

impl Step {
    /// Units per second.
    pub fn rate(&self) -> f64 {
        self.units() / self.usage.seconds.max(1e-9)
    }

    pub fn units(&self) -> f64 {
        (self.recorder.count(self.unit) * self.unit_rows) as f64
    }

    /// Begin and end of intervals `begin..end`, on the run's clock.
    pub fn span(&self, begin: usize, end: usize) -> (f64, f64) {
        let at = |n: usize| match n.checked_sub(1) {
            Some(before) => self.rates.get(before).map_or(self.end_s, |(end_s, _)| *end_s),
            None => self.begin_s,
        };
        (at(begin), at(end))
    }

    /// The generator's share of all processors.
    pub fn client_share(&self) -> f64 {
        self.usage.client_cpu_s / (self.usage.seconds.max(1e-9) * processors() as f64)
    }
}

/// A command of the script, on the run's clock.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    pub kind: EventKind,
    pub text: String,
    pub begin_s: f64,
    pub end_s: f64,
    pub failed: bool,
}

/// After this time without a single success and without a connection the server counts as gone.
const DESERTED_AFTER: Duration = Duration::from_secs(10);

/// Error numbers of a server without space, MongoDB's and MariaDB's.
const DISK_FULL: [&str; 2] = ["14031", "1021"];

/// Runs `workload` against `target` with `clients` connections, each by a thread of its own unless the pace has them shared.
pub fn run_step(
    target: &dyn Target,
    workload: &dyn Workload,
    clients: usize,
    pace: &Pace,
    context: &mut Context<'_>,
) -> Result<Step> {
    let of = workload.threads(clients);
    let elsewhere = pace.elsewhere.as_ref();
    let shares = shares(of, elsewhere.map_or(&[][..], |elsewhere| &elsewhere.generators).len() + 1);
    let own = shares.first().cloned().unwrap_or(0..of);
    let interrupt = context.interrupt.clone();
    let rate_of = |share: &Range<usize>| {
        let part = share.len() as f64 / of.max(1) as f64 / workload.unit_rows() as f64;
        pace.rate.as_ref().map(|(rate, arrival)| (rate.times(part), *arrival))
    };
    let own_clients = Clients::connect(target, workload, own.clone(), of)?;
    let remotes = match elsewhere {
        Some(elsewhere) => elsewhere.start(workload, &shares, of, pace, rate_of)?,
        None => Vec::new(),
    };
    let schedule = rate_of(&own)
        .map(|(tokens, arrival)| Schedule::new(tokens, arrival, pace.seed.wrapping_mul(31), Instant::now()));
    std::thread::scope(|scope| {
        let running =
            own_clients.start(scope, schedule.as_ref(), pace.seed, pace.connections_per_thread, &interrupt)?;
        let mut collector = Collector {
            target,
            unit: workload.unit(),
            unit_rows: workload.unit_rows(),
            clients,
            workload,
            running,
            remotes: RefCell::new(remotes),
            backlog_elsewhere: Cell::new(0.0),
            lost: Cell::new(None),
            schedule: schedule.as_ref(),
            observed: Observed::of_target(target),
            statistics: target.statistics(),
            checkpoints: None,
            silent: Duration::ZERO,
        };
        collector.warm(pace, context);
        let (sender, done) = mpsc::channel();
        let (start, own_clients, interrupt_) = (Instant::now(), &own_clients, &interrupt);
        if !pace.script.is_empty() {
            scope.spawn(move || {
                let stopped = || own_clients.is_stopped() || interrupt_.is_set();
                script::perform(&pace.script, target, start, stopped, interrupt_, |each| drop(sender.send(each)));
            });
        }
        let step = collector.collect(pace, &done, context);
        collector.running.end()?;
        step
    })
}

/// The side of a step that measures.
struct Collector<'a> {
    target: &'a dyn Target,
    unit: Kind,
    unit_rows: u64,
    clients: usize,
    workload: &'a dyn Workload,
    running: Running<'a>,
    /// Clients on other hosts.
    remotes: RefCell<Vec<Generator>>,
    backlog_elsewhere: Cell<f64>,
    /// The reason why clients on another host do not reply.
    lost: Cell<Option<String>>,
    schedule: Option<&'a Schedule>,
    observed: Observed,
    statistics: Option<Box<dyn Statistics>>,
    /// Number of checkpoints in the server's last sample.
    checkpoints: Option<f64>,
    /// Time since an operation has succeeded.
    silent: Duration,
}

/// The warm-up is steady when as many of its last intervals differ by no more than this part of their mean.
const STEADY_INTERVALS: usize = 5;
const STEADY_SPREAD: f64 = 0.1;

impl Collector<'_> {
    /// The fixed warm-up, then what is left until the rate is steady.
    fn warm(&self, pace: &Pace, context: &Context<'_>) {
        let begun = Instant::now();
        context.interrupt.sleep_until(begun + pace.warm);
        let Some(within) = pace.steady_within else {
            self.drain();
            return;
        };
        let (mut rates, mut last) = (Vec::new(), Instant::now());
        self.drain();
        while begun.elapsed() < within && !context.interrupt.is_set() {
            context.interrupt.sleep_until(last + pace.interval);
            rates.push(self.drain().count(self.unit) as f64 / last.elapsed().as_secs_f64().max(1e-9));
            last = Instant::now();
            let recent = rates.get(rates.len().saturating_sub(STEADY_INTERVALS)..).unwrap_or_default();
            let (least, most) = recent.iter().fold((f64::MAX, 0.0_f64), |(a, b), rate| (a.min(*rate), b.max(*rate)));
            let mean = recent.iter().sum::<f64>() / recent.len().max(1) as f64;
            if recent.len() == STEADY_INTERVALS && most - least <= STEADY_SPREAD * mean {
                break;
            }
        }
    }

    fn collect(&mut self, pace: &Pace, done: &mpsc::Receiver<Done>, context: &mut Context<'_>) -> Result<Step> {
        self.drain();
        let first = Sample::take(&self.observed)?;
        let (mut last, mut total) = (first, Recorder::default());
        let (mut rates, mut deserted, mut resident_max_bytes) = (Vec::new(), None, None);
        let (mut write_max_ms, mut scripted) = (Vec::new(), Vec::new());
        while last.at() - first.at() < pace.measured && !context.interrupt.is_set() && deserted.is_none() {
            let end = (last.at() + pace.interval).min(first.at() + pace.measured);
            context.interrupt.sleep_until(end);
            let now = Sample::take(&self.observed)?;
            let interval = self.interval([first, last, now], pace.measured, context);
            total.merge(&interval.recorder);
            rates.push((interval.end_s, interval.rate()));
            write_max_ms.push(longest_write_ms(&interval.recorder));
            resident_max_bytes = resident_max_bytes.max(interval.usage.resident_bytes);
            deserted = self.deserted(&interval);
            context.watch.interval(&interval);
            last = now;
            scripted.extend(report_script(done, context));
        }
        if let Some(process) = self.observed.process.filter(|_| pace.kill_at_end && deserted.is_none()) {
            context.report(EventKind::Kill, "kill -9");
            signal(process, Signal::KILL);
        }
        Ok(Step {
            clients: self.clients,
            begin_s: context.seconds(first.at()),
            end_s: context.seconds(last.at()),
            unit: self.unit,
            unit_rows: self.unit_rows,
            recorder: total,
            usage: last.since(&first),
            backlog: self.backlog(last.at()),
            rates,
            write_max_ms,
            scripted,
            resident_max_bytes,
            interrupted: context.interrupt.is_set(),
            deserted,
        })
    }

    fn interval(&mut self, [first, last, now]: [Sample; 3], planned: Duration, context: &mut Context<'_>) -> Interval {
        let statistics = self.statistics.as_mut().map_or_else(Vec::new, |statistics| statistics.read());
        self.report_checkpoints(&statistics, context);
        Interval {
            system: context.system.to_owned(),
            step: context.step.to_owned(),
            phase: Phase::Run,
            clients: self.clients,
            begin_s: context.seconds(last.at()),
            end_s: context.seconds(now.at()),
            elapsed: now.at() - first.at(),
            planned,
            unit: self.unit,
            unit_rows: self.unit_rows,
            documents: 0,
            recorder: self.drain(),
            usage: now.since(&last),
            backlog: self.backlog(now.at()),
            statistics,
        }
    }

    /// A server that counts its checkpoints has made one when the count has grown.
    fn report_checkpoints(&mut self, statistics: &[(String, f64)], context: &mut Context<'_>) {
        let of = |name: &str| statistics.iter().find(|(each, _)| each == name).map(|(_, value)| *value);
        let Some(count) = of(CHECKPOINTS) else { return };
        if let Some(before) = self.checkpoints.filter(|before| count > *before) {
            let (end, took) = (context.now(), of(CHECKPOINT_MS).unwrap_or(0.0) / 1000.0);
            let text = format!("{:.0} checkpoints, the last took {took:.3} s", count - before);
            context.report_span(EventKind::Checkpoint, ((end - took).max(0.0), end), &text);
        }
        self.checkpoints = Some(count);
    }

    /// Returns why the step ends here: the server's process is gone, its disk is full, or nothing succeeds and no connection is
    /// accepted.
    /// connection.
    fn deserted(&mut self, interval: &Interval) -> Option<String> {
        if let Some(reason) = self.lost.take() {
            return Some(reason);
        }
        if self.observed.process.is_some_and(|process| !is_running(process)) {
            return Some("the server's process has ended".to_owned());
        }
        if let Some((_, _, first)) = interval.recorder.errors().find(|(code, _, _)| DISK_FULL.contains(code)) {
            return Some(format!("the server's disk is full: {first}"));
        }
        if interval.recorder.total_count() > 0 {
            self.silent = Duration::ZERO;
            return None;
        }
        self.silent += Duration::from_secs_f64(interval.usage.seconds);
        if self.silent < DESERTED_AFTER {
            return None;
        }
        let error = self.target.connect().err()?;
        Some(format!("nothing has succeeded for {:.0} s, and {error}", self.silent.as_secs_f64()))
    }

    fn drain(&self) -> Recorder {
        let mut sum = self.running.drain();
        let mut backlog = 0.0;
        for remote in self.remotes.borrow_mut().iter_mut() {
            match remote.take(self.workload) {
                Ok((recorder, due)) => {
                    sum.merge(&recorder);
                    backlog += due.unwrap_or(0.0);
                }
                Err(error) => self.lost.set(Some(error.to_string())),
            }
        }
        self.backlog_elsewhere.set(backlog);
        sum
    }

    fn backlog(&self, now: Instant) -> Option<f64> {
        self.schedule.map(|schedule| schedule.backlog(now) + self.backlog_elsewhere.get())
    }
}

/// Names in Arbor's serverStatus, below `engine`.
const CHECKPOINTS: &str = "engine.checkpoint.count";
const CHECKPOINT_MS: &str = "engine.checkpoint.lastMillis";

/// Kinds of the workloads with a script that wait for a range that moves.
const WRITES: [Kind; 4] = [Kind::INDEX_UPDATE, Kind::NON_INDEX_UPDATE, Kind::DELETE, Kind::INSERT];

fn longest_write_ms(recorder: &Recorder) -> f64 {
    let latencies = WRITES.iter().filter_map(|kind| recorder.latencies(*kind));
    latencies.map(|latencies| latencies.service.max()).max().unwrap_or(0) as f64 / 1e6
}

/// Reports commands that have ended, and returns them.
fn report_script(done: &mpsc::Receiver<Done>, context: &mut Context<'_>) -> Vec<Span> {
    let mut spans = Vec::new();
    for each in done.try_iter() {
        let span = (context.seconds(each.begun), context.seconds(each.ended));
        spans.push(Span {
            kind: each.scripted.kind,
            text: each.scripted.text.clone(),
            begin_s: span.0,
            end_s: span.1,
            failed: each.failure.is_some(),
        });
        let text = match each.failure {
            Some(failure) => format!("{}: failed: {failure}", each.scripted.text),
            None => each.scripted.text,
        };
        context.report_span(each.scripted.kind, span, &text);
    }
    spans
}

/// A step in which nothing was done.
#[cfg(test)]
pub(super) fn empty() -> Step {
    Step {
        clients: 1,
        begin_s: 0.0,
        end_s: 0.0,
        unit: Kind::TRANSACTION,
        unit_rows: 1,
        recorder: Recorder::default(),
        usage: Usage::default(),
        backlog: None,
        rates: Vec::new(),
        write_max_ms: Vec::new(),
        scripted: Vec::new(),
        resident_max_bytes: None,
        interrupted: false,
        deserted: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_divided_among_hosts() {
        assert_eq!(shares(7, 3), [0..3, 3..5, 5..7]);
        assert_eq!(shares(2, 4), [0..1, 1..2, 2..2, 2..2]);
        assert_eq!(shares(5, 1), vec![0..5]);
    }
}
