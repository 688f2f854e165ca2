//! The tables of a run in the founding texts' forms, with the published rows after ours where their columns agree.

use super::ageing;
use super::chart::{COSTS, SIZES, cost_title, last_sized};
use super::grid::{self, CLIENTS, Choice, Dimension, Grid, Spread, label, with};
use super::load_control;
use super::measured::Measured;
use super::phases::Phases;
use super::published::Published;
use super::repeats::{Repeats, last_steps, place_of};
use crate::results::{Clock, Form, LatencyRow, Phase, Record, Run, StepRecord, SystemRecord, Table};
use crate::target::echo;

/// Every table, in the order a reader wants them.
pub(super) fn tables(run: &Run) -> Vec<Table> {
    let record = &run.record;
    let grid = Grid::of(record, Phase::Run);
    let mut tables = Vec::new();
    if let Some(phases) = Phases::of(record) {
        tables.extend(phases.tables());
        tables.extend(costs(&grid, record));
        tables.extend(sizes(record));
        return tables;
    }
    tables.extend(load_control::thresholds(record));
    tables.extend(load_control::kept_rates(record));
    tables.extend(rounds(&grid, record));
    tables.extend(ageing::table(&grid, Published::about(&record.experiment)));
    tables.extend(rates(&grid, record));
    tables.extend(moves(record));
    tables.extend(at_the_end(run, &grid));
    tables.extend(share_of_echo(&grid));
    tables.extend(response(run));
    tables.extend(costs(&grid, record));
    tables.extend(load_control::prices(run));
    tables.extend(io(run));
    tables.extend(latencies(run));
    tables.extend(sizes(record));
    tables.extend(load(record));
    tables.extend(recovery(record));
    if let Some(published) = Published::about(&record.experiment) {
        add_published(&mut tables, published);
    }
    tables
}

/// Adds the published rows to tables about the same with the same columns.
fn add_published(tables: &mut [Table], published: &Published) {
    for theirs in &published.tables {
        if let Some(ours) = tables.iter_mut().find(|ours| ours.is_like(theirs)) {
            ours.rows.extend(theirs.rows.iter().cloned());
        }
    }
}

/// `point queries` of `point_query`.
pub(super) fn plural(unit: &str) -> String {
    let unit = unit.replace('_', " ");
    match unit.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{stem}ies"),
        _ if unit.ends_with('s') => unit,
        _ => format!("{unit}s"),
    }
}

/// A number as founding texts print it: whole from a hundred on, two digits below ten.
pub(super) fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 || v == 0.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

fn absent() -> String {
    "-".to_owned()
}

fn or_absent(value: Option<f64>, show: impl Fn(f64) -> String) -> String {
    value.map_or_else(absent, show)
}

fn spread_or_absent(value: Option<Spread>, show: impl Fn(f64) -> String) -> String {
    value.map_or_else(absent, |value| value.shown(show))
}

/// Returns a table of a metric across one dimension, with a row for each system at each choice of the others: the whole matrix.
fn across(
    grid: &Grid<'_>,
    dimension: &Dimension,
    title: &str,
    metric: &str,
    show: impl Fn(f64) -> String,
) -> Option<Table> {
    let choices = grid.choices(dimension);
    let mut table = Table::new(title, &grid::title(&dimension.name), dimension.values.iter().cloned());
    for at in &choices {
        let held = label(at);
        for system in grid.systems() {
            let cell = |value: &String| grid.spread(system, &with(at, dimension, value), metric);
            let cells: Vec<Option<Spread>> = dimension.values.iter().map(cell).collect();
            if cells.iter().any(Option::is_some) {
                let name = if held.is_empty() { system.to_owned() } else { format!("{system}, {held}") };
                table.row(cells.into_iter().map(|cell| spread_or_absent(cell, &show)), &name);
            }
        }
    }
    let wide = dimension.values.iter().map(|value| value.len() + 2).sum::<usize>() > WIDE;
    let is_turned = wide && choices.len() == 1;
    (!table.rows.is_empty()).then(|| if is_turned { turned(&table) } else { table })
}

/// Column names that need more characters than this become rows.
const WIDE: usize = 120;

/// Rows as columns.
fn turned(table: &Table) -> Table {
    let mut turned = Table::new(&table.title, &table.legend, table.rows.iter().map(|row| row.name.clone()));
    for (n, column) in table.columns.iter().enumerate() {
        turned.row(table.rows.iter().map(|row| row.cells.get(n).cloned().unwrap_or_default()), column);
    }
    turned
}

