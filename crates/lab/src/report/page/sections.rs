//! The sections of a run's page; sections without data are left out.

use super::charts::ChartData;
use super::html::{escaped, facts, folded, list, table};
use crate::report::chart::{self, ChartGroup};
use crate::report::founding::{plural, tables};
use crate::report::grid::Grid;
use crate::report::heading::remarks;
use crate::report::measured::Measured;
use crate::report::phases::Phases;
use crate::report::published::Published;
use crate::results::{Event, EventKind, Phase, Run, Table};

#[derive(Debug)]
pub(super) struct Section {
    pub id: &'static str,
    pub title: &'static str,
    pub html: String,
}

/// All sections with something in them.
pub(super) fn all(measured: &Measured<'_>, published: Option<&Published>, charts: &mut ChartData) -> Vec<Section> {
    let tables = tables(measured.run);
    let page = Contents { measured, published, tables: &tables };
    let sections = [
        ("result", "Result", page.result(charts)),
        ("time", "Over time", page.time(charts)),
        ("spread", "Spread", page.spread(charts)),
        ("latency", "Latency", page.latency(charts)),
        ("cost", "Cost", page.cost(charts)),
        ("size", "Size and load", page.size(charts)),
        ("recovery", "Recovery", page.tables_about(&["recovery"])),
        ("published", "What was published", page.theirs()),
        ("run", "The run", page.run()),
    ];
    let sections = sections.into_iter().filter(|(_, _, html)| !html.is_empty());
    sections.map(|(id, title, html)| Section { id, title, html }).collect()
}

struct Contents<'a> {
    measured: &'a Measured<'a>,
    published: Option<&'a Published>,
    tables: &'a [Table],
}

impl Contents<'_> {
    fn tables_about(&self, about: &[&str]) -> String {
        table_row(self.tables.iter().filter(|table| about.contains(&table.about.as_str())))
    }

    fn result(&self, charts: &mut ChartData) -> String {
        let record = &self.measured.run.record;
        if let Some(phases) = Phases::of(record) {
            return placed(charts, phases.charts()) + &self.tables_about(&["rate"]);
        }
        let (grid, unit) = (Grid::of(record, Phase::Run), plural(&record.unit));
        let control = self.tables_about(&["thresholds", "kept"]);
        let rounds = chart::rounds(&grid, &unit);
        let their_rounds = self.published.and_then(|text| chart::published_rounds(text.table("rounds")?));
        let mut html = control + &side_by_side(charts, rounds, their_rounds);
        html.push_str(&self.tables_about(&["rounds", "ageing"]));
        let mut ladders = chart::ladders(&grid, &unit).into_iter();
        let their_ladder = self.published.and_then(|text| chart::published_ladder(text.table("rate")?));
        html.push_str(&side_by_side(charts, ladders.next(), their_ladder));
        html.push_str(&placed(charts, ladders));
        html.push_str(&placed(charts, chart::over_rows(self.measured, self.published)));
        html.push_str(&self.tables_about(&["rate", "exit", "moves"]));
        html
    }

    fn time(&self, charts: &mut ChartData) -> String {
        let run = self.measured.run;
        let mut html = placed(charts, chart::throughput(self.measured));
        let measured = !html.is_empty();
        html.push_str(&placed(charts, chart::timeline(run)));
        match events(run, "Stalls", |event| event.kind == EventKind::Stall) {
            Some(stalls) => html.push_str(&stalls),
            None if measured => html.push_str("<p>No stall was found.</p>\n"),
            None => {}
        }
        let others = events(run, "Events", |event| !matches!(event.kind, EventKind::Stall | EventKind::Phase));
        html.push_str(&others.unwrap_or_default());
        html.push_str(&placed(charts, chart::resources(self.measured)));
        html
    }

    fn spread(&self, charts: &mut ChartData) -> String {
        let record = &self.measured.run.record;
        let grid = Grid::of(record, Phase::Run);
        placed(charts, chart::spreads(self.measured, &grid, &plural(&record.unit)))
    }

    fn latency(&self, charts: &mut ChartData) -> String {
        let mut html = self.tables_about(&["response"]);
        html.push_str(&placed(charts, chart::latency_over_time(self.measured)));
        html.push_str(&placed(charts, chart::percentiles(self.measured)));
        html.push_str(&self.tables_about(&["latency", "p99"]));
        html
    }

    fn cost(&self, charts: &mut ChartData) -> String {
        let record = &self.measured.run.record;
        let grid = Grid::of(record, Phase::Run);
        let mut html = placed(charts, chart::costs(&grid, &record.unit.replace('_', " ")));
        html.push_str(&self.tables_about(&["prices", "echo", "io", "cpu", "switches", "cost"]));
        html
    }

    fn size(&self, charts: &mut ChartData) -> String {
        let mut html = placed(charts, chart::sizes(&self.measured.run.record));
        html.push_str(&self.tables_about(&["sizes", "load"]));
        html
    }

    /// Returns the founding text's conclusions, and those of its tables that ours do not include.
    fn theirs(&self) -> String {
        let Some(published) = self.published else { return String::new() };
        let tables = table_row(published.apart(self.tables));
        format!(
            "<p><cite>{}</cite></p><p>{}.</p>{}<div class=\"published\">{tables}</div>\
             <p>Those are other machines, other years and other software: compare the shape, not the height.</p>\n",
            escaped(&published.source),
            escaped(&published.setting),
            list(&published.shape)
        )
    }

    fn run(&self) -> String {
        let run = self.measured.run;
        let remarks = remarks(run);
        let mut html = if remarks.is_empty() { String::new() } else { format!("<h3>Remarks</h3>{}", list(&remarks)) };
        let words: Vec<String> =
            run.record.command_line.iter().map(|word| crate::target::without_password(word)).collect();
        html.push_str(&facts([("command", words.join(" ").as_str()), ("unit", &run.record.unit)]));
        for system in &run.record.systems {
            html.push_str(&folded(&format!("System {}", system.name), &format!("{:#}", system.about)));
        }
        html.push_str(&folded("Parameters", &format!("{:#}", run.record.parameters)));
        html.push_str(&folded("Machine", &format!("{:#}", run.environment)));
        html.push_str(&folded("The experiment as it was run", &run.record.text));
        html
    }
}

