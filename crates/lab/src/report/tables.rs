//! The tables of each experiment.

use super::{Outcome, SystemResult, Table};
use crate::run::{Latencies, Loaded, Step};
use crate::target::echo;
use crate::workload::Kind;

/// A generator that used more than this of its processors measured itself (spec/workloads.md 1.1).
const CLIENT_SHARE_MAX: f64 = 0.7;

/// Everything a person reads: tables, then remarks.
pub fn tables(outcome: &Outcome) -> String {
    let mut parts = Vec::new();
    if outcome.systems.iter().any(|system| system.load.is_some()) {
        parts.push(load_table(outcome).to_string());
    }
    if outcome.systems.iter().any(|system| !system.steps.is_empty()) {
        parts.extend(scaling_tables(outcome).iter().map(Table::to_string));
        parts.extend(latency_tables(outcome).iter().map(Table::to_string));
    }
    let remarks = remarks(outcome);
    if !remarks.is_empty() {
        parts.push(remarks.join("\n") + "\n");
    }
    parts.join("\n")
}

/// Client counts that occur, in the order of the run.
fn client_counts(outcome: &Outcome) -> Vec<usize> {
    let mut counts: Vec<usize> =
        outcome.systems.iter().flat_map(|system| system.steps.iter().map(|step| step.clients)).collect();
    counts.sort_unstable();
    counts.dedup();
    counts
}

fn scaling_tables(outcome: &Outcome) -> Vec<Table> {
    let (headline, each) = match outcome.unit {
        Kind::TRANSACTION => ("transactions per second", "transaction"),
        _ => ("point queries per second", "query"),
    };
    let per_second = if outcome.unit == Kind::TRANSACTION { "TPS" } else { "QPS" };
    let mut tables = vec![
        by_clients(outcome, headline, |step| format!("{:.0}", step.rate())),
        by_clients(outcome, &format!("(CPU_utilization / {per_second}) * 1,000,000"), |step| {
            format!("{:.0}", step.cpu_per_unit())
        }),
        by_clients(outcome, &format!("context switch per {each}"), |step| {
            format!("{:.2}", step.context_switches_per_unit())
        }),
        by_clients(outcome, &format!("CPU of the server's process per {each}, microseconds"), |step| {
            let server = step.usage.server_cpu_s;
            server.map_or("-".to_owned(), |cpu| format!("{:.1}", cpu * 1e6 / step.recorder.count(step.unit) as f64))
        }),
    ];
    tables.extend(share_of_echo(outcome));
    tables
}

/// Each system's rate as a part of the bare echo's.
fn share_of_echo(outcome: &Outcome) -> Option<Table> {
    let echo = outcome.systems.iter().find(|system| system.name == echo::NAME)?;
    let others = outcome.systems.iter().filter(|system| system.name != echo::NAME && !system.steps.is_empty());
    let counts = client_counts(outcome);
    let mut table = Table::new("part of the echo's rate", "clients", counts.iter().map(usize::to_string));
    for system in others {
        let rate =
            |system: &SystemResult, count| system.steps.iter().find(|step| step.clients == count).map(Step::rate);
        let cells = counts.iter().map(|count| match (rate(system, *count), rate(echo, *count)) {
            (Some(own), Some(echo)) if echo > 0.0 => format!("{:.2}", own / echo),
            _ => "-".to_owned(),
        });
        table.row(cells, &system.name);
    }
    (!table.rows.is_empty()).then_some(table)
}

fn by_clients(outcome: &Outcome, title: &str, cell: impl Fn(&Step) -> String) -> Table {
    let counts = client_counts(outcome);
    let mut table = Table::new(title, "clients", counts.iter().map(usize::to_string));
    for system in outcome.systems.iter().filter(|system| !system.steps.is_empty()) {
        let cells = counts.iter().map(|count| {
            let step = system.steps.iter().find(|step| step.clients == *count);
            step.filter(|step| step.recorder.count(step.unit) > 0).map_or("-".to_owned(), &cell)
        });
        table.row(cells, &system.name);
    }
    table
}

/// For each system: latencies of each kind at the highest client count that was reached, and p99 over client counts.
fn latency_tables(outcome: &Outcome) -> Vec<Table> {
    let mut tables = Vec::new();
    for system in &outcome.systems {
        if let Some(step) = system.steps.last() {
            tables.push(latency_table(outcome, system, step));
            tables.push(p99_table(outcome, system));
        }
    }
    tables
}

