//! report.txt: what was run, the tables in the founding texts' forms, stalls and remarks.

use super::founding::tables;
use super::heading::Heading;
use super::published::Published;
use crate::results::{Event, EventKind, Run, Table};

/// The whole text report.
pub fn text(run: &Run) -> String {
    let tables = tables(run);
    let mut parts = vec![heading(run)];
    parts.extend(tables.iter().map(Table::to_string));
    parts.extend(stalls(run));
    parts.extend(events(run));
    parts.extend(remarks(run));
    parts.extend(Published::about(&run.record.experiment).map(|published| theirs(&tables, published)));
    parts.join("\n")
}

fn heading(run: &Run) -> String {
    let heading = Heading::of(run);
    let facts = heading.facts.iter().map(|(name, value)| format!("{name:12}{value}\n"));
    let warnings = super::heading::warnings(run).into_iter().map(|warning| format!("{:12}{warning}\n", "WARNING"));
    let (facts, warnings) = (facts.collect::<String>(), warnings.collect::<String>());
    format!("{}: {}\n{warnings}{facts}", run.record.experiment, run.record.about)
}

fn stalls(run: &Run) -> Option<String> {
    let stalls = lines(run, |event| event.kind == EventKind::Stall);
    (!stalls.is_empty()).then(|| format!("stalls\n{stalls}"))
}

fn events(run: &Run) -> Option<String> {
    let events = lines(run, |event| !matches!(event.kind, EventKind::Stall | EventKind::Phase));
    (!events.is_empty()).then(|| format!("events, seconds since the run began\n{events}"))
}

fn lines(run: &Run, selected: impl Fn(&Event) -> bool) -> String {
    let line = |event: &Event| {
        let length = event.end_s.map_or(String::new(), |end| format!(" {:.1} s", end - event.t_s));
        let place = run.place(event).map_or(String::new(), |place| format!(" ({place})"));
        format!("{:>9.1} {} {}{length}: {}{place}\n", event.t_s, event.system, event.kind.name(), event.text)
    };
    run.events.iter().filter(|event| selected(event)).map(line).collect()
}

fn remarks(run: &Run) -> Option<String> {
    let remarks = super::heading::remarks(run);
    (!remarks.is_empty()).then(|| remarks.join("\n") + "\n")
}

/// The published tables whose columns are not ours, and what to look for.
fn theirs(ours: &[Table], published: &Published) -> String {
    let mut parts = vec![format!("published: {}\n{}\n", published.source, published.setting)];
    parts.extend(published.apart(ours).map(|table| format!("published: {table}")));
    parts.push(published.shape.iter().map(|line| format!("* {line}\n")).collect());
    parts.join("\n")
}
