//! Writes runs of made-up metrics, one of each kind of experiment, and draws their reports: for the tests of the pages.
//!
//!     cargo run -p arbor-lab --example sample_runs -- DIRECTORY
//!     cargo run -p arbor-lab --example sample_runs -- --live PORT      # plays a run on a live page until its input ends

use std::collections::BTreeMap;
use std::error::Error;
use std::f64::consts::TAU;
use std::path::{Path, PathBuf};
use std::time::Duration;

use arbor_lab::compare;
use arbor_lab::live::{Estimate, Live, Moment, News};
use arbor_lab::report::{draw, draw_index};
use arbor_lab::results::{
    Clock, Ending, ErrorCount, Event, EventKind, LatencyRow, Phase, Point, Record, Run, StepRecord, SystemRecord,
    Writer,
};
use arbor_lab::run::Watch;
use arbor_lab::site::{self, Prices};
use hdrhistogram::Histogram;
use serde_json::{Value, json};

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let directory = match arguments.as_slice() {
        [directory] => PathBuf::from(directory),
        [option, port] if option == "--live" => return play(port.parse()?),
        _ => return Err("usage: sample_runs DIRECTORY | --live PORT".into()),
    };
    let runs = [rounds(), ladder(), caches(), moves(), ycsb(), recovery(), inserts(), phases(), repeats(), cut_short()];
    let mut directories = Vec::new();
    for plan in runs {
        let path = directory.join(&plan.record.experiment);
        if path.exists() {
            std::fs::remove_dir_all(&path)?;
        }
        write(&path, plan)?;
        draw(&path)?;
        directories.push(path);
    }
    println!("{}", draw_index(&directory, "Sample runs", &directories)?.display());
    directories.extend(history(&directory.join("history"))?);
    let compared =
        directories.iter().rev().take(8).step_by(7).map(|run| Run::read(run)).collect::<Result<Vec<_>, _>>()?;
    std::fs::write(directory.join("comparison.html"), compare::page(&compared))?;
    let prices = directory.join("prices.yaml");
    std::fs::write(
        &prices,
        "currency: EUR\ninstances:\n  small: {per_hour: 0.36}\n  other: {per_hour: 1, processors: 64}\n",
    )?;
    let file = directory.join("site.html");
    std::fs::write(&file, site::page(&file, "Sample site", &directories, Some(&Prices::read(&prices)?))?)?;
    Ok(())
}

/// Writes runs of fourteen commits on one machine; from the eighth on one system is a third slower.
fn history(parent: &Path) -> Outcome<Vec<PathBuf>> {
    let mut directories = Vec::new();
    for n in 0..14_u32 {
        let mut record = record("sysbench", "nightly", "transaction", &["transaction"], &["ftree", "lmdb"]);
        record.scale = "full".to_owned();
        record.started = format!("2026-10-{:02}T01:00:00Z", n + 1);
        record.arbor_version = format!("0.1.0, commit {n:02x}{}, release", "5a".repeat(19));
        let by = 1.0 + 0.01 * (f64::from(n) * 2.3).sin();
        let slower = if n < 7 { 1.0 } else { 0.66 };
        let mut steps = vec![(0, load(50_000.0))];
        for (system, rate) in [(0, 500.0 * by * slower), (1, 400.0 * by)] {
            let one =
                |name: &str, clients: usize, by: f64| Step { seconds: 12, ..step(name, clients, rate * by, waves) };
            steps.extend([(system, one("c1", 1, 1.0)), (system, one("c8", 8, 5.0))]);
        }
        let path = parent.join(format!("{n:02}"));
        if path.exists() {
            std::fs::remove_dir_all(&path)?;
        }
        write(&path, Plan { record, steps, events: Vec::new() })?;
        draw(&path)?;
        directories.push(path);
    }
    Ok(directories)
}

/// One run to be: its record without steps, and what each step brings.
struct Plan {
    record: Record,
    steps: Vec<(usize, Step)>,
    events: Vec<Event>,
}

