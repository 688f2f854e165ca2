//! The page of a comparison: verdicts as a table, and each relative difference as a bar with its interval.

use super::{Compared, Verdict, compare_two, notes};
use crate::report::{Axis, Chart, ChartGroup, Part, Series, Shape, Sheet, Spread, Table};
use crate::results::Run;

/// Returns the page of the first run against each of the others.
pub fn page(runs: &[Run]) -> String {
    let Some((base, others)) = runs.split_first() else { return String::new() };
    let name = |run: &Run| run.directory.display().to_string();
    let mut parts = Vec::new();
    let mut systems: Vec<String> = Vec::new();
    for (n, other) in others.iter().enumerate() {
        let compared = compare_two(base, other);
        for line in &compared {
            if !systems.contains(&line.system) {
                systems.push(line.system.clone());
            }
        }
        parts.push(Part::Heading(format!("{} against {}", name(other), name(base))));
        parts.push(Part::Notes(notes(base, other)));
        parts.push(Part::Paragraph(counts(&compared)));
        let chart = differences(&compared, &systems);
        let caption = "The line is the 95 % interval (Welch); lines that cross 0 are no difference. Of latencies, down is better.";
        let title = "Relative difference of each step, percent";
        parts.extend(ChartGroup::of(&format!("differences-{n}"), title, caption, "", vec![chart]).map(Part::Chart));
        parts.push(Part::Texts(table(&compared)));
    }
    let sheet = Sheet {
        title: "Comparison".to_owned(),
        about: format!("Runs of {}", base.record.experiment),
        warnings: Vec::new(),
        facts: vec![("base", name(base)), ("of", base.record.started.clone())],
        parts,
    };
    sheet.page(&systems.iter().map(String::as_str).collect::<Vec<_>>())
}

fn counts(compared: &[Compared]) -> String {
    if compared.is_empty() {
        return "They have no step in common.".to_owned();
    }
    let count = |verdict: Verdict| compared.iter().filter(|line| line.verdict == verdict).count();
    let all = [Verdict::Better, Verdict::Worse, Verdict::Same, Verdict::TooFewData];
    all.map(|verdict| format!("{} {}", count(verdict), verdict.name())).join(", ")
}

fn differences(compared: &[Compared], systems: &[String]) -> Chart {
    let mut places: Vec<String> = Vec::new();
    let place = |line: &Compared| format!("{} {}", line.step, line.metric);
    for line in compared.iter().filter(|line| line.difference.is_some()) {
        if !places.contains(&place(line)) {
            places.push(place(line));
        }
    }
    let mut chart = Chart::new(Shape::Bars, "", Axis::categories("", &places), Axis::of("percent"));
    for system in systems {
        let of_system = compared.iter().filter(|line| line.system == *system);
        let point = |line: &Compared| {
            let difference = line.difference?;
            let (low, high) = difference.interval;
            let at = places.iter().position(|known| *known == place(line))?;
            let spread = Spread { lowest: low * 100.0, median: difference.relative * 100.0, highest: high * 100.0 };
            Some((at as f64, spread))
        };
        chart.series.push(Series::with_whiskers(system, of_system.filter_map(point)));
    }
    chart
}

fn table(compared: &[Compared]) -> Table {
    let columns = ["step", "metric", "base", "other", "difference, %", "95 % interval", "effect, g", "verdict"];
    let mut table = Table::new("Verdicts", "system", columns.map(str::to_owned));
    for line in compared {
        let known = |show: &dyn Fn(&super::statistics::Difference) -> String| {
            line.difference.as_ref().map_or("-".to_owned(), show)
        };
        let cells = [
            line.step.clone(),
            line.metric.clone(),
            format!("{:.1}", line.base),
            format!("{:.1}", line.other),
            known(&|difference| format!("{:+.1}", difference.relative * 100.0)),
            known(&|difference| {
                format!("{:+.1} to {:+.1}", difference.interval.0 * 100.0, difference.interval.1 * 100.0)
            }),
            known(&|difference| format!("{:+.1}", difference.effect)),
            line.verdict.name().to_owned(),
        ];
        table.row(cells, &line.system);
    }
    table
}
