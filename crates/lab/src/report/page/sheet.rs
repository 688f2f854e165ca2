//! A page of headings, charts and tables in any order: of comparisons, of query shapes, over many runs.

use super::charts::ChartData;
use serde_json::Value;

use super::html::{escaped, facts, in_script, list, table};
use super::shell::{Shell, shell};
use crate::report::chart::ChartGroup;
use crate::results::Table;

/// One thing on a sheet.
#[derive(Clone)]
pub(crate) enum Part {
    Heading(String),
    Paragraph(String),
    Notes(Vec<String>),
    Chart(ChartGroup),
    /// Markup of our own.
    Html(String),
    Table(Table),
    /// A table whose cells are texts.
    Texts(Table),
}

/// A page from its parts.
pub(crate) struct Sheet {
    pub title: String,
    pub about: String,
    pub warnings: Vec<String>,
    pub facts: Vec<(&'static str, String)>,
    pub parts: Vec<Part>,
}

impl Sheet {
    /// Returns the whole page; `systems` have their colours in this order.
    pub(crate) fn page(&self, systems: &[&str]) -> String {
        let mut charts = ChartData::default();
        let body = self.body(&mut charts);
        let data = charts.json(systems);
        let script = include_str!("../../../assets/report.js");
        shell(&Shell { title: &self.title, body: &body, data: &data, script, live: false })
    }

    /// Returns the page with data and a script of its own; it has no charts of groups.
    pub(crate) fn page_with(&self, data: &Value, script: &str) -> String {
        let body = self.body(&mut ChartData::default());
        let data = in_script(&data.to_string());
        shell(&Shell { title: &self.title, body: &body, data: &data, script, live: false })
    }

    fn body(&self, charts: &mut ChartData) -> String {
        let parts: String = self.parts.iter().map(|part| part.html(charts)).collect();
        let warning = |text: &String| format!("<p class=\"warning\" role=\"status\">{}</p>", escaped(text));
        let warnings: String = self.warnings.iter().map(warning).collect();
        format!(
            "<header><h1>{}</h1><p class=\"about\">{}</p>{warnings}{}</header>\n<main>{parts}</main>\n",
            escaped(&self.title),
            escaped(&self.about),
            facts(self.facts.iter().map(|(name, value)| (*name, value.as_str()))),
        )
    }
}

impl Part {
    fn html(&self, charts: &mut ChartData) -> String {
        match self {
            Part::Heading(text) => format!("<h2>{}</h2>\n", escaped(text)),
            Part::Paragraph(text) => format!("<p>{}</p>\n", escaped(text)),
            Part::Notes(notes) if notes.is_empty() => String::new(),
            Part::Notes(notes) => list(notes),
            Part::Chart(group) => charts.place(group),
            Part::Html(html) => html.clone(),
            Part::Table(rows) => table(rows),
            Part::Texts(rows) => format!("<div class=\"texts\">{}</div>\n", table(rows)),
        }
    }
}