/// A step of a system, described by its mean rate and the events during it.
struct Step {
    name: String,
    phase: Phase,
    clients: usize,
    settings: BTreeMap<String, Value>,
    seconds: u32,
    rate: f64,
    /// The rate at a second, as a part of the mean.
    form: fn(f64) -> f64,
    scheduled: bool,
}

fn record(experiment: &str, about: &str, unit: &str, kinds: &[&str], systems: &[&str]) -> Record {
    let system = |name: &&str| SystemRecord {
        name: (*name).to_owned(),
        about: json!({"engine": name, "version": "8.0.0", "cache_mb": 256}),
        ..SystemRecord::default()
    };
    Record {
        format: 1,
        experiment: experiment.to_owned(),
        about: about.to_owned(),
        founding_text: Some(experiment.chars().take(3).collect()),
        scale: "small".to_owned(),
        mode: "compat".to_owned(),
        seed: 1,
        unit: unit.to_owned(),
        kinds: kinds.iter().map(|kind| (*kind).to_owned()).collect(),
        schedule: "closed loop".to_owned(),
        parameters: json!({"made_up": true, "documents": 1_000_000}),
        arbor_version: "0.1.0".to_owned(),
        command_line: ["arbor", "lab", "run", experiment].map(str::to_owned).into(),
        client_placement: "same host as the server".to_owned(),
        started: "2026-11-21T12:00:00Z".to_owned(),
        ended: Some("2026-11-21T12:34:00Z".to_owned()),
        ending: Ending::Complete,
        remarks: vec!["These numbers are made up; nothing was measured.".to_owned()],
        systems: systems.iter().map(system).collect(),
        text: format!("name: {experiment}\n"),
    }
}

fn step(name: &str, clients: usize, rate: f64, form: fn(f64) -> f64) -> Step {
    let name = name.to_owned();
    Step { name, phase: Phase::Run, clients, settings: BTreeMap::new(), seconds: 60, rate, form, scheduled: false }
}

fn load(rate: f64) -> Step {
    Step { phase: Phase::Load, seconds: 20, ..step("load", 8, rate, |t| 1.0 - t / 60.0) }
}

fn waves(t: f64) -> f64 {
    1.0 + 0.06 * (t / 7.0 * TAU).sin() + 0.04 * (t / 2.3 * TAU).sin()
}

fn dips(t: f64) -> f64 {
    if (35.0..42.0).contains(&(t % 60.0)) { 0.25 } else { waves(t) }
}

fn rounds() -> Plan {
    let kinds = ["get_links_list", "add_link", "update_link", "get_node"];
    let record = record("000-linkbench-cached", "LinkBench, cached, in rounds", "query", &kinds, &["ftree", "lmdb"]);
    let mut steps = Vec::new();
    for (system, first, kept) in [(0, 9000.0, 0.97_f64), (1, 11_000.0, 0.93)] {
        steps.push((system, load(60_000.0)));
        for round in 1..=12_i32 {
            let mut one = step(&format!("round{round}"), 12, first * kept.powi(round - 1), waves);
            one.settings.insert("round".to_owned(), json!(round));
            steps.push((system, Step { seconds: 30, ..one }));
        }
    }
    Plan { record, steps, events: Vec::new() }
}

fn ladder() -> Plan {
    let systems = ["ftree", "lmdb", "rocksdb", "tcp-echo"];
    let record =
        record("001-point-queries", "cached point queries by clients", "point_query", &["point_query"], &systems);
    let mut steps = Vec::new();
    for (system, one) in [(0, 17_000.0), (1, 21_000.0), (2, 15_000.0), (3, 40_000.0)] {
        for clients in [1, 2, 4, 8, 16, 32, 40] {
            let rate = one * f64::from(clients).min(4.0 + f64::from(clients) / 40.0);
            steps.push((system, step(&format!("c{clients}"), clients as usize, rate, waves)));
        }
    }
    Plan { record, steps, events: Vec::new() }
}

