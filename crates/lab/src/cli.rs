//! `arbor lab ...`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::experiment::{ECHO_CLIENTS, Plan, Scale, Work, built_in, carry_out, default_root, echo_only, find};
use crate::kv::{self, KvEngine};
use crate::query;
use crate::report::{Outcome, Progress, Series, manifest, tables};
use crate::run::{Arrival, Interrupt, Interval, Watch};
use crate::set;
use crate::target::managed::Setup;
use crate::target::mongodb::MongoDb;
use crate::workload::Mode;
use crate::{Error, Result};

/// Bytes of a point query's reply on a sysbench document, for `lab echo` without a server to ask.
const POINT_REPLY_BYTES: &str = "330";

/// The subcommand `lab`, for the binary to mount.
pub fn command() -> Command {
    Command::new("lab")
        .about("The laboratory: run the founding experiments and print their tables")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(run_arguments())
        .subcommand(echo_arguments())
        .subcommand(set::arguments::arguments())
        .subcommand(kv::arguments::command())
        .subcommand(kv::arguments::engine_command())
        .subcommand(crate::report::arguments::command())
        .subcommand(Command::new("list").about("List the experiments"))
}

pub(crate) fn option(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

fn switch(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

pub(crate) fn list(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    option(name, value, help).value_delimiter(',').action(ArgAction::Append)
}

/// Arguments of everything that runs steps.
fn step_arguments(command: Command) -> Command {
    command
        .arg(list("clients", "N[,N]", "Client counts, one step each"))
        .arg(option("seconds", "S", "Measured seconds per step"))
        .arg(option("warm", "S", "Seconds per step before measuring"))
        .arg(option("interval", "S", "Seconds per row of series.csv (1)"))
        .arg(option("rate", "R", "Operations per second of all clients together, by one schedule"))
        .arg(switch("poisson", "With --rate: exponential gaps instead of equal ones"))
        .arg(option("seed", "N", "Seed of the clients' random numbers (1)"))
        .arg(option("out", "DIR", "Folder for run.json, series.csv, tables.txt (lab-results/NAME-TIME)"))
        .arg(option("binary", "FILE", "Binary that managed servers run (this one)"))
        .arg(option("data", "DIR", "Folder that managed servers' data folders are made in (the temporary folder)"))
}

fn run_arguments() -> Command {
    let command = Command::new("run")
        .about("Run an experiment on one or many systems")
        .arg(
            Arg::new("experiment")
                .required(true)
                .value_name("EXPERIMENT")
                .help("pointquery, sysbench, load, query, or a YAML file"),
        )
        .arg(list("engine", "E[,E]", "Storage engines; a server is started for each (ftree)"))
        .arg(list("target", "[NAME=]URI", "Running servers to measure: mongodb://host:port"))
        .arg(
            option("scale", "small|full", "Sizes of the run (small)")
                .value_parser(["small", "full"])
                .default_value("small"),
        )
        .arg(
            option("mode", "compat|fixed", "As the original did, or as its author meant (compat)")
                .value_parser(["compat", "fixed"])
                .default_value("compat"),
        )
        .arg(option("tables", "N", "Collections"))
        .arg(option("docs", "N", "Documents per collection"))
        .arg(option("documents", "N", "query: documents of the data set (1000000)"))
        .arg(list("shape", "TEXT[,TEXT]", "query: only shapes with this in their names"))
        .arg(switch("profile", "query: share of planning, engine and execution in the server's time, by perf"))
        .arg(option("batch", "N", "Documents per insert while loading (1000)"))
        .arg(option("loaders", "N", "Collections loaded at the same time (8)"))
        .arg(option("range", "N", "sysbench: documents per range (100)"))
        .arg(switch("no-echo", "pointquery: leave out the bare TCP echo"))
        .arg(switch("drop", "Replace the collections of another run on a running server"))
        .arg(switch("keep", "Leave the data folders of managed servers"))
        .arg(
            option("server-arg", "ARG", "Passed on to managed servers; may be repeated")
                .action(ArgAction::Append)
                .allow_hyphen_values(true),
        );
    step_arguments(command)
}

fn echo_arguments() -> Command {
    let command = Command::new("echo")
        .about("Measure a bare TCP echo of messages of a point query's size, same runtime, same client")
        .arg(option("bytes", "N", "Bytes of a reply").default_value(POINT_REPLY_BYTES));
    step_arguments(command)
}

/// Runs what the arguments ask for; `engines` are those that `lab kv` may open.
pub fn run(matches: &ArgMatches, engines: &[KvEngine]) -> ExitCode {
    let outcome = match matches.subcommand() {
        Some(("run", matches)) if text(matches, "experiment") == Some("query") => run_query(matches),
        Some(("run", matches)) => run_experiment(matches),
        Some(("echo", matches)) => run_echo(matches),
        Some(("set", matches)) => set::arguments::run(matches).map(|()| Ending::Complete),
        Some(("report", matches)) => crate::report::arguments::run(matches).map(|()| Ending::Complete),
        Some(("kv", matches)) => kv::arguments::run(matches, engines).map(|()| Ending::Complete),
        Some(("kv-engine", matches)) => kv::arguments::run_engine(matches, engines).map(|()| Ending::Complete),
        _ => list_experiments(),
    };
    exit_code(outcome)
}

fn list_experiments() -> Result<Ending> {
    for experiment in built_in()? {
        println!("{:12} {}", experiment.name, experiment.about);
    }
    println!("query        shapes of queries over one data set: time, plan, share of planning, engine, execution");
    Ok(Ending::Complete)
}

fn run_query(matches: &ArgMatches) -> Result<Ending> {
    // no shape is given up halfway: a signal ends the servers and the run
    Interrupt::by_signals()?;
    Ok(if query::arguments::run(matches)? { Ending::Complete } else { Ending::Partial })
}

/// How a run that could begin ended.
enum Ending {
    Complete,
    /// A system could not be measured to the end; the tables say which.
    Partial,
    Interrupted,
}

impl Ending {
    fn of(outcome: &Outcome) -> Ending {
        match outcome {
            Outcome { interrupted: true, .. } => Ending::Interrupted,
            outcome if outcome.systems.iter().any(|system| system.failure.is_some()) => Ending::Partial,
            _ => Ending::Complete,
        }
    }
}

fn exit_code(ending: Result<Ending>) -> ExitCode {
    match ending {
        Ok(Ending::Complete) => ExitCode::SUCCESS,
        Ok(Ending::Partial) => ExitCode::FAILURE,
        // As a shell reports a process that SIGINT ended.
        Ok(Ending::Interrupted) => ExitCode::from(130),
        Err(error @ Error::Usage(_)) => {
            eprintln!("arbor lab: {error}");
            ExitCode::from(2)
        }
        Err(error) => {
            eprintln!("arbor lab: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run_experiment(matches: &ArgMatches) -> Result<Ending> {
    let plan = plan(matches)?;
    report(&plan, &plan.heading(), matches, carry_out)
}

fn run_echo(matches: &ArgMatches) -> Result<Ending> {
    let mut plan = Plan::of(find("pointquery")?, Scale::Small, setup(matches)?);
    plan.clients = ECHO_CLIENTS.to_vec();
    step_options(&mut plan, matches)?;
    plan.experiment.name = "echo".to_owned();
    let bytes = number(matches, "bytes")?.unwrap_or(0);
    let heading = format!("echo: replies of {bytes} bytes, {} s per step", plan.pace.measured.as_secs_f64());
    report(&plan, &heading, matches, |plan, interrupt, watch| echo_only(plan, bytes, interrupt, watch))
}

/// Runs `run` with its files open and its progress on stderr, then prints and writes what came of it.
fn report(
    plan: &Plan,
    heading: &str,
    matches: &ArgMatches,
    run: impl FnOnce(&Plan, &Interrupt, &mut dyn Watch) -> Outcome,
) -> Result<Ending> {
    let folder = match text(matches, "out") {
        Some(folder) => PathBuf::from(folder),
        None => {
            let time = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ");
            Path::new("lab-results").join(format!("{}-{time}", plan.experiment.name))
        }
    };
    std::fs::create_dir_all(&folder).map_err(Error::file(&folder))?;
    let series = Series::create(&folder.join("series.csv"), plan.workload().kinds())?;
    let mut watch = Watcher { series, progress: Progress::new(&plan.experiment.name), failed: false };
    let outcome = run(plan, &Interrupt::by_signals()?, &mut watch);
    watch.progress.clear();

    let text = format!("{heading}\n\n{}", tables(&outcome));
    println!("{text}");
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(Error::file(&path))
    };
    write("tables.txt", &text)?;
    write("run.json", &format!("{:#}\n", manifest(&outcome)))?;
    println!("results: {}", folder.display());
    Ok(Ending::of(&outcome))
}

/// Writes the series and shows the progress.
struct Watcher {
    series: Series,
    progress: Progress,
    failed: bool,
}

impl Watch for Watcher {
    fn interval(&mut self, system: &str, interval: &Interval) {
        if let Err(error) = self.series.interval(system, interval) {
            if !self.failed {
                self.progress.clear();
                eprintln!("arbor lab: series.csv: {error}; the run goes on without it");
            }
            self.failed = true;
        }
        self.progress.interval(system, interval);
    }

    fn phase(&mut self, system: &str, what: &str) {
        self.progress.phase(system, what);
    }
}

fn plan(matches: &ArgMatches) -> Result<Plan> {
    let experiment = find(text(matches, "experiment").unwrap_or_default())?;
    let scale = if text(matches, "scale") == Some("full") { Scale::Full } else { Scale::Small };
    let mut plan = Plan::of(experiment, scale, setup(matches)?);
    plan.mode = if text(matches, "mode") == Some("fixed") { Mode::Fixed } else { Mode::Compat };
    plan.engines = texts(matches, "engine");
    plan.targets = texts(matches, "target").iter().map(|text| MongoDb::parse(text)).collect::<Result<_>>()?;
    if plan.engines.is_empty() && plan.targets.is_empty() {
        plan.engines = vec!["ftree".to_owned()];
    }
    plan.shape.tables = number(matches, "tables")?.unwrap_or(plan.shape.tables);
    plan.shape.rows = number(matches, "docs")?.unwrap_or(plan.shape.rows);
    plan.batch = number(matches, "batch")?.unwrap_or(plan.batch);
    plan.loader_threads = number(matches, "loaders")?.unwrap_or(plan.loader_threads);
    plan.mix.range_size = number(matches, "range")?.unwrap_or(plan.mix.range_size);
    plan.echo &= !matches.get_flag("no-echo");
    plan.drop = matches.get_flag("drop");
    plan.setup.keep = matches.get_flag("keep");
    plan.setup.arguments = texts(matches, "server-arg");
    if plan.shape.tables == 0 || plan.batch == 0 || (plan.shape.rows as usize) < plan.batch {
        return Err(Error::Usage("--tables and --batch must be at least 1, --docs at least --batch".to_owned()));
    }
    if plan.shape.rows > i32::MAX as u32 - plan.mix.range_size {
        return Err(Error::Usage("--docs must fit an int32".to_owned()));
    }
    if plan.experiment.work != Work::Load {
        step_options(&mut plan, matches)?;
    }
    Ok(plan)
}

pub(crate) fn setup(matches: &ArgMatches) -> Result<Setup> {
    let binary = match text(matches, "binary") {
        Some(binary) => PathBuf::from(binary),
        None => std::env::current_exe()?,
    };
    let root = text(matches, "data").map_or_else(default_root, PathBuf::from);
    Ok(Setup { binary, root, arguments: Vec::new(), keep: false })
}

fn step_options(plan: &mut Plan, matches: &ArgMatches) -> Result<()> {
    let clients = texts(matches, "clients");
    if !clients.is_empty() {
        plan.clients = clients.iter().map(|text| parse("clients", text)).collect::<Result<_>>()?;
    }
    if plan.clients.iter().any(|clients| !(1..=10_000).contains(clients)) {
        return Err(Error::Usage("--clients takes numbers from 1 to 10000".to_owned()));
    }
    let pace = &mut plan.pace;
    pace.measured = seconds(matches, "seconds")?.unwrap_or(pace.measured);
    pace.warm = seconds(matches, "warm")?.unwrap_or(pace.warm);
    pace.interval = seconds(matches, "interval")?.unwrap_or(pace.interval);
    pace.seed = number(matches, "seed")?.unwrap_or(pace.seed);
    if pace.measured.is_zero() || pace.interval < Duration::from_millis(10) {
        return Err(Error::Usage("--seconds must be above 0 and --interval at least 0.01".to_owned()));
    }
    if let Some(rate) = number::<f64>(matches, "rate")? {
        if !(rate.is_finite() && rate > 0.0) {
            return Err(Error::Usage("--rate must be above 0".to_owned()));
        }
        pace.rate = Some((rate, if matches.get_flag("poisson") { Arrival::Poisson } else { Arrival::Constant }));
    }
    Ok(())
}

pub(crate) fn text<'a>(matches: &'a ArgMatches, name: &str) -> Option<&'a str> {
    matches.get_one::<String>(name).map(String::as_str)
}

pub(crate) fn texts(matches: &ArgMatches, name: &str) -> Vec<String> {
    matches.get_many::<String>(name).into_iter().flatten().cloned().collect()
}

pub(crate) fn parse<T: FromStr>(name: &str, text: &str) -> Result<T> {
    text.trim().parse().map_err(|_| Error::Usage(format!("--{name}: {text:?} is no number it takes")))
}

pub(crate) fn number<T: FromStr>(matches: &ArgMatches, name: &str) -> Result<Option<T>> {
    text(matches, name).map(|text| parse(name, text)).transpose()
}

fn seconds(matches: &ArgMatches, name: &str) -> Result<Option<Duration>> {
    match number::<f64>(matches, name)? {
        None => Ok(None),
        Some(seconds) => Duration::try_from_secs_f64(seconds)
            .map(Some)
            .map_err(|_| Error::Usage(format!("--{name}: {seconds} is no time"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(arguments: &[&str]) -> Result<Plan> {
        let matches = command().try_get_matches_from([&["lab", "run"], arguments].concat()).unwrap();
        plan(matches.subcommand_matches("run").unwrap())
    }

    #[test]
    fn the_command_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn scales_and_overrides() {
        let small = planned(&["pointquery"]).unwrap();
        assert_eq!(small.shape.tables * small.shape.rows, 1_000_000);
        assert_eq!(
            (small.engines, small.clients, small.echo),
            (vec!["ftree".to_owned()], vec![1, 2, 4, 8, 16, 32, 40], true)
        );
        let other = planned(&[
            "sysbench",
            "--engine",
            "lmdb,ftree",
            "--clients",
            "1,3",
            "--rate",
            "50",
            "--docs",
            "2000",
            "--mode",
            "fixed",
        ])
        .unwrap();
        assert_eq!((other.engines.len(), other.clients, other.shape.rows, other.echo), (2, vec![1, 3], 2000, false));
        assert_eq!((other.mode, other.pace.rate), (Mode::Fixed, Some((50.0, Arrival::Constant))));
        assert!(planned(&["load"]).unwrap().clients.is_empty());
    }

    #[test]
    fn nonsense_is_refused() {
        for bad in [
            &["frobnicate"][..],
            &["pointquery", "--clients", "0"],
            &["pointquery", "--clients", "x"],
            &["pointquery", "--seconds=-1"],
            &["pointquery", "--seconds", "0"],
            &["pointquery", "--rate", "0"],
            &["pointquery", "--docs", "10"],
            &["pointquery", "--docs", "4000000000"],
            &["pointquery", "--target", "mongodb://u:p@h"],
        ] {
            assert!(matches!(planned(bad), Err(Error::Usage(_))), "{bad:?}");
        }
    }
}