/// Returns the rate and the costs of each system where nothing differs between steps, in one table: a line per metric.
fn alone(grid: &Grid<'_>, record: &Record) -> Option<Table> {
    let unit = record.unit.replace('_', " ");
    let rate = ("per_second", format!("{} per second", plural(&record.unit)));
    let costs = COSTS.iter().map(|(metric, title)| (*metric, cost_title(title, &unit)));
    let mut table = Table::new("rate and cost", "", grid.systems().map(str::to_owned));
    for (metric, title) in [rate].into_iter().chain(costs) {
        let cells: Vec<Option<Spread>> =
            grid.systems().map(|system| grid.spread(system, &Choice::new(), metric)).collect();
        if cells.iter().any(Option::is_some) {
            table.row(cells.into_iter().map(|cell| spread_or_absent(cell, short)), &title);
        }
    }
    (!table.rows.is_empty()).then(|| table.about("rate"))
}

fn rates(grid: &Grid<'_>, record: &Record) -> Vec<Table> {
    let title = format!("{} per second", plural(&record.unit));
    if grid.dimensions().is_empty() {
        return alone(grid, record).into_iter().collect();
    }
    let first = grid.dimensions().iter().find(|dimension| dimension.name != super::chart::ROUND);
    let table = first.and_then(|dimension| across(grid, dimension, &title, "per_second", short));
    table.into_iter().map(|table| table.about("rate")).collect()
}

/// With fewer intervals a tenth of them is not meaningful.
const INTERVALS_MIN: usize = 20;

/// The exit throughput, of which iiBench is about: how fast it still is when the data has grown.
fn at_the_end(run: &Run, grid: &Grid<'_>) -> Option<Table> {
    if !grid.dimensions().is_empty() {
        return None;
    }
    let measured = Measured::of(run);
    let title = format!("{} per second in the first and in the last tenth of the run", plural(&run.record.unit));
    let mut table = Table::new(&title, "", ["first", "last"].map(str::to_owned));
    for Repeats { system, median, .. } in last_steps(run) {
        let rates = measured.rate(&system.name, median);
        let tenth = rates.len() / 10;
        if rates.len() >= INTERVALS_MIN {
            let mean = |rates: &[(f64, f64)]| rates.iter().map(|(_, rate)| rate).sum::<f64>() / tenth as f64;
            let first = rates.get(..tenth).map(mean).unwrap_or_default();
            let last = rates.get(rates.len() - tenth..).map(mean).unwrap_or_default();
            table.row([short(first), short(last)], &system.name);
        }
    }
    (!table.rows.is_empty()).then(|| table.about("exit").form(Form::NameFirst))
}

fn rounds(grid: &Grid<'_>, record: &Record) -> Option<Table> {
    let round = grid.dimensions().iter().find(|dimension| dimension.name == super::chart::ROUND);
    let title = format!("average {} per second of each round", plural(&record.unit));
    let table = round.and_then(|round| across(grid, round, &title, "per_second", short));
    table.map(|table| table.about("rounds").form(Form::Lines))
}

/// Returns tables of the costs that are not in the table of disk I/O.
fn costs(grid: &Grid<'_>, record: &Record) -> Vec<Table> {
    let about = |metric: &str| match metric {
        "cpu_per_unit" | "cpu_us_per_unit" => "cpu",
        "context_switches_per_unit" => "switches",
        _ => "cost",
    };
    let of = |(metric, title): &(&str, &str)| {
        let title = cost_title(title, &record.unit.replace('_', " "));
        let table = across(grid, grid.dimensions().first()?, &title, metric, short)?;
        Some(table.about(about(metric)))
    };
    COSTS
        .iter()
        .filter(|(metric, _)| !metric.starts_with("read") && !metric.starts_with("write"))
        .filter_map(of)
        .collect()
}

/// Returns the places where a system was as fast as the bare echo: there the echo bounds nothing.
pub(super) fn beyond_echo(record: &Record) -> Vec<String> {
    let grid = Grid::of(record, Phase::Run);
    let clients = grid.dimensions().iter().find(|dimension| dimension.name == CLIENTS);
    let mut places = Vec::new();
    for value in clients.iter().flat_map(|clients| &clients.values) {
        let at = Choice::from([(CLIENTS.to_owned(), value.clone())]);
        let rate = |system: &str| grid.metric(system, &at, "per_second");
        let Some(echo) = rate(echo::NAME) else { continue };
        let faster =
            grid.systems().filter(|system| *system != echo::NAME && rate(system).is_some_and(|rate| rate >= echo));
        places.extend(faster.map(|system| {
            format!("{system}, {}: as fast as {} or faster, which is no bound there", label(&at), echo::NAME)
        }));
    }
    places
}