/// Returns the tables in a row that wraps.
fn table_row<'a>(tables: impl Iterator<Item = &'a Table>) -> String {
    let tables: String = tables.map(table).collect();
    if tables.is_empty() { tables } else { format!("<div class=\"tables\">{tables}</div>\n") }
}

fn placed(charts: &mut ChartData, selected: impl IntoIterator<Item = ChartGroup>) -> String {
    selected.into_iter().map(|group| charts.place(&group)).collect()
}

/// Ours and theirs side by side where there is room.
fn side_by_side(charts: &mut ChartData, ours: Option<ChartGroup>, theirs: Option<ChartGroup>) -> String {
    match (ours, theirs) {
        (None, _) => String::new(),
        (Some(ours), None) => charts.place(&ours),
        (Some(ours), Some(theirs)) => {
            format!("<div class=\"pair\">{}{}</div>\n", charts.place(&ours), charts.place(&theirs))
        }
    }
}

fn events(run: &Run, title: &str, selected: impl Fn(&Event) -> bool) -> Option<String> {
    let columns = ["seconds of the run", "in its step", "length, s", "kind", "what"].map(str::to_owned);
    let mut events = Table::new(title, "system", columns);
    for event in run.events.iter().filter(|event| selected(event)) {
        let length = event.end_s.map_or(String::new(), |end| format!("{:.1}", end - event.t_s));
        let place = run.place(event).unwrap_or_default();
        let cells =
            [format!("{:.1}", event.t_s), place, length, event.kind.name().replace('_', " "), event.text.clone()];
        events.row(cells, &event.system);
    }
    (!events.rows.is_empty()).then(|| format!("<div class=\"texts\">{}</div>\n", table(&events)))
}
