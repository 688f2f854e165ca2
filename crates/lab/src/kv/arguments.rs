//! `arbor lab kv ...`.

use std::path::Path;

use clap::{ArgMatches, Command};

use super::child::{self, EngineProcess};
use super::conduct::{Outcome, PhaseObserver, Runner, conduct};
use super::{KvEngine, KvOptions, Phase, summary};
use crate::cli::{list, number, option, parse, switch, text, texts};
use crate::experiment::{check_room, default_root, environment};
use crate::report::heading_text;
use crate::results::Ending;
use crate::run::Interrupt;
use crate::target::control_groups::ControlGroups;
use crate::{Error, Result};

/// Bytes on disk at most for a byte of a row: B-trees that are loaded in random order, and the log.
const DISK_BYTES: u64 = 5;
/// Cache of a cold run unless another is given, and the memory in addition to it.
const COLD_CACHE_MB: u64 = 256;
const COLD_REST_MB: u64 = 128;
const KILL_ROWS_MAX: u64 = 4_000_000;

pub(crate) fn command() -> Command {
    Command::new("kv")
        .about("Measure the storage engines alone, side by side: loads, gets, scans, range deletes, reopening")
        .arg(list("engines", "E[,E]", "Engines, in the order of their turns (all of this build)").alias("engine"))
        .arg(list("only", "PHASE[,PHASE]", "Only these phases, and the load that they need (all)"))
        .arg(option("peer", "E", "Engine to compare the others with (the last of --engines)"))
        .arg(option("rows", "N", "Rows of a load (1000000)"))
        .arg(option("value-bytes", "N", "Bytes of a value, half of them zeros (120)"))
        .arg(option("batch", "N", "Puts per batch (100)"))
        .arg(option("calls", "N", "Maximum operations of each phase after the loads (rows / 5)").alias("reads"))
        .arg(option("seconds", "S", "Maximum seconds of each such phase (60)"))
        .arg(option("load-seconds", "S", "Maximum seconds of a load; the rest is put in key order (600)"))
        .arg(option("idle", "S", "Idle seconds before scan-100-idle (5)"))
        .arg(list("threads", "N[,N]", "Thread counts of get (1,2,4)"))
        .arg(option("kill-rows", "N", "Rows of the load that kill -9 ends (rows, 4000000 at most)"))
        .arg(switch(
            "cold",
            "Bound the memory of each engine with its page cache (cgroup), or direct I/O where there is none",
        ))
        .arg(option("cache-mb", "MB", "Cache of engines that have one (1024; with --cold 256)"))
        .arg(option("memory-mb", "MB", "With --cold: the memory limit (the cache and 128)"))
        .arg(switch("no-log", "Batches do not go through the log, which is synced every 100 ms"))
        .arg(option(
            "zipfian",
            "S",
            "Rows that are read and changed are Zipf-distributed with this shape, as 0.99 (uniform)",
        ))
        .arg(list(
            "times",
            "N[,N]",
            "With --cold: a run for each size of the data, in multiples of the cache, instead of --rows",
        ))
        .arg(option("seed", "N", "Seed of the random numbers (1)"))
        .arg(option("data", "DIR", "Directory that the data directories are made in (the temporary directory)"))
        .arg(option("out", "FILE", "Write the statistics as JSON to this file"))
}

/// Returns the hidden command that the processes of the engines run.
pub(crate) fn engine_command() -> Command {
    let given = |name| option(name, "", "").required(true);
    Command::new(child::COMMAND).hide(true).args([given("engine"), given("options"), given("directory")])
}

