//! The tables of a run: one per engine, and all engines side by side.

use super::conduct::{Outcome, Part};
use super::{KvOptions, Phase, PhaseStatistics};
use crate::report::Table;

/// A row per phase of one engine.
pub(super) fn of_engine(options: &KvOptions, part: &Part) -> Table {
    let title = format!("{}: {}", part.engine.name, options.heading());
    let mut table = Table::new(&title, "phase", PhaseStatistics::COLUMNS.map(str::to_owned));
    for (phase, statistics) in &part.statistics {
        match statistics {
            Some(statistics) if statistics.note.is_empty() => table.row(statistics.cells(), &phase.to_string()),
            Some(statistics) => table.row(statistics.cells(), &format!("{phase}: {}", statistics.note)),
            None => table.row(["-".to_owned()], &phase.to_string()),
        }
    }
    table
}

/// Engine by phase: operations per second (seconds where those are more informative), each engine against the peer, and CPU.
pub(super) fn side_by_side(options: &KvOptions, parts: &[Part], peer: &str) -> Table {
    let others: Vec<&Part> = parts.iter().filter(|part| part.engine.name != peer).collect();
    let peer = parts.iter().find(|part| part.engine.name == peer);
    let mut columns: Vec<String> = parts.iter().map(|part| part.engine.name.to_owned()).collect();
    if let Some(peer) = peer {
        columns.extend(others.iter().map(|part| format!("{}/{}", part.engine.name, peer.engine.name)));
    }
    columns.extend(parts.iter().map(|part| format!("{} cpu us", part.engine.name)));
    let title =
        format!("side by side, ops/s (s: seconds; ratios above 1 are better than the peer): {}", options.heading());
    let mut table = Table::new(&title, "phase", columns);
    for phase in phases(parts) {
        let mut cells: Vec<String> = parts.iter().map(|part| speed(phase, find(part, phase))).collect();
        if let Some(peer) = peer {
            cells.extend(others.iter().map(|part| ratio(phase, find(part, phase), find(peer, phase))));
        }
        let cpu = |part| find(part, phase).map_or_else(absent, |statistics| format!("{:.2}", statistics.cpu_us()));
        cells.extend(parts.iter().map(cpu));
        table.row(cells, &phase.to_string());
    }
    table
}

/// Phase by size of the data, in multiples of the cache: operations per second of each engine.
pub(super) fn growth(runs: &[(KvOptions, Outcome)]) -> Table {
    let times = |options: &KvOptions| options.times_of_cache();
    let engines: Vec<&str> =
        runs.first().map_or_else(Vec::new, |(_, run)| run.parts.iter().map(|part| part.engine.name).collect());
    let columns =
        engines.iter().flat_map(|name| runs.iter().map(move |(options, _)| format!("{name} x{:.0}", times(options))));
    let title = "growth: ops/s (s: seconds) by size of the data in multiples of the cache";
    let mut table = Table::new(title, "phase", columns);
    let all: Vec<Phase> = runs.first().map_or_else(Vec::new, |(_, run)| phases(&run.parts));
    for phase in all {
        let of = |name: &str| {
            let cell = |(_, run): &(KvOptions, Outcome)| {
                let part = run.parts.iter().find(|part| part.engine.name == name);
                speed(phase, part.and_then(|part| find(part, phase)))
            };
            runs.iter().map(cell).collect::<Vec<_>>()
        };
        let cells: Vec<String> = engines.iter().flat_map(|name| of(name)).collect();
        table.row(cells, &phase.to_string());
    }
    table
}

fn absent() -> String {
    "-".to_owned()
}

fn phases(parts: &[Part]) -> Vec<Phase> {
    let longest = parts.iter().max_by_key(|part| part.statistics.len());
    longest.into_iter().flat_map(|part| part.statistics.iter().map(|(phase, _)| *phase)).collect()
}

fn find(part: &Part, phase: Phase) -> Option<&PhaseStatistics> {
    part.statistics.iter().find(|(own, _)| *own == phase).and_then(|(_, statistics)| statistics.as_ref())
}

fn speed(phase: Phase, statistics: Option<&PhaseStatistics>) -> String {
    match statistics {
        None => absent(),
        Some(statistics) if phase.by_time() => format!("{:.3} s", statistics.seconds),
        Some(statistics) => format!("{:.0}", statistics.rate()),
    }
}

/// Returns the factor by which `own` is better than `peer`.
fn ratio(phase: Phase, own: Option<&PhaseStatistics>, peer: Option<&PhaseStatistics>) -> String {
    let (Some(own), Some(peer)) = (own, peer) else { return absent() };
    let ratio = if phase.by_time() { peer.seconds / own.seconds } else { own.rate() / peer.rate() };
    format!("{ratio:.2}")
}

#[cfg(test)]
mod tests {
    use super::super::{EngineFacts, KvEngine};
    use super::*;

    fn part(name: &'static str, statistics: Vec<(Phase, Option<PhaseStatistics>)>) -> Part {
        Part {
            engine: KvEngine {
                name,
                aliases: &[],
                missing: || None,
                facts: EngineFacts::default,
                open: |_, _| Err(String::new()),
            },
            statistics,
            failure: None,
        }
    }

    fn statistics(operations: u64, seconds: f64) -> Option<PhaseStatistics> {
        Some(PhaseStatistics { operations, seconds, cpu_s: 1e-3, ..PhaseStatistics::default() })
    }

    #[test]
    fn engines_are_side_by_side() {
        let (get, reopen) = (Phase::Get(1), Phase::Reopen);
        let parts = [
            part("a", vec![(get, statistics(300, 1.0)), (reopen, statistics(1, 0.5))]),
            part("b", vec![(get, statistics(200, 1.0)), (reopen, statistics(1, 2.0)), (Phase::Increment, None)]),
        ];
        let small = KvOptions { rows: 128, value_bytes: 120, cache_bytes: 128 * 128, ..KvOptions::default() };
        let run = |rows, seconds| {
            let parts = vec![part("a", vec![(get, statistics(300, seconds)), (reopen, statistics(1, seconds))])];
            (KvOptions { rows, ..small.clone() }, Outcome { parts, interrupted: None })
        };
        let grown = growth(&[run(128, 1.0), run(512, 3.0)]);
        assert_eq!(grown.columns, ["a x1", "a x4"]);
        let rows: Vec<String> = grown.rows.iter().map(|row| format!("{}: {}", row.name, row.cells.join(" "))).collect();
        assert_eq!(rows, ["get-x1: 300 100", "reopen: 1.000 s 3.000 s"]);
        let table = side_by_side(&KvOptions::default(), &parts, "b");
        assert_eq!(table.columns.join(" "), "a b a/b a cpu us b cpu us");
        let rows: Vec<String> = table.rows.iter().map(|row| format!("{}: {}", row.name, row.cells.join(" "))).collect();
        assert_eq!(
            rows,
            ["get-x1: 300 200 1.50 3.33 5.00", "reopen: 0.500 s 2.000 s 4.00 1000.00 1000.00", "increment: - - - - -"]
        );
    }
}