/// Each system's rate as a part of the bare echo's.
fn share_of_echo(grid: &Grid<'_>) -> Option<Table> {
    let clients = grid.dimensions().iter().find(|dimension| dimension.name == CLIENTS)?;
    grid.systems().find(|system| *system == echo::NAME)?;
    let at = |value: &String| with(&Choice::new(), clients, value);
    let rate = |system: &str, value: &String| grid.metric(system, &at(value), "per_second");
    let mut table = Table::new("part of the echo's rate", CLIENTS, clients.values.iter().cloned());
    for system in grid.systems().filter(|system| *system != echo::NAME) {
        let share = |value: &String| Some(rate(system, value)? / rate(echo::NAME, value).filter(|rate| *rate > 0.0)?);
        let cells = clients.values.iter().map(|value| or_absent(share(value), |share| format!("{share:.2}")));
        table.row(cells, system);
    }
    Some(table.about("echo"))
}

/// The system's name, with the step where it is another than the table's: it did not come further.
fn name_at(place: &str, last: &Repeats<'_>) -> String {
    let (own, name) = (last.place(), &last.system.name);
    if own == place { name.clone() } else { format!("{name} ({own})") }
}

/// The columns of the founding text's table about the same.
fn published_columns(run: &Run, about: &str) -> Option<&'static [String]> {
    Some(&Published::about(&run.record.experiment)?.table(about)?.columns)
}

/// Number of operations that founding text 000 shows.
const FREQUENT: usize = 3;

/// The operations that the founding text shows, or the most frequent ones.
fn response(run: &Run) -> Option<Table> {
    let last = last_steps(run);
    let kinds = match published_columns(run, "response") {
        Some(columns) => columns.to_vec(),
        None => frequent(run, &last),
    };
    let mean = |step: &StepRecord, kind: &str| Some(step.latency(kind, Clock::Service)?.mean / 1000.0);
    if !last.iter().any(|last| kinds.iter().any(|kind| mean(last.median, kind).is_some())) {
        return None;
    }
    let place = place_of(run, &last);
    let title = format!("average response time in milliseconds, {place}");
    let mut table = Table::new(&title, "", kinds.iter().cloned());
    for last in &last {
        let spread = |kind: &String| last.spread(|step| mean(step, kind));
        table.row(
            kinds.iter().map(|kind| spread_or_absent(spread(kind), |ms| format!("{ms:.3}"))),
            &name_at(&place, last),
        );
    }
    Some(table.about("response").form(Form::NameFirst))
}