pub(crate) fn run(matches: &ArgMatches, engines: &[KvEngine]) -> Result<Ending> {
    let options = options(matches)?;
    let engines = chosen(matches, engines)?;
    let peer = text(matches, "peer").or(engines.last().map(|engine| engine.name)).unwrap_or_default();
    if !engines.iter().any(|engine| engine.name == peer) {
        return Err(Error::Usage(format!("--peer: {peer:?} is not among --engines")));
    }
    let directory = text(matches, "data").map_or_else(default_root, |directory| Path::new(directory).to_owned());
    let out = text(matches, "out").map(Path::new);
    if let Some(path) = out {
        // Before hours of measuring, not after them.
        std::fs::File::options().create(true).append(true).open(path).map_err(Error::file(path))?;
    }
    let environment = environment(&directory);
    let interrupt = Interrupt::by_signals()?;
    let mut runs: Vec<(KvOptions, Outcome)> = Vec::new();
    for options in options {
        let outcome = measure(matches, &options, &engines, &directory, &interrupt, &mut |_, _, _| {})?;
        let interrupted = outcome.interrupted.is_some();
        runs.push((options, outcome));
        if interrupted {
            break;
        }
    }
    println!("{}", heading_text(&environment));
    for engine in &engines {
        let facts = (engine.facts)();
        let library = facts.library.map_or(String::new(), |library| format!("{library}, "));
        println!("{:12}{library}compression {}", engine.name, facts.compression);
    }
    println!();
    for (options, outcome) in &runs {
        for part in &outcome.parts {
            println!("{}", summary::of_engine(options, part));
        }
        println!("{}", summary::side_by_side(options, &outcome.parts, peer));
    }
    if runs.len() > 1 {
        println!("{}", summary::growth(&runs));
    }
    if let Some(path) = out {
        let records: Vec<_> = runs.iter().map(|(options, outcome)| record(options, outcome, &environment)).collect();
        let text = match records.as_slice() {
            [one] => format!("{one:#}\n"),
            all => format!("{:#}\n", serde_json::json!({ "runs": all })),
        };
        std::fs::write(path, text).map_err(Error::file(path))?;
    }
    if let Some(phase) = runs.iter().find_map(|(_, outcome)| outcome.interrupted) {
        println!("interrupted in {phase}: what was measured until then is kept");
        return Ok(Ending::Interrupted);
    }
    let parts = runs.iter().flat_map(|(_, outcome)| &outcome.parts);
    let failures: Vec<String> =
        parts.filter_map(|part| part.failure.as_ref().map(|why| format!("{}: {why}", part.engine.name))).collect();
    if failures.is_empty() { Ok(Ending::Complete) } else { Err(Error::Engine(failures.join("; "))) }
}

/// Runs the phases that the arguments ask for, in directories below `directory`.
pub(super) fn measure(
    matches: &ArgMatches,
    options: &KvOptions,
    engines: &[KvEngine],
    directory: &Path,
    interrupt: &Interrupt,
    observer: PhaseObserver<'_>,
) -> Result<Outcome> {
    let phases =
        Phase::chosen(options, &texts(matches, "only")).map_err(|error| Error::Usage(format!("--only: {error}")))?;
    let row = DISK_BYTES * (options.value_bytes as u64 + 8);
    let bytes = options.rows.saturating_mul(row).saturating_mul(engines.len() as u64);
    check_room(directory, bytes, &format!("kv with {} rows on {} engines", options.rows, engines.len()), "--rows")?;
    let start = |options: &KvOptions, engine, directory: &Path| -> Result<Box<dyn Runner>> {
        Ok(Box::new(EngineProcess::start(options, engine, directory, interrupt)?))
    };
    conduct(options, engines, &phases, directory, &start, interrupt, observer)
}

/// Serves one engine of `lab kv`.
pub(crate) fn run_engine(matches: &ArgMatches, engines: &[KvEngine]) -> Result<()> {
    let name = text(matches, "engine").unwrap_or_default();
    let options = serde_json::from_str(text(matches, "options").unwrap_or_default())
        .map_err(|error| Error::Usage(format!("--options: {error}")))?;
    let directory = Path::new(text(matches, "directory").unwrap_or_default());
    child::serve(&options, KvEngine::asked(engines, "engine", name)?, directory)
}

