//! The experiments by name, and how one is carried out: for each system start, load, warm, step by step, sizes, stop.

mod definition;

use std::path::PathBuf;
use std::time::Duration;

pub use definition::{Experiment, Scale, Work, built_in, find};
use serde_json::{Value, json};

use crate::Result;
use crate::observe::disk_use;
use crate::report::{Outcome, SystemResult};
use crate::run::{Arrival, Interrupt, Pace, Watch, load, prepare, resume, run_step, scan};
use crate::target::Target;
use crate::target::echo::Echo;
use crate::target::managed::{Managed, Setup};
use crate::target::mongodb::MongoDb;
use crate::workload::pointquery::PointQuery;
use crate::workload::sysbench::{Mix, Sysbench};
use crate::workload::{Mode, Shape, Tables, Workload};

/// The client counts at which the echo is compared.
pub const ECHO_CLIENTS: [usize; 4] = [1, 4, 16, 40];

/// Everything a run can be told. `Plan::of` fills it for an experiment; the command line overrides.
#[derive(Clone, Debug)]
pub struct Plan {
    pub experiment: Experiment,
    pub scale: Scale,
    pub mode: Mode,
    pub engines: Vec<String>,
    pub targets: Vec<MongoDb>,
    pub clients: Vec<usize>,
    pub shape: Shape,
    pub mix: Mix,
    pub batch: usize,
    pub loader_threads: usize,
    pub pace: Pace,
    pub setup: Setup,
    pub echo: bool,
    /// Replace tables that are there with other contents.
    pub drop: bool,
}

impl Plan {
    pub fn of(experiment: Experiment, scale: Scale, setup: Setup) -> Plan {
        let size = experiment.size(scale).clone();
        Plan {
            scale,
            mode: Mode::Compat,
            engines: Vec::new(),
            targets: Vec::new(),
            clients: if experiment.work == Work::Load { Vec::new() } else { size.clients },
            shape: size.shape,
            mix: experiment.mix,
            batch: experiment.batch,
            loader_threads: 8,
            pace: Pace {
                warm: size.warm,
                measured: size.measured,
                interval: Duration::from_secs(1),
                rate: None,
                seed: 1,
            },
            setup,
            echo: experiment.echo,
            drop: false,
            experiment,
        }
    }

    /// A new one, at its beginning.
    pub fn workload(&self) -> Box<dyn Workload> {
        let tables = Tables { shape: self.shape, mode: self.mode, batch: self.batch as u32 };
        match self.experiment.work {
            Work::Sysbench => Box::new(Sysbench { tables, mix: self.mix }),
            Work::PointQuery | Work::Load => Box::new(PointQuery { tables }),
        }
    }

    /// Every parameter, for the manifest.
    fn parameters(&self) -> Value {
        let (pace, mix) = (&self.pace, &self.mix);
        let rate = pace.rate.map(|(per_second, arrival)| {
            json!({ "per_second": per_second, "arrival": if arrival == Arrival::Poisson { "poisson" } else { "constant" } })
        });
        json!({
            "scale": if self.scale == Scale::Small { "small" } else { "full" },
            "mode": self.mode.name(),
            "tables": self.shape.tables,
            "documents_per_table": self.shape.rows,
            "documents_per_insert": self.batch,
            "loader_threads": self.loader_threads,
            "clients": self.clients,
            "warm_s": pace.warm.as_secs_f64(),
            "measured_s": pace.measured.as_secs_f64(),
            "interval_s": pace.interval.as_secs_f64(),
            "rate": rate,
            "seed": pace.seed,
            "server_arguments": self.setup.arguments,
            "mix": {
                "point_selects": mix.points, "simple_ranges": mix.ranges, "sum_ranges": mix.sums,
                "order_ranges": mix.orders, "distinct_ranges": mix.distincts, "index_updates": mix.index_updates,
                "non_index_updates": mix.non_index_updates, "inserts": mix.inserts, "range_size": mix.range_size,
            },
        })
    }

    /// One line above the tables.
    pub fn heading(&self) -> String {
        let rate = self.pace.rate.map_or("closed loop".to_owned(), |(rate, _)| format!("{rate} per second"));
        let steps = match self.experiment.work {
            Work::Load => format!("batches of {}", self.batch),
            _ => format!("{} s per step, {rate}, seed {}", self.pace.measured.as_secs_f64(), self.pace.seed),
        };
        let (mode, shape) = (self.mode.name(), self.shape);
        format!("{}: mode {mode}, {} x {} documents, {steps}", self.experiment.name, shape.tables, shape.rows)
    }
}

