//! The record of a run in progress: its directory, and its observers.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::environment::environment;
use super::plan::Plan;
use crate::Result;
use crate::results::{Clock, Ending, Event, EventKind, HistogramLog, Record, StepRecord, SystemRecord, Writer};
use crate::run::{Context, Interrupt, Interval, Watch, points};

pub struct RunLog {
    writer: Writer,
    record: Record,
    /// The run's clock.
    began: Instant,
    watchers: Vec<Box<dyn Watch>>,
    /// Background work of the server, named as the cause of stalls at the same time.
    work: Vec<Event>,
    /// A file could not be written; reported once.
    failed: bool,
}

fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

impl RunLog {
    /// Makes the directory; from here on its record is marked as running.
    pub fn open(directory: &Path, plan: &Plan, watchers: Vec<Box<dyn Watch>>) -> Result<RunLog> {
        let workload = plan.workload(&plan.phases().swap_remove(0))?;
        let mut kinds: Vec<String> = Vec::new();
        for phase in plan.phases() {
            let names = plan.workload(&phase)?.kinds().iter().map(|kind| kind.name().to_owned()).collect::<Vec<_>>();
            kinds.extend(names);
        }
        let mut seen = std::collections::BTreeSet::new();
        kinds.retain(|kind| seen.insert(kind.clone()));
        let record = Record { unit: workload.unit().name().to_owned(), kinds, ..RunLog::record_of(plan) };
        RunLog::with(directory, record, plan, watchers)
    }

    /// Like [`RunLog::open`], but for a record that is not a workload's.
    pub fn with(directory: &Path, record: Record, plan: &Plan, watchers: Vec<Box<dyn Watch>>) -> Result<RunLog> {
        let writer = Writer::create(directory, &record, &environment(&plan.setup.root))?;
        Ok(RunLog { writer, record, began: Instant::now(), watchers, work: Vec::new(), failed: false })
    }

    pub fn record_of(plan: &Plan) -> Record {
        let experiment = &plan.experiment;
        let threads = match plan.parameters.connections_per_thread {
            None | Some(1) => "one blocking connection per client thread".to_owned(),
            Some(connections) => {
                format!("{connections} connections per client thread, which reads the reply that comes first")
            }
        };
        let others = match plan.parameters.generators.as_slice() {
            [] => String::new(),
            hosts => format!(", divided evenly with {}", hosts.join(", ")),
        };
        Record {
            format: 1,
            experiment: experiment.name.clone(),
            about: experiment.about.clone(),
            founding_text: experiment.founding_text.clone(),
            scale: plan.scale.name().to_owned(),
            mode: plan.parameters.mode.clone(),
            seed: plan.parameters.seed,
            unit: String::new(),
            kinds: Vec::new(),
            schedule: plan.schedule(),
            parameters: serde_json::to_value(&plan.parameters).expect("keys of parameters are strings"),
            arbor_version: crate::build().to_owned(),
            command_line: plan.command_line.clone(),
            client_placement: format!("same host as the servers we start, {threads}{others}"),
            started: now(),
            ended: None,
            ending: Ending::Running,
            remarks: plan.remarks.clone(),
            systems: Vec::new(),
            text: experiment.text.clone(),
        }
    }

    pub fn directory(&self) -> &Path {
        self.writer.directory()
    }

    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Returns the context of a step of the current system.
    pub fn context<'a>(&'a mut self, system: &'a str, step: &'a str, interrupt: &'a Interrupt) -> Context<'a> {
        Context { system, step, began: self.began, interrupt, watch: self }
    }

    pub fn report(&mut self, system: &str, kind: EventKind, text: &str) {
        let t_s = self.began.elapsed().as_secs_f64();
        self.event(&Event { t_s, end_s: None, system: system.to_owned(), kind, text: text.to_owned() });
    }

    /// A system is begun; its steps follow.
    pub fn begin(&mut self, system: &str) {
        self.record.systems.push(SystemRecord { name: system.to_owned(), ..SystemRecord::default() });
        self.save();
    }

    pub fn about(&mut self, about: Value) {
        if let Some(system) = self.record.systems.last_mut() {
            system.about = about;
        }
        self.save();
    }

    /// A step of the system that was begun last.
    pub fn add(&mut self, step: StepRecord) {
        self.add_to(&self.last(), step);
    }

    pub fn add_to(&mut self, system: &str, step: StepRecord) {
        if let Some(record) = self.system(system) {
            record.steps.push(step.clone());
        }
        self.save();
        self.watchers.iter_mut().for_each(|watcher| watcher.step(system, &step));
    }

    /// Returns the step that was added last to the system that was begun last.
    pub fn last_step(&mut self) -> Option<&mut StepRecord> {
        self.record.systems.last_mut()?.steps.last_mut()
    }

    /// The system that was begun last ended before its plan.
    pub fn fail(&mut self, why: &str) {
        self.fail_of(&self.last(), why);
    }