/// Returns the options of each run: one, or one for each size of the data.
pub(super) fn options(matches: &ArgMatches) -> Result<Vec<KvOptions>> {
    let one = options_of_rows(matches)?;
    let times: Vec<u64> = texts(matches, "times").iter().map(|text| parse("times", text)).collect::<Result<_>>()?;
    if times.is_empty() {
        return Ok(vec![one]);
    }
    if !matches.get_flag("cold") || times.contains(&0) {
        return Err(Error::Usage("--times: numbers from 1 on, with --cold: memory has to be bounded".to_owned()));
    }
    let sized = |times: u64| {
        let rows = (times * one.cache_bytes / (one.value_bytes as u64 + 8)).max(10);
        let calls = if number::<u64>(matches, "calls")?.is_some() { one.calls } else { rows / 5 };
        let kill_rows = number(matches, "kill-rows")?.unwrap_or(rows.min(KILL_ROWS_MAX));
        Ok(KvOptions { rows, calls, kill_rows, ..one.clone() })
    };
    times.into_iter().map(sized).collect()
}

fn options_of_rows(matches: &ArgMatches) -> Result<KvOptions> {
    let usual = KvOptions::default();
    let rows = number(matches, "rows")?.unwrap_or(usual.rows).max(10);
    let threads = match texts(matches, "threads") {
        given if given.is_empty() => usual.threads,
        given => given.iter().map(|text| parse("threads", text)).collect::<Result<_>>()?,
    };
    if threads.contains(&0) {
        return Err(Error::Usage("--threads: at least one".to_owned()));
    }
    let zipfian: Option<f64> = number(matches, "zipfian")?;
    if zipfian.is_some_and(|shape| !(0.01..10.0).contains(&shape) || shape == 1.0) {
        return Err(Error::Usage("--zipfian takes a number between 0.01 and 10 other than 1".to_owned()));
    }
    let cold = matches.get_flag("cold");
    let cache_mb = number(matches, "cache-mb")?.unwrap_or(if cold { COLD_CACHE_MB } else { 1024 });
    let memory_mb = number(matches, "memory-mb")?.unwrap_or(cache_mb + COLD_REST_MB);
    let memory_bytes = (cold && ControlGroups::may_limit_memory()).then_some(memory_mb << 20);
    Ok(KvOptions {
        rows,
        value_bytes: number(matches, "value-bytes")?.unwrap_or(usual.value_bytes),
        batch: number(matches, "batch")?.unwrap_or(usual.batch).max(1),
        calls: number(matches, "calls")?.unwrap_or(rows / 5),
        seconds: number(matches, "seconds")?.unwrap_or(usual.seconds),
        load_seconds: number(matches, "load-seconds")?.unwrap_or(usual.load_seconds),
        idle_seconds: number(matches, "idle")?.unwrap_or(usual.idle_seconds),
        threads,
        seed: number(matches, "seed")?.unwrap_or(usual.seed),
        cache_bytes: cache_mb << 20,
        memory_bytes,
        direct_io: cold && memory_bytes.is_none(),
        log: !matches.get_flag("no-log"),
        zipfian,
        kill_rows: number(matches, "kill-rows")?.unwrap_or(rows.min(KILL_ROWS_MAX)),
    })
}

/// The run as a file that can be compared later.
fn record(options: &KvOptions, outcome: &Outcome, environment: &serde_json::Value) -> serde_json::Value {
    let engines = outcome.parts.iter().map(|part| {
        let phases = part
            .statistics
            .iter()
            .map(|(phase, statistics)| serde_json::json!({ "phase": phase.to_string(), "figures": statistics }));
        let facts = (part.engine.facts)();
        serde_json::json!({ "engine": part.engine.name, "library": facts.library, "compression": facts.compression, "failure": part.failure, "phases": phases.collect::<Vec<_>>() })
    });
    serde_json::json!({
        "arbor": crate::build(),
        "time": jiff::Timestamp::now().to_string(),
        "environment": environment,
        "options": options,
        "interrupted": outcome.interrupted.map(|phase| phase.to_string()),
        "engines": engines.collect::<Vec<_>>(),
    })
}

fn chosen(matches: &ArgMatches, engines: &[KvEngine]) -> Result<Vec<KvEngine>> {
    let names = texts(matches, "engines");
    if names.is_empty() {
        return Ok(engines.iter().filter_map(|engine| engine.usable().ok()).collect());
    }
    KvEngine::all_asked(engines, "engines", &names)
}