fn caches() -> Plan {
    let kinds = ["transaction", "point_query", "range"];
    let mut record = record(
        "002-readwrite-checkpoints",
        "sysbench by cache and threads",
        "transaction",
        &kinds,
        &["ftree", "wiredTiger"],
    );
    record.remarks.push("No cgroup could be made: the limit of memory is not set.".to_owned());
    let mut steps = Vec::new();
    for (system, one, form) in [(0, 90.0, waves as fn(f64) -> f64), (1, 110.0, dips)] {
        for cache in [64, 128, 256, 512] {
            for clients in [1, 16, 112] {
                let rate = one * f64::from(clients).powf(0.5) * f64::from(cache).log2() / 6.0;
                let mut one = step(&format!("cache{cache}-c{clients}"), clients as usize, rate, form);
                one.settings.insert("cache_mb".to_owned(), json!(cache));
                steps.push((system, Step { seconds: 120, ..one }));
            }
        }
    }
    let events = vec![
        event("wiredTiger", EventKind::Checkpoint, 2795.0, Some(2802.0), "checkpoint 4"),
        event("wiredTiger", EventKind::Stall, 2855.0, Some(2862.0), "throughput 25 % of the median; checkpoint 5 ran"),
    ];
    Plan { record, steps, events }
}

fn moves() -> Plan {
    let kinds = ["transaction"];
    let mut record =
        record("003-chunk-moves", "chunk moves under load", "transaction", &kinds, &["arbor", "mongo <b>x</b>"]);
    record.schedule = "constant 30/s".to_owned();
    let moved = |t: f64| if (100.0..160.0).contains(&t) { 0.55 } else { 1.0 };
    let plain = Step { seconds: 300, scheduled: true, ..step("c12", 12, 30.0, |t| 1.0 + 0.01 * (t / 5.0).sin()) };
    let steps = vec![
        (0, load(43_000.0)),
        (0, plain),
        (1, load(4600.0)),
        (1, Step { seconds: 300, scheduled: true, ..step("c12", 12, 15.0, moved) }),
    ];
    let mut events = Vec::new();
    for (system, first, seconds) in [("arbor", 120.0, 9.0), ("mongo <b>x</b>", 440.0, 19.0)] {
        for n in 0..3 {
            let begin = first + f64::from(n) * (seconds + 1.0);
            let text = format!("shard000{n} to shard000{} <script>alert(1)</script>", (n + 1) % 3);
            events.push(event(system, EventKind::MoveChunk, begin, Some(begin + seconds), &text));
        }
    }
    Plan { record, steps, events }
}

fn ycsb() -> Plan {
    let record =
        record("004-ycsb", "YCSB A to D", "operation", &["read", "update", "insert"], &["ftree", "lmdb", "rocksdb"]);
    let mut steps = Vec::new();
    for (system, one) in [(0, 9000.0), (1, 12_000.0), (2, 10_000.0)] {
        steps.push((system, load(50_000.0)));
        for (workload, part) in [("A", 0.7), ("B", 1.0), ("C", 1.3), ("D", 1.2)] {
            let mut one = step(&format!("{workload}-c64"), 64, one * part, waves);
            one.settings.insert("workload".to_owned(), json!(workload));
            steps.push((system, one));
        }
    }
    Plan { record, steps, events: Vec::new() }
}

fn recovery() -> Plan {
    let mut record =
        record("002-recovery", "kill -9 and the time to serve", "transaction", &["transaction"], &["ftree", "lmdb"]);
    record.ending = Ending::Partial;
    record.systems[1].failure = Some("the server did not start: <no reason>".to_owned());
    let mut steps = vec![(0, step("c16", 16, 800.0, waves)), (1, step("c16", 16, 900.0, waves))];
    for (n, (interval, seconds)) in [(60, 9), (600, 23)].into_iter().enumerate() {
        let mut one = Step { phase: Phase::Recovery, seconds, ..step(&format!("recovery{n}"), 0, 0.0, waves) };
        one.settings.insert("syncdelay_s".to_owned(), json!(interval));
        steps.push((0, one));
    }
    let events = vec![
        event("ftree", EventKind::Kill, 120.0, None, "kill -9"),
        event("ftree", EventKind::Serving, 129.0, None, "answers"),
    ];
    Plan { record, steps, events }
}