    pub fn fail_of(&mut self, system: &str, why: &str) {
        if let Some(record) = self.system(system) {
            record.failure = Some(why.to_owned());
        }
        self.report(system, EventKind::Failure, why);
        self.save();
    }

    fn last(&self) -> String {
        self.record.systems.last().map(|system| system.name.clone()).unwrap_or_default()
    }

    /// The last one of that name.
    fn system(&mut self, name: &str) -> Option<&mut SystemRecord> {
        self.record.systems.iter_mut().rfind(|system| system.name == name)
    }

    pub fn remark(&mut self, remark: &str) {
        if !self.record.remarks.iter().any(|each| each == remark) {
            self.record.remarks.push(remark.to_owned());
        }
    }

    /// Writes the final record; returns how the run ended.
    pub fn close(&mut self, interrupted: bool) -> Ending {
        self.record.ended = Some(now());
        self.record.ending = match &self.record.systems {
            _ if interrupted => Ending::Interrupted,
            systems if systems.iter().any(|system| system.failure.is_some()) => Ending::Partial,
            _ => Ending::Complete,
        };
        self.save();
        self.record.ending
    }

    fn save(&mut self) {
        let outcome = self.writer.record(&self.record);
        self.keep_going(outcome);
    }

    /// Results that cannot be written (a full disk) are no reason to stop measuring: tables still come at the end.
    fn keep_going(&mut self, outcome: Result<()>) {
        if let (Err(error), false) = (outcome, self.failed) {
            self.failed = true;
            eprintln!("\narbor lab: {error}: the results of this run are incomplete from here on");
            self.record.remarks.push(format!("results are incomplete: {error}"));
        }
    }

    fn write(&mut self, interval: &Interval) -> Result<()> {
        self.writer.points(&points(interval))?;
        self.writer.histograms(|log| histograms(interval, log))
    }
}

fn histograms(interval: &Interval, log: &mut HistogramLog) -> std::io::Result<()> {
    let seconds = interval.end_s - interval.begin_s;
    for (kind, latencies) in interval.recorder.kinds() {
        let tag = [interval.system.as_str(), interval.step.as_str(), kind.name()];
        log.append(tag, Clock::Service, interval.begin_s, seconds, &latencies.service)?;
        if let Some(response) = &latencies.response {
            log.append(tag, Clock::Response, interval.begin_s, seconds, response)?;
        }
    }
    Ok(())
}

/// A stall with what ran meanwhile in its text.
fn with_cause(event: &Event, work: &[Event]) -> Event {
    let mut event = event.clone();
    if event.kind == EventKind::Stall {
        let end = |event: &Event| event.end_s.unwrap_or(event.t_s);
        let meanwhile =
            |each: &&Event| each.system == event.system && each.t_s <= end(&event) && end(each) >= event.t_s;
        let texts: Vec<&str> = work.iter().filter(meanwhile).map(|each| each.text.as_str()).collect();
        if !texts.is_empty() {
            event.text = format!("{}; meanwhile: {}", event.text, texts.join(", "));
        }
    }
    event
}

impl Watch for RunLog {
    fn planned(&mut self, steps: Duration) {
        self.watchers.iter_mut().for_each(|watcher| watcher.planned(steps));
    }

    fn interval(&mut self, interval: &Interval) {
        let outcome = self.write(interval);
        self.keep_going(outcome);
        self.watchers.iter_mut().for_each(|watcher| watcher.interval(interval));
    }

    fn event(&mut self, event: &Event) {
        let event = &with_cause(event, &self.work);
        if matches!(event.kind, EventKind::Checkpoint | EventKind::MoveChunk | EventKind::EngineSwitch) {
            self.work.push(event.clone());
        }
        let outcome = self.writer.event(event);
        self.keep_going(outcome);
        self.watchers.iter_mut().for_each(|watcher| watcher.event(event));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_names_concurrent_work() {
        let event = |kind, t_s, end_s, text: &str| Event {
            t_s,
            end_s,
            system: "ftree".to_owned(),
            kind,
            text: text.to_owned(),
        };
        let work = [
            event(EventKind::Checkpoint, 1.0, Some(2.0), "early"),
            event(EventKind::Checkpoint, 4.5, Some(5.5), "a checkpoint"),
            event(EventKind::MoveChunk, 6.5, None, "a chunk"),
        ];
        let text_of = |event: &Event| with_cause(event, &work).text;
        assert_eq!(text_of(&event(EventKind::Stall, 5.0, Some(7.0), "1 s")), "1 s; meanwhile: a checkpoint, a chunk");
        assert_eq!(text_of(&event(EventKind::Stall, 8.0, Some(9.0), "1 s")), "1 s");
        assert_eq!(text_of(&event(EventKind::Note, 5.0, Some(7.0), "x")), "x");
        let other = Event { system: "lmdb".to_owned(), ..event(EventKind::Stall, 5.0, Some(7.0), "1 s") };
        assert_eq!(text_of(&other), "1 s");
    }
}
