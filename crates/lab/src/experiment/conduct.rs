//! Carrying out a plan: for each system start, load, then at each station step by step, sizes, stop. A failure on one
//! system is kept in its record; the other systems continue.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::environment::disk_of;
use super::plan::{ManagedPlan, Plan, Station, StepPlan};
use super::run_log::RunLog;
use super::search::{Search, TRIES};
use crate::agent::with_agent;
use crate::observe::disk_use_of;
use crate::report::{KEPT_RATE, TRIED_RATE, TRY};
use crate::results::{EventKind, Phase, StepRecord};
use crate::run::{
    Context, Elsewhere, Interrupt, Pace, Ramp, Step, Watch, add_sizes, before_moves, load, load_record, prepare,
    resume, run_step, scan, stalls, step_record,
};
use crate::target::echo::Echo;
use crate::target::managed::Managed;
use crate::target::{self, Driver, Target};
use crate::workload::Workload;
use crate::{Error, Result};

/// Carries out the plan on all its systems.
pub fn carry_out(plan: &Plan, log: &mut RunLog, interrupt: &Interrupt) {
    log.planned(plan.estimate().steps);
    let mut conductor = Conductor { plan, log, interrupt, reply_bytes: None };
    for managed in plan.managed() {
        conductor.system(&managed.name, |conductor, system| conductor.managed(&managed, system));
    }
    for text in &plan.parameters.targets {
        for driver in &plan.parameters.drivers {
            let system = driver.named(&target::name_of(text));
            conductor.system(&system, |conductor, system| conductor.running(text, *driver, system));
        }
    }
    if let (true, Some(reply_bytes)) = (plan.parameters.echo, conductor.reply_bytes) {
        conductor.system(target::echo::NAME, |conductor, system| conductor.echo(reply_bytes, system));
    }
}

/// The echo alone: the bound of what any server on this runtime could reach.
pub fn echo_only(plan: &Plan, reply_bytes: usize, log: &mut RunLog, interrupt: &Interrupt) {
    let mut conductor = Conductor { plan, log, interrupt, reply_bytes: None };
    conductor.system(target::echo::NAME, |conductor, system| conductor.echo(reply_bytes, system));
}

struct Conductor<'a> {
    plan: &'a Plan,
    log: &'a mut RunLog,
    interrupt: &'a Interrupt,
    /// Bytes of a point query's reply, for the echo to send as many.
    reply_bytes: Option<usize>,
}

/// Progress of one system through the plan: a workload per phase, since a workload remembers what it has inserted.
struct Course {
    system: String,
    phase: String,
    workload: Box<dyn Workload>,
    /// Facts about the system that it does not report.
    known: Map<String, Value>,
    /// Hosts that run clients as well.
    elsewhere: Option<Elsewhere>,
}