/// A unit of several operations is one of them only when nothing else was measured.
fn frequent(run: &Run, steps: &[Repeats<'_>]) -> Vec<String> {
    let mut counts: Vec<(&str, u64)> = Vec::new();
    let rows = steps.iter().flat_map(|last| &last.median.latencies);
    for row in rows.filter(|row| row.clock == Clock::Service) {
        match counts.iter_mut().find(|(kind, _)| *kind == row.kind) {
            Some((_, count)) => *count += row.count,
            None => counts.push((&row.kind, row.count)),
        }
    }
    if counts.len() > 1 {
        counts.retain(|(kind, _)| *kind != run.record.unit);
    }
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts.into_iter().take(FREQUENT).map(|(kind, _)| kind.to_owned()).collect()
}

fn io(run: &Run) -> Option<Table> {
    // As the text calls what it counts.
    let unit = match published_columns(run, "io") {
        Some(_) => "query",
        None => run.record.unit.rsplit('_').next().unwrap_or("query"),
    };
    let columns = [("reads_per_unit", "read"), ("read_kb_per_unit", "read-KB"), ("write_kb_per_unit", "write-KB")];
    let (last, title) = (last_steps(run), format!("disk I/O per {unit}, last step"));
    let place = place_of(run, &last);
    let mut table = Table::new(&title, "", columns.iter().map(|(_, name)| format!("{name}/{unit}")));
    for last in &last {
        let cells: Vec<Option<Spread>> =
            columns.iter().map(|(metric, _)| last.spread(|step| step.metric(metric))).collect();
        if cells.iter().any(Option::is_some) {
            let cells = cells.into_iter().map(|cell| spread_or_absent(cell, |value| format!("{value:.3}")));
            table.row(cells, &name_at(&place, last));
        }
    }
    (!table.rows.is_empty()).then(|| table.about("io").form(Form::NameFirst))
}

/// For each system: the latencies of each kind at its last step, and p99 of each kind over the steps.
fn latencies(run: &Run) -> Vec<Table> {
    let mut tables = Vec::new();
    for last in last_steps(run) {
        tables.extend(latency_table(&last));
        tables.extend(p99_table(run, last.system));
    }
    tables
}

fn latency_table(last: &Repeats<'_>) -> Option<Table> {
    let columns = ["count", "mean", "p50", "p90", "p95", "p99", "p99.9", "max"].map(str::to_owned);
    let title = format!("{}: latency in microseconds, {}", last.system.name, last.place());
    let mut table = Table::new(&title, "operation", columns);
    let values: [fn(&LatencyRow) -> f64; 7] =
        [|row| row.mean, |row| row.p50, |row| row.p90, |row| row.p95, |row| row.p99, |row| row.p999, |row| row.max];
    for row in &last.median.latencies {
        let spread = |value: fn(&LatencyRow) -> f64| {
            let of_repeat = |step: &StepRecord| step.latency(&row.kind, row.clock).map(value);
            spread_or_absent(last.spread(of_repeat), |micros| format!("{micros:.0}"))
        };
        let name = match row.clock {
            Clock::Service => row.kind.clone(),
            Clock::Response => format!("{} (response, from when it was due)", row.kind),
        };
        table.row([row.count.to_string()].into_iter().chain(values.map(spread)), &name);
    }
    (!table.rows.is_empty()).then(|| table.about("latency"))
}

fn p99_table(run: &Run, system: &SystemRecord) -> Option<Table> {
    let groups = Repeats::of_phase(system, Phase::Run);
    let settled = groups.iter().any(|group| !group.median.settings.is_empty());
    let (columns, legend): (Vec<String>, &str) = if settled {
        (groups.iter().map(|group| group.name().to_owned()).collect(), "step")
    } else {
        (groups.iter().map(|group| group.median.clients.to_string()).collect(), CLIENTS)
    };
    let mut table = Table::new(&format!("{}: p99 in microseconds", system.name), legend, columns);
    for kind in &run.record.kinds {
        let p99 = |step: &StepRecord| Some(step.latency(kind, Clock::Service)?.p99);
        let cells: Vec<Option<Spread>> = groups.iter().map(|group| group.spread(p99)).collect();
        if cells.iter().any(Option::is_some) {
            table.row(cells.into_iter().map(|cell| spread_or_absent(cell, |micros| format!("{micros:.0}"))), kind);
        }
    }
    (groups.len() > 1 && !table.rows.is_empty()).then(|| table.about("p99"))
}

/// Metrics of chunk moves and the text that names each.
const MOVES: [(&str, &str); 19] = [
    ("moves", "chunks moved"),
    ("moves_failed", "moves failed"),
    ("moved_documents", "documents moved"),
    ("move_max_s", "longest move, seconds"),
    ("critical_p50_ms", "critical section, ms, p50"),
    ("critical_max_ms", "critical section, ms, max"),
    ("throttled_ms", "pauses of the copies for clients, ms"),
    ("mean_loss_percent", "mean loss of throughput during the moves, %"),
    ("worst_1s_percent", "loss in the worst second since, %"),
    ("worst_10s_percent", "loss in the worst 10 seconds since, %"),
    ("write_max_before_ms", "longest write before, ms"),
    ("write_max_moves_ms", "longest write since, ms"),
    ("errors", "failed operations"),
    ("misses", "operations that found nothing"),
    ("documents_moves_before", "documents on the shards before"),
    ("documents_moves_after", "documents on the shards after"),
    ("index_entries_before", "index entries before"),
    ("index_entries_after", "index entries after"),
    ("deleted_after_s", "donors' copies deleted, seconds after the last move"),
];

/// Returns the chunk moves of each system's last step with some: a line per metric.
fn moves(record: &Record) -> Option<Table> {
    let has_moves = |repeats: &Repeats<'_>| repeats.median.metric("moves").is_some();
    let steps: Vec<Repeats<'_>> = record
        .systems
        .iter()
        .filter_map(|system| Repeats::of_phase(system, Phase::Run).into_iter().rfind(has_moves))
        .collect();
    let mut table = Table::new("chunk moves", "", steps.iter().map(|repeats| repeats.system.name.clone()));
    for (metric, title) in MOVES {
        let cells: Vec<Option<Spread>> =
            steps.iter().map(|repeats| repeats.spread(|step| step.metric(metric))).collect();
        if cells.iter().any(Option::is_some) {
            let show = |value: f64| if value.fract() == 0.0 { format!("{value:.0}") } else { short(value) };
            table.row(cells.into_iter().map(|cell| spread_or_absent(cell, show)), title);
        }
    }
    (!table.rows.is_empty()).then(|| table.about("moves"))
}

fn sizes(record: &Record) -> Option<Table> {
    let sized: Vec<(&SystemRecord, &StepRecord)> =
        record.systems.iter().filter_map(|system| Some((system, last_sized(&system.steps)?))).collect();
    let known = |metric: &str| sized.iter().any(|(_, step)| step.metric(metric).is_some());
    let columns: Vec<&(&str, &str)> = SIZES.iter().filter(|(metric, _)| known(metric)).collect();
    let names = ["compression"].into_iter().chain(columns.iter().map(|(_, name)| *name));
    let mut table = Table::new("size on disk at the end, bytes", "system", names.map(str::to_owned));
    for (system, step) in &sized {
        let bytes = columns.iter().map(|(metric, _)| or_absent(step.metric(metric), grouped));
        table.row([compression_of(system)].into_iter().chain(bytes), &system.name);
    }
    (!table.rows.is_empty()).then(|| table.about("sizes").form(Form::Ruled))
}

/// Returns the compression of a system's files, as far as it is known.
pub(super) fn compression_of(system: &SystemRecord) -> String {
    system.about.get("compression").and_then(serde_json::Value::as_str).unwrap_or("not known").to_owned()
}

/// Thousands by commas.
fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn load(record: &Record) -> Option<Table> {
    let sizes = [
        ("data_bytes", "data B/doc"),
        ("log_bytes", "log B/doc"),
        ("engine_bytes", "engine B/doc"),
        ("engine_free_bytes", "of it free"),
        ("du_bytes", "directory B/doc"),
    ];
    let columns = ["docs", "seconds", "docs/s"].into_iter().chain(sizes.map(|(_, name)| name)).map(str::to_owned);
    let mut table = Table::new("load", "", columns);
    for system in &record.systems {
        for step in system.steps.iter().filter(|step| step.phase == Phase::Load) {
            let documents = step.metric("documents").or(step.metric("units"));
            let per_document = |metric: &str| Some(step.metric(metric)? / documents.filter(|count| *count > 0.0)?);
            let whole = |value: f64| format!("{value:.0}");
            let own = [
                or_absent(documents, whole),
                format!("{:.1}", step.end_s - step.begin_s),
                or_absent(step.per_second(), whole),
            ];
            table.row(
                own.into_iter().chain(sizes.map(|(metric, _)| or_absent(per_document(metric), whole))),
                &system.name,
            );
        }
    }
    (!table.rows.is_empty()).then(|| table.about("load"))
}

fn recovery(record: &Record) -> Option<Table> {
    let mut table = Table::new("seconds from kill -9 to the first answer", "", ["seconds".to_owned()]);
    for system in &record.systems {
        for repeats in Repeats::of_phase(system, Phase::Recovery) {
            let seconds = |step: &StepRecord| step.metric("serve_s").or(Some(step.end_s - step.begin_s));
            let held = label(&grid::settings(repeats.median));
            let name = if held.is_empty() { system.name.clone() } else { format!("{}, {held}", system.name) };
            table.row([spread_or_absent(repeats.spread(seconds), |seconds| format!("{seconds:.2}"))], &name);
        }
    }
    (!table.rows.is_empty()).then(|| table.about("recovery").form(Form::NameFirst))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_and_numbers() {
        for (unit, expect) in
            [("point_query", "point queries"), ("transaction", "transactions"), ("operation", "operations")]
        {
            assert_eq!(plural(unit), expect);
        }
        for (value, expect) in [(17864.4, "17864"), (43.21, "43.2"), (4.444, "4.44"), (0.0123, "0.0123"), (0.0, "0")] {
            assert_eq!(short(value), expect);
        }
        for (value, expect) in [(5.0, "5"), (1234.0, "1,234"), (116_787_953_408.0, "116,787,953,408")] {
            assert_eq!(grouped(value), expect);
        }
    }
}
