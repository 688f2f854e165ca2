//! `kv` as an experiment of the list: its statistics in a results directory like those of any other experiment.

use std::collections::BTreeMap;
use std::path::Path;

use super::arguments;
use super::conduct::PhaseObserver;
use super::{KvEngine, Phase, PhaseStatistics};
use crate::experiment::{Plan, RunLog};
use crate::report;
use crate::results::{self, Clock, Ending, LatencyRow, Record, StepRecord};
use crate::run::Interrupt;
use crate::target::managed::Flags;
use crate::{Error, Result};

/// Unit of all phases; what one operation is differs by phase.
const UNIT: &str = "operation";

pub(crate) fn run_as_experiment(
    plan: &Plan,
    directory: &Path,
    engines: &[KvEngine],
    interrupt: &Interrupt,
) -> Result<Ending> {
    let chosen = KvEngine::all_asked(engines, "engine", &plan.parameters.engines)?;
    let typed = ["kv".to_owned()].into_iter().chain(plan.parameters.arguments.iter().cloned());
    let matches = arguments::command()
        .try_get_matches_from(typed)
        .map_err(|error| Error::Usage(format!("{}: arguments: {error}", plan.experiment.name)))?;
    let record = Record { unit: UNIT.to_owned(), kinds: vec![UNIT.to_owned()], ..RunLog::record_of(plan) };
    if let Some(peer) = plan.parameters.peer.as_ref().filter(|peer| !chosen.iter().any(|engine| engine.name == *peer)) {
        return Err(Error::Usage(format!("--peer: {peer:?} is not among the engines of this run")));
    }
    let mut log = RunLog::with(directory, record, plan, Vec::new())?;
    for engine in &chosen {
        log.begin(engine.name);
        log.about(plan.known(engine.name, &Flags::default()).into());
    }
    // Each engine's clock is its own: the phases of all are interleaved.
    let mut clocks: BTreeMap<&str, f64> = BTreeMap::new();
    let all = arguments::options(&matches)?;
    let several = all.len() > 1;
    for options in all {
        let times = several.then(|| options.times_of_cache().round() as u64);
        let observer: PhaseObserver<'_> = &mut |engine, phase, statistics| {
            let begin_s = clocks.entry(engine.name).or_default();
            log.add_to(engine.name, step(&phase, times, statistics, *begin_s));
            *begin_s += statistics.seconds;
        };
        match arguments::measure(&matches, &options, &chosen, &plan.setup.root, interrupt, observer) {
            Ok(outcome) => {
                for part in &outcome.parts {
                    part.failure.iter().for_each(|failure| log.fail_of(part.engine.name, failure));
                }
                outcome.interrupted.iter().for_each(|phase| log.remark(&format!("interrupted in {phase}")));
            }
            Err(error) => chosen.iter().for_each(|engine| log.fail_of(engine.name, &error.to_string())),
        }
        if interrupt.is_set() {
            break;
        }
    }
    let ending = log.close(interrupt.is_set());
    drop(log);
    println!("{}", report::text(&report::draw(directory)?));
    println!("results: {}", directory.display());
    Ok(ending)
}

/// `times`: the size of the data in multiples of the cache, where several are measured.
fn step(phase: &Phase, times: Option<u64>, statistics: &PhaseStatistics, begin_s: f64) -> StepRecord {
    let name = times.map_or_else(|| phase.to_string(), |times| report::phase_at(&phase.to_string(), times));
    let settings = BTreeMap::from([("phase".to_owned(), name.as_str().into())]);
    let operations = statistics.operations as f64;
    let per = |value: f64| if operations > 0.0 { value / operations } else { 0.0 };
    let named = [
        ("seconds", statistics.seconds),
        ("units", operations),
        ("per_second", statistics.rate()),
        ("server_cpu_us_per_unit", per(statistics.cpu_s * 1e6)),
        ("server_read_kb_per_unit", per(statistics.read_bytes as f64 / 1024.0)),
        ("server_write_kb_per_unit", per(statistics.written_bytes as f64 / 1024.0)),
        ("du_bytes", statistics.disk_bytes as f64),
        ("documents", statistics.rows as f64),
        ("rss_peak_bytes", statistics.peak_bytes as f64),
        (report::BY_TIME, if phase.by_time() { 1.0 } else { 0.0 }),
    ];
    let latency = LatencyRow {
        kind: UNIT.to_owned(),
        count: statistics.operations,
        mean: statistics.mean_us,
        p50: statistics.p50_us,
        p90: statistics.p90_us,
        p95: statistics.p95_us,
        p99: statistics.p99_us,
        p999: statistics.p999_us,
        max: statistics.max_ms * 1000.0,
        clock: Clock::Service,
    };
    StepRecord {
        name,
        phase: results::Phase::Run,
        clients: 1,
        repeat: 1,
        settings,
        begin_s,
        end_s: begin_s + statistics.seconds,
        unit: UNIT.to_owned(),
        metrics: named.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        latencies: vec![latency],
        marks: (!statistics.note.is_empty()).then(|| statistics.note.clone()).into_iter().collect(),
        ..StepRecord::default()
    }
}
