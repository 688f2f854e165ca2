//! The commands and their arguments.

use clap::{Arg, ArgAction, Command};

use crate::{agent, export, generator, kv, replset, report, site};

/// Bytes of a point query's reply on a sysbench document, for `lab echo` without a server to ask.
const POINT_REPLY_BYTES: &str = "330";

/// The subcommand `lab`, for the binary to mount.
pub fn command() -> Command {
    Command::new("lab")
        .about("Benchmarks: run the founding experiments, with their tables and charts")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(run())
        .subcommand(Command::new("list").about("List the experiments"))
        .subcommand(
            Command::new("describe")
                .about("Show an experiment's purpose, expected result, duration and disk space")
                .arg(experiment()),
        )
        .subcommand(report::arguments::command())
        .subcommand(
            Command::new("compare")
                .about("Compare runs step by step: same, better, worse, or too few data for a verdict")
                .arg(directories("Directories of runs; the first is what the others are compared with"))
                .arg(option("page", "FILE", "Write the comparison as a page with charts, too")),
        )
        .subcommand(site::arguments::command())
        .subcommand(export::command())
        .subcommand(generator::arguments())
        .subcommand(replay())
        .subcommand(echo())
        .subcommand(replset::arguments::arguments())
        .subcommand(agent::arguments())
        .subcommand(kv::arguments::command())
        .subcommand(kv::arguments::engine_command())
}