impl Conductor<'_> {
    /// Measures one system by `measure`; a failure is recorded and keeps the results so far.
    fn system(&mut self, name: &str, measure: impl FnOnce(&mut Self, &str) -> Result<()>) {
        if self.interrupt.is_set() {
            return;
        }
        self.log.begin(name);
        // A server that was killed for an interrupt has not failed.
        if let Err(error) = measure(self, name)
            && !self.interrupt.is_set()
        {
            self.log.fail(&error.to_string());
        }
    }

    fn context<'a>(&'a mut self, system: &'a str, step: &'a str) -> Context<'a> {
        self.log.context(system, step, self.interrupt)
    }

    fn managed(&mut self, one: &ManagedPlan, system: &str) -> Result<()> {
        let ManagedPlan { engine, driver, setup, .. } = one;
        self.plan.check_disk(&setup.root)?;
        let stations = self.plan.stations(engine);
        let Some(first) = stations.first() else { return Ok(()) };
        self.log.report(system, EventKind::Phase, "starting");
        let mut managed = Managed::start(engine, *driver, setup, &first.flags)?;
        let mut course = self.course(system)?;
        course.known = self.plan.known(engine, &first.flags);
        let slowed = if setup.disk.is_none() { String::new() } else { format!(", limited to {}", setup.disk) };
        course.known.insert("data_on".to_owned(), (disk_of(&setup.root) + &slowed).into());
        let outcome = self.stations(&mut managed, &stations, &mut course);
        managed.explained(outcome)
    }

    fn stations(&mut self, managed: &mut Managed, stations: &[Station], course: &mut Course) -> Result<()> {
        for (n, station) in stations.iter().enumerate() {
            if self.interrupt.is_set() {
                break;
            }
            if n > 0 {
                self.log.report(&course.system, EventKind::Phase, "starting again with other flags");
                managed.restart(&station.flags)?;
            }
            managed.remarks().iter().for_each(|remark| self.log.remark(remark));
            if n == 0 {
                self.load(managed.target(), course)?;
            }
            if self.plan.experiment.recovery {
                self.recoveries(managed, station, course)?;
            } else {
                self.steps(managed.target(), station, course)?;
            }
        }
        Ok(())
    }

    /// A server that runs already: what needs a restart is not varied.
    fn running(&mut self, text: &str, driver: Driver, system: &str) -> Result<()> {
        let target = with_agent(target::open(text, driver)?, text, &self.plan.parameters.agents)?;
        let stations = self.plan.stations("");
        if stations.len() > 1 || self.plan.experiment.recovery {
            self.log.remark(&format!(
                "{system} was not started by the laboratory: its cache and checkpoints were not configured"
            ));
        }
        let station = Station { flags: Default::default(), words: Vec::new(), settings: BTreeMap::new() };
        let mut course = self.course(system)?;
        course.elsewhere = self.plan.elsewhere(text, driver);
        self.load(&*target, &mut course)?;
        self.steps(&*target, &station, &mut course)
    }

    fn echo(&mut self, reply_bytes: usize, system: &str) -> Result<()> {
        let setup = &self.plan.setup;
        let echo = Echo::start(&setup.binary, &setup.root, reply_bytes)?;
        self.log.about(echo.about()?);
        let mut course = self.course(system)?;
        let station = Station { flags: Default::default(), words: Vec::new(), settings: BTreeMap::new() };
        for step in self.plan.steps(&station) {
            self.step(&echo, &step, &mut course, &self.plan.pace())?;
        }
        Ok(())
    }

    fn course(&self, system: &str) -> Result<Course> {
        let phase = self.plan.phases().swap_remove(0);
        Ok(Course {
            system: system.to_owned(),
            workload: self.plan.workload(&phase)?,
            phase: phase.name,
            known: Map::new(),
            elsewhere: None,
        })
    }

    /// The first load of a system, and what follows it once.
    fn load(&mut self, target: &dyn Target, course: &mut Course) -> Result<()> {
        let mut about = target.about()?;
        if let Some(about) = about.as_object_mut() {
            about.extend(course.known.clone());
        }
        self.log.about(about);
        if prepare(target, &*course.workload, self.plan.drop)? {
            self.fill(target, course, "load")?;
        } else {
            self.log.report(&course.system, EventKind::Phase, "collections are there, not loaded again");
        }
        if self.plan.experiment.scan && !self.interrupt.is_set() {
            self.log.report(&course.system, EventKind::Phase, "reading everything once");
            scan(target, &*course.workload, self.interrupt)?;
        }
        if self.plan.parameters.echo {
            self.reply_bytes = self.reply_bytes.or(target.point_reply_bytes());
        }
        Ok(())
    }

    fn fill(&mut self, target: &dyn Target, course: &Course, step: &str) -> Result<()> {
        self.log.report(&course.system, EventKind::Phase, "loading");
        let threads = self.plan.parameters.loaders;
        let loaded = load(target, &*course.workload, threads, &mut self.context(&course.system, step))?;
        // A workload whose load is its run has none of its own.
        if loaded.documents > 0 || loaded.failure.is_some() {
            self.log.add(load_record(step, BTreeMap::new(), &loaded));
        }
        match loaded.failure {
            Some(failure) => {
                Err(Error::Server { server: course.system.clone(), reason: format!("the load failed: {failure}") })
            }
            None => Ok(()),
        }
    }

    fn steps(&mut self, target: &dyn Target, station: &Station, course: &mut Course) -> Result<()> {
        for step in self.plan.steps(station) {
            if self.interrupt.is_set() {
                break;
            }
            self.enter(target, &step, course)?;
            let deserted = match self.plan.parameters.search_p99_ms {
                Some(bound_ms) => self.search(target, &step, course, bound_ms)?,
                None => self.step(target, &step, course, &self.plan.pace())?.1,
            };
            if let Some(deserted) = deserted {
                return Err(Error::Server { server: course.system.clone(), reason: deserted });
            }
        }
        Ok(())
    }

    /// Repeats a step at several rates; records the highest one that keeps the bound. Returns why it ended early.
    fn search(
        &mut self,
        target: &dyn Target,
        step: &StepPlan,
        course: &mut Course,
        bound_ms: f64,
    ) -> Result<Option<String>> {
        let try_of = |number: u32| {
            let mut step = step.clone();
            step.name = format!("{}-try{number}", step.name);
            step.settings.insert(TRY.to_owned(), number.into());
            step
        };
        let (first, deserted) = self.step(target, &try_of(0), course, &self.plan.pace())?;
        let Some(first) = first.filter(|_| deserted.is_none()) else { return Ok(deserted) };
        let mut search = Search::below(bound_ms, first.per_second().unwrap_or(0.0));
        for number in 1..=TRIES {
            let Some(rate) = search.next().filter(|_| !self.interrupt.is_set()) else { break };
            resume(target, &*course.workload)?;
            let pace = Pace { rate: Some((Ramp::level(rate), self.plan.arrival())), ..self.plan.pace() };
            let (tried, deserted) = self.step(target, &try_of(number), course, &pace)?;
            if deserted.is_some() {
                return Ok(deserted);
            }
            // at a low rate no operation may be due in a short step
            let Some(tried) = tried else { break };
            let kept = search.tried(rate, &tried);
            let word = if kept { "keeps" } else { "does not keep" };
            let text = format!("{}: {rate:.1}/s {word} p99 below {bound_ms} ms", try_of(number).name);
            self.log.report(&course.system, EventKind::Note, &text);
            if let Some(last) = self.log.last_step() {
                last.metrics.insert(TRIED_RATE.to_owned(), rate);
            }
        }
        if let Some(last) = self.log.last_step() {
            last.metrics.insert(KEPT_RATE.to_owned(), search.best().unwrap_or(0.0));
        }
        Ok(None)
    }

    /// Switches to the step's phase: its workload, on existing or reloaded data.
    fn enter(&mut self, target: &dyn Target, step: &StepPlan, course: &mut Course) -> Result<()> {
        if step.phase.name != course.phase {
            course.workload = self.plan.workload(&step.phase)?;
            course.phase = step.phase.name.clone();
            if step.phase.reload {
                prepare(target, &*course.workload, true)?;
                self.fill(target, course, &format!("load-{}", step.phase.name))?;
            }
        }
        resume(target, &*course.workload)
    }

    /// Runs one step and records its result; returns that, and why it ended early if the server no longer answered.
    fn step(
        &mut self,
        target: &dyn Target,
        step: &StepPlan,
        course: &mut Course,
        pace: &Pace,
    ) -> Result<(Option<StepRecord>, Option<String>)> {
        let system = course.system.clone();
        self.log.report(&system, EventKind::Phase, &format!("{}: {} clients", step.name, step.clients));
        let before = before_moves(target, &*course.workload, &pace.script)?;
        let pace = Pace { elsewhere: course.elsewhere.clone(), ..pace.clone() };
        let mut context = self.context(&system, &step.name);
        let ran = run_step(target, &*course.workload, step.clients, &pace, &mut context)?;
        report_stalls(&ran, &mut context);
        let moves = match before.filter(|_| ran.deserted.is_none()) {
            Some(before) => before.measure(target, &ran, &mut context)?,
            None => BTreeMap::new(),
        };
        // A step that was interrupted in its first moments has no result.
        let mut recorded = None;
        if ran.recorder.total_count() > 0 || ran.recorder.error_count() > 0 {
            let mut record = step_record(&step.name, step.repeat, step.settings.clone(), &ran);
            record.metrics.extend(moves);
            measure_sizes(target, &*course.workload, &mut record);
            self.log.add(record.clone());
            recorded = Some(record);
        }
        Ok((recorded, ran.deserted))
    }

    /// Steps that end with kill -9, each followed by the server's return.
    fn recoveries(&mut self, managed: &mut Managed, station: &Station, course: &mut Course) -> Result<()> {
        for step in self.plan.steps(station) {
            if self.interrupt.is_set() {
                break;
            }
            self.enter(managed.target(), &step, course)?;
            if let (_, Some(deserted)) = self.step(managed.target(), &step, course, &self.plan.pace())? {
                return Err(Error::Server { server: course.system.clone(), reason: deserted });
            }
            managed.kill()?;
            let (system, begin_s) = (course.system.clone(), self.context(&course.system.clone(), "").now());
            let to_serve = managed.recover(&station.flags)?;
            resume(managed.target(), &*course.workload)?;
            let mut context = self.context(&system, "");
            let text = format!("serves {:.2} s after it was started again", to_serve.as_secs_f64());
            context.report_span(EventKind::Serving, (begin_s, begin_s + to_serve.as_secs_f64()), &text);
            let answered_s = context.now() - begin_s;
            self.log.add(StepRecord {
                name: step.name.replacen(&format!("c{}", step.clients), &format!("recovery-c{}", step.clients), 1),
                phase: Phase::Recovery,
                clients: step.clients,
                repeat: step.repeat,
                settings: step.settings.clone(),
                begin_s,
                end_s: begin_s + answered_s,
                unit: "recovery".to_owned(),
                metrics: BTreeMap::from([
                    ("serve_s".to_owned(), to_serve.as_secs_f64()),
                    ("answer_s".to_owned(), answered_s),
                ]),
                ..StepRecord::default()
            });
        }
        Ok(())
    }
}

/// Records the data's size as the server and the file system report it now. A server that is gone reports nothing.
fn measure_sizes(target: &dyn Target, workload: &dyn Workload, record: &mut StepRecord) {
    let sizes = target.connect().ok().and_then(|mut session| session.sizes(workload.database()).ok());
    add_sizes(&mut record.metrics, sizes.unwrap_or_default(), disk_use_of(target));
}

fn report_stalls(step: &Step, context: &mut Context<'_>) {
    let rates: Vec<f64> = step.rates.iter().map(|(_, rate)| *rate).collect();
    for stall in stalls(&rates) {
        let (begin, end) = step.span(stall.begin, stall.end);
        let depth = (stall.depth * 100.0).round();
        let text = format!("{}: {:.1} s at {depth:.0} % of the median rate or less", context.step, end - begin);
        context.report_span(EventKind::Stall, (begin, end), &text);
    }
}
