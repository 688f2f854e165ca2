//! The page of a flight recorder.

use super::charts::ChartData;
use super::html::{escaped, facts};
use super::shell::{Shell, shell};
use crate::report::diagnostics::{BUCKETS, Finding, History, Shape, groups};

/// The whole page.
pub(crate) fn diagnostics(history: &History, findings: &[Finding]) -> String {
    let mut charts = ChartData::default();
    let groups = groups(history, findings);
    let drawn: String = groups.iter().map(|group| charts.place(group)).collect();
    let first = history.times.first().copied().unwrap_or(0);
    let last = history.times.last().copied().unwrap_or(0);
    let clock = crate::report::diagnostics::clock;
    let range = [
        ("from", format!("{} UTC", clock(first))),
        ("to", format!("{} UTC", clock(last))),
        ("samples", format!("{}, drawn in at most {BUCKETS} intervals", history.len())),
    ];
    let about: Vec<(&str, &str)> =
        range.iter().chain(&history.facts).map(|(name, value)| (*name, value.as_str())).collect();
    let body = format!(
        "<header><h1>Flight recorder</h1>{}</header>\n<main><section id=\"findings\"><h2>Notable</h2>{}</section>\n\
         <section id=\"shapes\"><h2>Slow shapes</h2>{}</section>\n<section id=\"charts\"><h2>Over time</h2>{drawn}</section></main>\n",
        facts(about),
        list(findings),
        shapes(&history.shapes()),
    );
    let systems: Vec<String> = systems(history);
    let systems: Vec<&str> = systems.iter().map(String::as_str).collect();
    let (data, script) = (charts.json(&systems), include_str!("../../../assets/report.js"));
    shell(&Shell { title: "Flight recorder", body: &body, data: &data, script, live: false })
}

/// Names whose colours are fixed over all charts: the members.
fn systems(history: &History) -> Vec<String> {
    history.members.values().cloned().collect()
}

fn list(findings: &[Finding]) -> String {
    let timed: Vec<&Finding> = findings.iter().filter(|finding| finding.span.is_some()).collect();
    if timed.is_empty() {
        return "<p>Nothing: no stall, no gap, no lag above 10 s, no slow fsyncs, no refusals.</p>".to_owned();
    }
    let row = |finding: &&Finding| {
        format!(
            "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td></tr>",
            escaped(&finding.when),
            escaped(finding.kind.name()),
            escaped(&finding.text)
        )
    };
    format!(
        "<div class=\"scroll\" role=\"group\" tabindex=\"0\" aria-label=\"Notable\"><table class=\"texts\"><thead><tr><th scope=\"col\">\
         time (UTC)</th><th scope=\"col\">kind</th><th scope=\"col\">finding</th></tr></thead><tbody>{}</tbody></table></div>",
        timed.iter().map(row).collect::<String>()
    )
}

fn shapes(shapes: &[Shape]) -> String {
    if shapes.is_empty() {
        return "<p>No operation was slower than slowms.</p>".to_owned();
    }
    let head: String =
        ["shape", "collection", "plan", "times", "total s", "mean ms", "longest ms", "examined", "returned"]
            .map(|name| format!("<th scope=\"col\">{name}</th>"))
            .concat();
    let row = |shape: &Shape| {
        let mean = shape.micros as f64 / 1e3 / shape.count.max(1) as f64;
        let texts = [&shape.namespace, &shape.plan].map(|text| format!("<td>{}</td>", escaped(text))).concat();
        let numbers = [
            shape.count.to_string(),
            format!("{:.1}", shape.micros as f64 / 1e6),
            format!("{mean:.0}"),
            format!("{:.0}", shape.micros_max as f64 / 1e3),
            shape.documents_examined.max(shape.keys_examined).to_string(),
            shape.returned.to_string(),
        ];
        let numbers = numbers.map(|number| format!("<td>{number}</td>")).concat();
        format!("<tr><th scope=\"row\"><code>{}</code></th>{texts}{numbers}</tr>", escaped(&shape.text))
    };
    let rows: String = shapes.iter().map(row).collect();
    format!(
        "<div class=\"scroll\" role=\"group\" tabindex=\"0\" aria-label=\"Slow shapes\"><table class=\"texts\"><thead><tr>{head}</tr></thead>\
         <tbody>{rows}</tbody></table></div>"
    )
}