fn inserts() -> Plan {
    let record = record("iibench", "sustained inserts", "insert", &["insert"], &["ftree", "wiredTiger"]);
    let steps =
        vec![(0, step("c1", 1, 90_000.0, |t| 1.4 - t / 100.0)), (1, step("c1", 1, 5000.0, |t| 3.0 / (1.0 + t / 8.0)))];
    Plan { record, steps, events: Vec::new() }
}

/// Rates of phases whose operations have nothing to do with each other; the last three are timed.
const PHASES: [(&str, f64); 8] = [
    ("load-rand", 1_143_000.0),
    ("scan-100-idle", 49_000_000.0),
    ("get-x1", 1_188_000.0),
    ("overwrite", 90_000.0),
    ("get-cold-x1", 472_000.0),
    ("delete-range", 0.8),
    ("space-back", 0.05),
    ("reopen-kill", 4.0),
];

fn phases() -> Plan {
    let record =
        record("kv", "the engines alone", "operation", &["operation"], &["ftree", "lmdb", "rocksdb", "wiredTiger"]);
    let mut steps = Vec::new();
    for (n, (name, rate)) in PHASES.into_iter().enumerate() {
        for (system, by) in [(0, 1.0), (1, 0.15), (2, 0.4), (3, 0.6)] {
            let wave = if n % 2 == 0 { by } else { 1.0 / by };
            let mut one = step(name, 1, rate * wave, waves);
            one.settings.insert("phase".to_owned(), json!(name));
            let seconds = if rate < 10.0 { (1.0 / (rate * wave)).ceil() as u32 } else { 5 };
            steps.push((system, Step { seconds, ..one }));
        }
    }
    Plan { record, steps, events: Vec::new() }
}

fn repeats() -> Plan {
    let kinds = ["transaction", "point_query"];
    let record = record("sysbench", "three repeats in a random order", "transaction", &kinds, &["ftree", "lmdb"]);
    let mut steps = Vec::new();
    for (system, one) in [(0, 500.0), (1, 700.0)] {
        for (clients, repeat, by) in [(4, 2, 1.0), (1, 1, 0.9), (4, 1, 0.7), (1, 3, 1.2), (4, 3, 1.1), (1, 2, 1.0)] {
            let name = format!("c{clients}-r{repeat}");
            steps.push((system, Step { seconds: 20, ..step(&name, clients, one * by * clients as f64, waves) }));
        }
    }
    Plan { record, steps, events: Vec::new() }
}

fn cut_short() -> Plan {
    let mut record = record("load", "interrupted before the first interval ended", "operation", &["get"], &["ftree"]);
    record.ending = Ending::Interrupted;
    record.ended = None;
    Plan { record, steps: Vec::new(), events: Vec::new() }
}

fn event(system: &str, kind: EventKind, t_s: f64, end_s: Option<f64>, text: &str) -> Event {
    Event { t_s, end_s, system: system.to_owned(), kind, text: text.to_owned() }
}

