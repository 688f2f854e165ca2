//! `kv` as an experiment of the list: its figures in a results directory like everybody's.

use std::collections::BTreeMap;
use std::path::Path;

use super::arguments;
use super::{Figures, KvEngine, Phase};
use crate::experiment::{Book, Plan};
use crate::report;
use crate::results::{self, Clock, Ending, LatencyRow, Record, StepRecord};
use crate::run::Interrupt;
use crate::{Error, Result};

/// What one operation of each phase is differs: `unit` of the record says only that it is one.
const UNIT: &str = "operation";

pub(crate) fn run_as_experiment(
    plan: &Plan,
    directory: &Path,
    engines: &[KvEngine],
    interrupt: &Interrupt,
) -> Result<Ending> {
    let chosen: Vec<KvEngine> =
        plan.parameters.engines.iter().map(|name| arguments::find(engines, name)).collect::<Result<_>>()?;
    let typed = ["kv".to_owned()].into_iter().chain(plan.parameters.arguments.iter().cloned());
    let matches = arguments::command()
        .try_get_matches_from(typed)
        .map_err(|error| Error::Usage(format!("{}: arguments: {error}", plan.experiment.name)))?;
    let record = Record { unit: UNIT.to_owned(), kinds: vec![UNIT.to_owned()], ..Book::record_of(plan) };
    let mut book = Book::with(directory, record, plan, Vec::new())?;
    chosen.iter().for_each(|engine| book.begin(engine.name));
    // Each engine's clock is its own: the phases of all are interleaved.
    let mut clocks: BTreeMap<&str, f64> = BTreeMap::new();
    let outcome = arguments::measure(&matches, &chosen, &plan.setup.root, interrupt, &mut |engine, phase, figures| {
        let begin_s = clocks.entry(engine.name).or_default();
        book.add_to(engine.name, step(&phase, figures, *begin_s));
        *begin_s += figures.seconds;
    });
    match outcome {
        Ok(outcome) => {
            for part in &outcome.parts {
                part.failure.iter().for_each(|failure| book.fail_of(part.engine.name, failure));
            }
            outcome.interrupted.iter().for_each(|phase| book.remark(&format!("interrupted in {phase}")));
        }
        Err(error) => chosen.iter().for_each(|engine| book.fail_of(engine.name, &error.to_string())),
    }
    let ending = book.close(interrupt.is_set());
    drop(book);
    println!("{}", report::text(&report::draw(directory)?));
    println!("results: {}", directory.display());
    Ok(ending)
}

fn step(phase: &Phase, figures: &Figures, begin_s: f64) -> StepRecord {
    let operations = figures.operations as f64;
    let per = |value: f64| if operations > 0.0 { value / operations } else { 0.0 };
    let named = [
        ("seconds", figures.seconds),
        ("units", operations),
        ("per_second", figures.rate()),
        ("server_cpu_us_per_unit", per(figures.cpu_s * 1e6)),
        ("server_read_kb_per_unit", per(figures.read_bytes as f64 / 1024.0)),
        ("server_write_kb_per_unit", per(figures.written_bytes as f64 / 1024.0)),
        ("du_bytes", figures.disk_bytes as f64),
        ("documents", figures.rows as f64),
        ("rss_peak_bytes", figures.peak_bytes as f64),
    ];
    let latency = LatencyRow {
        kind: UNIT.to_owned(),
        count: figures.operations,
        mean: figures.mean_us,
        p50: figures.p50_us,
        p90: figures.p90_us,
        p95: figures.p95_us,
        p99: figures.p99_us,
        p999: figures.p999_us,
        max: figures.max_ms * 1000.0,
        clock: Clock::Service,
    };
    StepRecord {
        name: phase.to_string(),
        phase: results::Phase::Run,
        clients: 1,
        repeat: 1,
        settings: BTreeMap::from([("phase".to_owned(), phase.to_string().into())]),
        begin_s,
        end_s: begin_s + figures.seconds,
        unit: UNIT.to_owned(),
        figures: named.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        latencies: vec![latency],
        marks: (!figures.note.is_empty()).then(|| figures.note.clone()).into_iter().collect(),
        ..StepRecord::default()
    }
}