pub(crate) fn option(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

pub(crate) fn switch(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

pub(crate) fn list(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    option(name, value, help).value_delimiter(',').action(ArgAction::Append)
}

fn experiment() -> Arg {
    Arg::new("experiment").required(true).value_name("EXPERIMENT").help("A name of `arbor lab list`, or a YAML file")
}

pub(crate) fn directories(help: &'static str) -> Arg {
    Arg::new("directory").required(true).value_name("DIR").action(ArgAction::Append).num_args(1..).help(help)
}

/// Adds the binary of managed servers and the parent of their data directories.
pub(crate) fn servers(command: Command) -> Command {
    command.arg(option("binary", "FILE", "Binary that managed servers run (this one)")).arg(option(
        "data",
        "DIR",
        "Directory that managed servers' data directories are made in (the temporary directory); run: NAME=DIR,NAME=DIR for several devices, DIR+200iops+40mb for a slowed one",
    ))
}

/// Adds where results are written, the live page, and the arguments of managed servers.
fn results(command: Command) -> Command {
    let command = command.arg(option("out", "DIR", "Directory for the results (lab-results/NAME-TIME)")).arg(option(
        "live",
        "PORT",
        "Serve a page at http://127.0.0.1:PORT that shows the run in progress",
    ));
    servers(command)
}

/// Arguments of everything that runs steps.
fn steps(command: Command) -> Command {
    results(command)
        .arg(list("clients", "N[,N]", "Client counts, one step each"))
        .arg(option("connections-per-thread", "N", "Clients that share a thread, for point queries (1)"))
        .arg(option("seconds", "S", "Measured seconds per step"))
        .arg(option("warm", "S", "Seconds per step before measuring"))
        .arg(option("steady", "S", "Extend the warm-up until the rate is steady, up to S seconds"))
        .arg(option("interval", "S", "Seconds per row of series.csv"))
        .arg(option("repeats", "N", "Repeats of each step, in random order"))
        .arg(option("rate", "R", "Operations per second of all clients together, by one schedule (a gate)"))
        .arg(list("ramp", "RATE@S[,RATE@S]", "Rates at measured seconds of each step, changing evenly between them"))
        .arg(
            option(
                "threshold",
                "METRIC<N",
                "Bound on each step, as p99<5 (ms) or rate>1000; otherwise exit status 3; may be repeated",
            )
            .action(ArgAction::Append),
        )
        .arg(option("search-p99", "MS", "Search for the highest rate with p99, from when operations are due, below MS"))
        .arg(switch("poisson", "With --rate: exponential gaps instead of equal ones"))
        .arg(option("seed", "N", "Seed of the clients' random numbers and of the order of repeats (1)"))
}

fn run() -> Command {
    let command = Command::new("run")
        .about("Run an experiment on one or many systems")
        .arg(
            Arg::new("experiment")
                .required(true)
                .value_name("EXPERIMENT")
                .help("A name of `arbor lab list`, all, query, or a YAML file"),
        )
        .arg(list(
            "engine",
            "E[,E]",
            "Storage engines; a server is started for each (ftree); all: those of this build and MariaDB where it runs",
        ))
        .arg(list(
            "mysql",
            "NAME=DIR",
            "Installed MySQLs or MariaDBs, whose engines are NAME.innodb, NAME.myrocks and so on",
        ))
        .arg(list(
            "target",
            "[NAME=]URI",
            "Running servers: mongodb://host:port, mysql://user:password@host:port, mysql+handler://...",
        ))
        .arg(list(
            "generator",
            "HOST:PORT",
            "Hosts (`arbor lab generator`) that run a part of the clients of each step on running servers",
        ))
        .arg(list(
            "agent",
            "NAME=HOST:PORT",
            "Agents (`arbor lab agent`) on the hosts of running servers, by the servers' names",
        ))
        .arg(list(
            "driver",
            "lean,official",
            "Client code against MongoDB and Arbor: our own, the crate mongodb, or both (lean)",
        ))
        .arg(
            option("scale", "small|full", "Sizes of the run (small)")
                .value_parser(["small", "full"])
                .default_value("small"),
        )
        .arg(
            option("mode", "compat|fixed", "As the original did, or as its author intended (the experiment's own)")
                .value_parser(["compat", "fixed"]),
        )
        .arg(
            option(
                "settings",
                "ours|text",
                "Settings of servers: our own, or the founding text's where it has some (ours)",
            )
            .value_parser(["ours", "text"]),
        )
        .arg(option("set", "NAME=VALUE", "A setting of the workload; may be repeated").action(ArgAction::Append))
        .arg(option("tables", "N", "--set tables=N"))
        .arg(option("docs", "N", "--set docs=N: documents per collection"))
        .arg(option("batch", "N", "--set batch=N: documents per insert while loading"))
        .arg(option("range", "N", "--set range_size=N: documents per range"))
        .arg(option("rounds", "N", "Rounds of all client counts, one after the other on the same data"))
        .arg(list("cache-mb", "MB[,MB]", "Cache sizes; the server is restarted for each"))
        .arg(option(
            "memory",
            "TIMES",
            "Memory of the server with its page cache, in multiples of its cache (cgroup); 0: no limit",
        ))
        .arg(list("syncdelay", "S[,S]", "Seconds between checkpoints; the server is restarted for each"))
        .arg(option("loaders", "N", "Streams that load at the same time (8)"))
        .arg(option("documents", "N", "query: documents of the data set (1000000)"))
        .arg(list("shape", "TEXT[,TEXT]", "query: only shapes with this in their names"))
        .arg(switch("profile", "query: share of planning, engine and execution in the server's time, by perf"))
        .arg(option("peer", "E", "kv: engine that the others are compared with in the report (the last one)"))
        .arg(switch("no-echo", "001-point-queries: leave out the bare TCP echo"))
        .arg(switch("drop", "Replace the collections of another run on a running server"))
        .arg(switch("keep", "Keep the data directories of managed servers"))
        .arg(
            option("server-arg", "ARG", "Passed on to managed servers; may be repeated")
                .action(ArgAction::Append)
                .allow_hyphen_values(true),
        );
    steps(command)
}

fn replay() -> Command {
    let command = Command::new("replay")
        .about("Repeat the run of a directory: same experiment, sizes, seed, schedule, systems")
        .arg(directories("Directory of a run"))
        .arg(switch("drop", "Replace the collections of another run on a running server"));
    results(command)
}

fn echo() -> Command {
    let command = Command::new("echo")
        .about("Measure a bare TCP echo of messages of a point query's size, same runtime, same client")
        .arg(option("bytes", "N", "Bytes of a reply").default_value(POINT_REPLY_BYTES));
    steps(command)
}