/// Plays the ladder on a live page: a second of the run for each line of the input, over when that ends.
fn play(port: u16) -> Outcome<()> {
    let plan = ladder();
    let live = Live::start(port, &plan.record.experiment)?;
    println!("{}", live.url());
    live.publish(&News::Begin { experiment: &plan.record.experiment, about: &plan.record.about });
    let mut estimate = Estimate::new(plan.record.systems.len(), Duration::ZERO);
    let seconds = plan.steps.iter().map(|(_, step)| u64::from(step.seconds)).sum();
    estimate.planned(Duration::from_secs(seconds));
    let mut input = std::io::stdin().lines();
    for (system, step) in &plan.steps {
        let Some(name) = plan.record.systems.get(*system).map(|system| system.name.as_str()) else { continue };
        let begun = event(name, EventKind::Phase, 0.0, None, &format!("step {}", step.name));
        estimate.event(&begun);
        live.publish(&News::Event(&begun));
        for second in 1..=step.seconds {
            if input.next().is_none() {
                live.publish(&News::End { ending: "interrupted", report: "lab-results/sample/report.html" });
                return Ok(());
            }
            let points = points(name, step, 0.0, second, &plan.record.kinds, &plan.record.unit);
            let (clients, phase, unit, elapsed_s) =
                (step.clients, step.phase.name(), &plan.record.unit, f64::from(second));
            let moment = Moment { system: name, step: &step.name, clients, phase, unit, elapsed_s, points: &points };
            live.publish(&News::Interval(&moment, &estimate));
        }
        let measured = measured(step, 0.0, &plan.record.kinds, &plan.record.unit);
        estimate.step(name, &measured);
        live.publish(&News::Step { system: name, step: &measured });
    }
    Ok(())
}

/// Writes a plan's files: systems one after the other on one clock.
fn write(directory: &Path, mut plan: Plan) -> Outcome<()> {
    let mut writer =
        Writer::create(directory, &plan.record, &json!({"processors": 2, "processor": "made up", "kernel": "6.1"}))?;
    let mut clock = 0.0;
    for (system, step) in &plan.steps {
        let Some(system) = plan.record.systems.get_mut(*system) else { continue };
        let kinds = if step.phase == Phase::Load { vec!["insert_batch".to_owned()] } else { plan.record.kinds.clone() };
        let unit = if step.phase == Phase::Load { "document" } else { &plan.record.unit };
        if step.phase != Phase::Recovery {
            series(&mut writer, &system.name, step, clock, &kinds, unit)?;
        }
        system.steps.push(measured(step, clock, &kinds, unit));
        clock += f64::from(step.seconds);
    }
    plan.events.iter().try_for_each(|event| writer.event(event))?;
    writer.record(&plan.record)?;
    Ok(())
}

fn measured(step: &Step, begin_s: f64, kinds: &[String], unit: &str) -> StepRecord {
    let micros = step.clients as f64 / step.rate.max(1.0) * 1e6;
    let clocks = if step.scheduled { vec![Clock::Service, Clock::Response] } else { vec![Clock::Service] };
    let latency = |(n, kind): (usize, &String), clock: Clock| {
        let mean = micros * (1.0 + n as f64 / 3.0) * if clock == Clock::Response { 1.4 } else { 1.0 };
        let count = (step.rate * f64::from(step.seconds)) as u64 / (n as u64 + 1);
        let [p50, p90, p95, p99, p999, max] = [0.9, 1.5, 1.9, 3.0, 9.0, 40.0].map(|part| part * mean);
        LatencyRow { kind: kind.clone(), clock, count, mean, p50, p90, p95, p99, p999, max }
    };
    let rows = clocks.iter().flat_map(|clock| kinds.iter().enumerate().map(|each| latency(each, *clock)));
    let mut metrics =
        BTreeMap::from([("data_bytes", 245e6), ("storage_bytes", 130e6), ("index_bytes", 22e6), ("du_bytes", 190e6)]);
    if step.phase == Phase::Run {
        let clients = step.clients as f64;
        metrics.extend([
            ("per_second", step.rate),
            ("cpu_per_unit", 215.0 + clients),
            ("context_switches_per_unit", 4.5 - clients / 40.0),
        ]);
        metrics.extend([
            ("server_cpu_us_per_unit", 31.0),
            ("reads_per_unit", 1.612),
            ("read_kb_per_unit", 14.588),
            ("write_kb_per_unit", 2.495),
        ]);
    } else if step.phase == Phase::Load {
        metrics.extend([("per_second", step.rate), ("documents", step.rate * f64::from(step.seconds))]);
    } else {
        metrics.insert("serve_s", f64::from(step.seconds));
    }
    if step.settings.contains_key("phase") {
        let by_time = if step.rate < 10.0 { 1.0 } else { 0.0 };
        metrics.extend([("seconds", 1.0 / step.rate), ("by_time", by_time)]);
    }
    let repeat = step.name.rsplit_once("-r").and_then(|(_, repeat)| repeat.parse().ok()).unwrap_or(1);
    let errors = if step.clients == 112 {
        vec![ErrorCount { code: "11000".to_owned(), count: 3, first: "E11000 duplicate key".to_owned() }]
    } else {
        Vec::new()
    };
    StepRecord {
        name: step.name.clone(),
        phase: step.phase,
        clients: step.clients,
        repeat,
        settings: step.settings.clone(),
        begin_s,
        end_s: begin_s + f64::from(step.seconds),
        unit: unit.to_owned(),
        metrics: metrics.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        latencies: if step.phase == Phase::Run { rows.collect() } else { Vec::new() },
        errors,
        ..StepRecord::default()
    }
}

