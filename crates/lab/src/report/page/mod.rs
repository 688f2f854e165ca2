//! report.html: one page that needs nothing else. Text and tables are in the page as such; charts are drawn by
//! `assets/report.js` with the embedded ECharts from JSON that the page carries.

mod charts;
mod diagnostics;
mod html;
mod index;
mod sections;
mod sheet;
mod shell;

pub(crate) use diagnostics::diagnostics;
pub(crate) use html::{escaped, linked_table};
pub use index::{Entry, index};
pub(crate) use sheet::{Part, Sheet};
pub(crate) use shell::{Shell, shell};

use super::heading::Heading;
use super::measured::Measured;
use super::published::Published;
use crate::results::Run;
use charts::ChartData;
use sections::Section;

/// The whole page of a run.
pub fn page(run: &Run) -> String {
    let measured = Measured::of(run);
    let mut charts = ChartData::default();
    let sections = sections::all(&measured, Published::about(&run.record.experiment), &mut charts);
    let body = format!("{}{}<main>{}</main>\n", header(run), navigation(&sections), contents(&sections));
    let systems: Vec<&str> = run.record.systems.iter().map(|system| system.name.as_str()).collect();
    shell(&Shell {
        title: &run.record.experiment,
        body: &body,
        data: &charts.json(&systems),
        script: include_str!("../../../assets/report.js"),
        live: false,
    })
}

fn header(run: &Run) -> String {
    let heading = Heading::of(run);
    let warning = |text: &String| format!("<p class=\"warning\" role=\"status\">{}</p>", escaped(text));
    let warnings: String = super::heading::warnings(run).iter().map(warning).collect();
    let facts = heading.facts.iter().map(|(name, value)| (*name, value.as_str()));
    format!(
        "<header><h1>{}</h1><p class=\"about\">{}</p>{warnings}{}</header>\n",
        escaped(&run.record.experiment),
        escaped(&run.record.about),
        html::facts(facts)
    )
}

fn navigation(sections: &[Section]) -> String {
    let link = |section: &Section| format!("<a href=\"#{}\">{}</a>", section.id, escaped(section.title));
    format!("<nav aria-label=\"Sections\">{}</nav>\n", sections.iter().map(link).collect::<String>())
}

fn contents(sections: &[Section]) -> String {
    let one = |section: &Section| {
        format!("<section id=\"{}\"><h2>{}</h2>\n{}</section>\n", section.id, escaped(section.title), section.html)
    };
    sections.iter().map(one).collect()
}