/// Carries out the plan. What fails on one system is kept in its result; the others go on.
pub fn carry_out(plan: &Plan, interrupt: &Interrupt, watch: &mut dyn Watch) -> Outcome {
    let workload = plan.workload();
    let started = now();
    let mut run = Run { plan, interrupt, watch, systems: Vec::new(), reply_bytes: None };
    for engine in &plan.engines {
        run.system(engine, |run, result| {
            run.watch.phase(engine, "starting");
            let managed = Managed::start(engine, &run.plan.setup)?;
            run.measure(&managed.target, result)
        });
    }
    for target in &plan.targets {
        run.system(target.name(), |run, result| run.measure(&target.clone().discover()?, result));
    }
    if let (true, Some(reply_bytes)) = (plan.echo, run.reply_bytes) {
        run.system(crate::target::echo::NAME, |run, result| run.measure_echo(reply_bytes, result));
    }
    let systems = run.systems;
    Outcome {
        experiment: plan.experiment.name.clone(),
        unit: workload.unit(),
        kinds: workload.kinds().to_vec(),
        parameters: plan.parameters(),
        started,
        ended: now(),
        systems,
        interrupted: interrupt.is_set(),
    }
}

/// The echo alone: the bound of what any server on this runtime could reach.
pub fn echo_only(plan: &Plan, reply_bytes: usize, interrupt: &Interrupt, watch: &mut dyn Watch) -> Outcome {
    let workload = plan.workload();
    let started = now();
    let mut run = Run { plan, interrupt, watch, systems: Vec::new(), reply_bytes: None };
    run.system(crate::target::echo::NAME, |run, result| run.measure_echo(reply_bytes, result));
    let systems = run.systems;
    Outcome {
        experiment: "echo".to_owned(),
        unit: workload.unit(),
        kinds: workload.kinds().to_vec(),
        parameters: plan.parameters(),
        started,
        ended: now(),
        systems,
        interrupted: interrupt.is_set(),
    }
}

fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

struct Run<'a> {
    plan: &'a Plan,
    interrupt: &'a Interrupt,
    watch: &'a mut dyn Watch,
    systems: Vec<SystemResult>,
    /// Of a point query's reply, for the echo to send as much.
    reply_bytes: Option<usize>,
}

impl Run<'_> {
    /// Measures one system by `measure` and keeps whatever it brought.
    fn system(&mut self, name: &str, measure: impl FnOnce(&mut Self, &mut SystemResult) -> Result<()>) {
        if self.interrupt.is_set() {
            return;
        }
        let mut result = SystemResult {
            name: name.to_owned(),
            about: Value::Null,
            load: None,
            steps: Vec::new(),
            sizes: None,
            disk: None,
            failure: None,
        };
        if let Err(error) = measure(self, &mut result) {
            self.watch.phase(name, &format!("failed: {error}"));
            result.failure = Some(error.to_string());
        }
        self.systems.push(result);
    }

    fn measure(&mut self, target: &MongoDb, result: &mut SystemResult) -> Result<()> {
        let plan = self.plan;
        result.about = target.about()?;
        // Of its own: a workload remembers what it has inserted.
        let workload = plan.workload();
        if prepare(target, &*workload, plan.drop)? {
            self.watch.phase(target.name(), "loading");
            result.load = Some(load(target, &*workload, plan.loader_threads, self.interrupt, self.watch)?);
        } else {
            self.watch.phase(target.name(), "collections are there, not loaded again");
        }
        if !plan.clients.is_empty() && !self.interrupt.is_set() {
            self.watch.phase(target.name(), "reading everything once");
            scan(target, &*workload, self.interrupt)?;
            resume(target, &*workload)?;
            if plan.echo {
                self.reply_bytes = self.reply_bytes.or(Some(target.point_reply_bytes()?));
            }
            self.steps(target, &*workload, result)?;
        }
        if let Ok(sizes) = target.connect()?.sizes(workload.database()) {
            result.sizes = Some(sizes);
        }
        result.disk = target.folder().map(disk_use);
        Ok(())
    }

    fn measure_echo(&mut self, reply_bytes: usize, result: &mut SystemResult) -> Result<()> {
        let echo = Echo::start(&self.plan.setup.binary, &self.plan.setup.root, reply_bytes)?;
        result.about = echo.about()?;
        self.steps(&echo, &*self.plan.workload(), result)
    }

    fn steps(&mut self, target: &dyn Target, workload: &dyn Workload, result: &mut SystemResult) -> Result<()> {
        for clients in &self.plan.clients {
            if self.interrupt.is_set() {
                break;
            }
            let step = run_step(target, workload, *clients, &self.plan.pace, self.interrupt, self.watch)?;
            // A step that was cut off in its first moments says nothing.
            if step.recorder.count(step.unit) > 0 || step.recorder.error_count() > 0 {
                result.steps.push(step);
            }
        }
        Ok(())
    }
}

/// Where managed servers live unless told otherwise.
pub fn default_root() -> PathBuf {
    std::env::temp_dir()
}
