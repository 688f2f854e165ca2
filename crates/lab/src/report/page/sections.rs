//! What stands on a run's page, section by section; sections without data are left out.

use super::figures::Figures;
use super::html::{escaped, facts, folded, list, table};
use crate::report::chart::{self, Figure};
use crate::report::founding::{plural, tables};
use crate::report::grid::Grid;
use crate::report::heading::remarks;
use crate::report::measured::Measured;
use crate::report::published::Published;
use crate::results::{Event, EventKind, Phase, Run, Table};

#[derive(Debug)]
pub struct Section {
    pub id: &'static str,
    pub title: &'static str,
    pub html: String,
}

/// All sections with something in them.
pub fn all(measured: &Measured<'_>, published: Option<&Published>, figures: &mut Figures) -> Vec<Section> {
    let tables = tables(measured.run);
    let page = Contents { measured, published, tables: &tables };
    let sections = [
        ("result", "Result", page.result(figures)),
        ("time", "Over time", page.time(figures)),
        ("spread", "Spread", page.spread(figures)),
        ("latency", "Latency", page.latency(figures)),
        ("cost", "Cost", page.cost(figures)),
        ("size", "Size and load", page.size(figures)),
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
        tables_beside(self.tables.iter().filter(|table| about.contains(&table.about.as_str())))
    }

    fn result(&self, figures: &mut Figures) -> String {
        let record = &self.measured.run.record;
        let (grid, unit) = (Grid::of(record, Phase::Run), plural(&record.unit));
        let rounds = chart::rounds(&grid, &unit);
        let their_rounds = self.published.and_then(|text| chart::published_rounds(text.table("rounds")?));
        let mut html = beside(figures, rounds, their_rounds);
        html.push_str(&self.tables_about(&["rounds", "ageing"]));
        let mut ladders = chart::ladders(&grid, &unit).into_iter();
        let their_ladder = self.published.and_then(|text| chart::published_ladder(text.table("rate")?));
        html.push_str(&beside(figures, ladders.next(), their_ladder));
        html.push_str(&placed(figures, ladders));
        html.push_str(&self.tables_about(&["rate"]));
        html
    }

    fn time(&self, figures: &mut Figures) -> String {
        let run = self.measured.run;
        let mut html = placed(figures, chart::throughput(self.measured));
        let measured = !html.is_empty();
        html.push_str(&placed(figures, chart::timeline(run)));
        match events(run, "Stalls", |event| event.kind == EventKind::Stall) {
            Some(stalls) => html.push_str(&stalls),
            None if measured => html.push_str("<p>No stall was found.</p>\n"),
            None => {}
        }
        let others = events(run, "Events", |event| !matches!(event.kind, EventKind::Stall | EventKind::Phase));
        html.push_str(&others.unwrap_or_default());
        html.push_str(&placed(figures, chart::resources(self.measured)));
        html
    }

    fn spread(&self, figures: &mut Figures) -> String {
        let record = &self.measured.run.record;
        let grid = Grid::of(record, Phase::Run);
        placed(figures, chart::spreads(self.measured, &grid, &plural(&record.unit)))
    }

    fn latency(&self, figures: &mut Figures) -> String {
        let mut html = self.tables_about(&["response"]);
        html.push_str(&placed(figures, chart::latency_over_time(self.measured)));
        html.push_str(&placed(figures, chart::percentiles(self.measured)));
        html.push_str(&self.tables_about(&["latency", "p99"]));
        html
    }

    fn cost(&self, figures: &mut Figures) -> String {
        let record = &self.measured.run.record;
        let grid = Grid::of(record, Phase::Run);
        let mut html = placed(figures, chart::costs(&grid, &record.unit.replace('_', " ")));
        html.push_str(&self.tables_about(&["echo", "io", "cpu", "switches", "cost"]));
        html
    }

    fn size(&self, figures: &mut Figures) -> String {
        let mut html = placed(figures, chart::sizes(&self.measured.run.record));
        html.push_str(&self.tables_about(&["sizes", "load"]));
        html
    }

    /// The founding text: what it says, and its tables that do not stand in ours.
    fn theirs(&self) -> String {
        let Some(published) = self.published else { return String::new() };
        let tables = tables_beside(published.apart(self.tables));
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

/// As many in a row as fit.
fn tables_beside<'a>(tables: impl Iterator<Item = &'a Table>) -> String {
    let tables: String = tables.map(table).collect();
    if tables.is_empty() { tables } else { format!("<div class=\"tables\">{tables}</div>\n") }
}

fn placed(figures: &mut Figures, wanted: impl IntoIterator<Item = Figure>) -> String {
    wanted.into_iter().map(|figure| figures.place(&figure)).collect()
}

/// Ours and theirs side by side where there is room.
fn beside(figures: &mut Figures, ours: Option<Figure>, theirs: Option<Figure>) -> String {
    match (ours, theirs) {
        (None, _) => String::new(),
        (Some(ours), None) => figures.place(&ours),
        (Some(ours), Some(theirs)) => {
            format!("<div class=\"beside\">{}{}</div>\n", figures.place(&ours), figures.place(&theirs))
        }
    }
}

fn events(run: &Run, title: &str, wanted: impl Fn(&Event) -> bool) -> Option<String> {
    let columns = ["seconds", "length, s", "kind", "what"].map(str::to_owned);
    let mut events = Table::new(title, "system", columns);
    for event in run.events.iter().filter(|event| wanted(event)) {
        let length = event.end_s.map_or(String::new(), |end| format!("{:.1}", end - event.t_s));
        let cells = [format!("{:.1}", event.t_s), length, event.kind.name().replace('_', " "), event.text.clone()];
        events.row(cells, &event.system);
    }
    (!events.rows.is_empty()).then(|| format!("<div class=\"texts\">{}</div>\n", table(&events)))
}