fn series(writer: &mut Writer, system: &str, step: &Step, begin: f64, kinds: &[String], unit: &str) -> Outcome<()> {
    for second in 1..=step.seconds {
        writer.points(&points(system, step, begin, second, kinds, unit))?;
    }
    histograms(writer, system, step, begin, kinds)
}

/// One second of a step.
fn points(system: &str, step: &Step, begin: f64, second: u32, kinds: &[String], unit: &str) -> Vec<Point> {
    let t = f64::from(second);
    let rate = step.rate * (step.form)(t);
    let micros = step.clients as f64 / rate.max(1.0) * 1e6;
    let mut values = vec![
        ("cpu_percent".to_owned(), 80.0),
        ("ctx".to_owned(), rate * 4.0),
        ("write_bytes".to_owned(), rate * 900.0),
    ];
    values.push(("server.checkpoints".to_owned(), (t / 60.0).floor()));
    if !kinds.iter().any(|kind| kind == unit) {
        values.push((format!("ops.{unit}"), rate));
    }
    for (n, kind) in kinds.iter().enumerate() {
        let share = if kind == unit { 1.0 } else { 1.0 / (n as f64 + 1.0) };
        values.push((format!("ops.{kind}"), rate * share));
        let prefixes = if step.scheduled { vec!["", "response_"] } else { vec![""] };
        for prefix in prefixes {
            values.push((format!("{prefix}p50_us.{kind}"), micros * 0.9));
            values.push((format!("{prefix}p99_us.{kind}"), micros * 3.0 * (1.0 + n as f64)));
        }
    }
    let point = |(series, value)| Point {
        system: system.to_owned(),
        step: step.name.clone(),
        clients: step.clients,
        phase: step.phase,
        t_s: begin + t,
        series,
        value,
    };
    values.into_iter().map(point).collect()
}

fn histograms(writer: &mut Writer, system: &str, step: &Step, begin: f64, kinds: &[String]) -> Outcome<()> {
    let micros = step.clients as f64 / step.rate.max(1.0) * 1e6;
    for kind in kinds {
        let mut histogram = Histogram::<u64>::new(3)?;
        for n in 1..20_000_u32 {
            // an exponential distribution, given by its quantiles
            let quantile = f64::from(n) / 20_000.0;
            histogram.record((-(1.0 - quantile).ln() * micros * 1000.0).max(1.0) as u64)?;
        }
        writer.histograms(|log| {
            log.append([system, &step.name, kind], Clock::Service, begin, f64::from(step.seconds), &histogram)?;
            if step.scheduled {
                log.append([system, &step.name, kind], Clock::Response, begin, f64::from(step.seconds), &histogram)?;
            }
            Ok(())
        })?;
    }
    Ok(())
}