fn p99_table(outcome: &Outcome, system: &SystemResult) -> Table {
    let columns = system.steps.iter().map(|step| step.clients.to_string());
    let mut table = Table::new(&format!("{}: p99, microseconds", system.name), "clients", columns);
    for kind in &outcome.kinds {
        let cells = system.steps.iter().map(|step| {
            step.recorder.latencies(*kind).map_or("-".to_owned(), |latencies| {
                format!("{:.0}", latencies.service.value_at_quantile(0.99) as f64 / 1000.0)
            })
        });
        table.row(cells, kind.name());
    }
    table
}

fn latency_table(outcome: &Outcome, system: &SystemResult, step: &Step) -> Table {
    let names =
        Latencies::summary(&hdrhistogram::Histogram::new(3).expect("3 digits are in range")).map(|(name, _)| name);
    let columns = ["count"].into_iter().chain(names).map(str::to_owned);
    let title = format!("{}: latency at {} clients, microseconds", system.name, step.clients);
    let mut table = Table::new(&title, "operation", columns);
    for kind in &outcome.kinds {
        let Some(latencies) = step.recorder.latencies(*kind) else { continue };
        let mut row = |histogram: &hdrhistogram::Histogram<u64>, name: &str| {
            let quantiles = Latencies::summary(histogram).map(|(_, value)| format!("{value:.0}"));
            table.row([histogram.len().to_string()].into_iter().chain(quantiles), name);
        };
        row(&latencies.service, kind.name());
        if let Some(response) = &latencies.response {
            row(response, &format!("{} (response, from when it was due)", kind.name()));
        }
    }
    table
}

fn load_table(outcome: &Outcome) -> Table {
    let columns = [
        "docs",
        "seconds",
        "docs/s",
        "data B/doc",
        "log B/doc",
        "engine B/doc",
        "of it free",
        "folder B/doc",
        "p99 batch us",
    ];
    let mut table = Table::new("load", "", columns.map(str::to_owned));
    for system in &outcome.systems {
        if let Some(load) = &system.load {
            table.row(load_cells(load), &system.name);
        }
    }
    table
}

fn load_cells(load: &Loaded) -> [String; 9] {
    let documents = load.documents.max(1) as f64;
    let per_document = |bytes: Option<f64>| bytes.map_or("-".to_owned(), |bytes| format!("{:.0}", bytes / documents));
    let sizes = load.sizes.1;
    let engine = sizes.engine_bytes.or_else(|| Some(sizes.storage_bytes? + sizes.index_bytes.unwrap_or(0.0)));
    let p99 = load.recorder.latencies(Kind::INSERT_BATCH).map_or(0, |l| l.service.value_at_quantile(0.99));
    [
        load.documents.to_string(),
        format!("{:.1}", load.usage.seconds),
        format!("{:.0}", load.documents_per_second()),
        per_document(sizes.data_bytes),
        load.log_bytes_per_document().map_or("-".to_owned(), |bytes| format!("{bytes:.0}")),
        per_document(engine),
        per_document(sizes.engine_free_bytes),
        per_document(load.disk.map(|disk| disk.actual_bytes as f64)),
        format!("{:.0}", p99 as f64 / 1000.0),
    ]
}

fn remarks(outcome: &Outcome) -> Vec<String> {
    let mut remarks = Vec::new();
    if outcome.interrupted {
        remarks.push("INTERRUPTED: what was measured until then is kept.".to_owned());
    }
    for system in &outcome.systems {
        if let Some(failure) = &system.failure {
            remarks.push(format!("{}: ended early: {failure}", system.name));
        }
        for step in &system.steps {
            let at = format!("{}, {} clients", system.name, step.clients);
            if step.client_share() > CLIENT_SHARE_MAX {
                remarks
                    .push(format!("{at}: the generator used {:.0} % of all processors", step.client_share() * 100.0));
            }
            for (code, count, message) in step.recorder.errors() {
                remarks.push(format!("{at}: {count} errors {code}: {message}"));
            }
            if let Some(backlog) = step.backlog.filter(|backlog| *backlog >= 1.0) {
                remarks.push(format!("{at}: the rate was not held, {backlog:.0} operations were still due at the end"));
            }
        }
    }
    if outcome.systems.iter().any(|system| system.steps.iter().any(|step| step.backlog.is_none())) {
        remarks.push("Closed loop: throughput = clients / mean latency.".to_owned());
    }
    remarks
}
