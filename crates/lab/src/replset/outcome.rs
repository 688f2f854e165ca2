//! Results of a run: printed at once, and written as tables, numbers, a page.

use std::path::Path;

use serde_json::{Value, json};

use crate::report::{ChartGroup, Part, Sheet, heading_of, heading_text};
use crate::results::Table;
use crate::{Error, Result};

/// Everything measured so far.
#[derive(Default)]
pub(super) struct Outcome {
    systems: Vec<String>,
    parts: Vec<Part>,
    tables: Vec<Table>,
    measures: Vec<Value>,
    /// Rows of `acknowledged.csv`.
    slices: String,
}

impl Outcome {
    pub(super) fn heading(&mut self, text: &str) {
        self.parts.push(Part::Heading(text.to_owned()));
    }

    pub(super) fn table(&mut self, table: Table) {
        println!("{table}");
        self.parts.push(Part::Table(table.clone()));
        self.tables.push(table);
    }

    pub(super) fn chart(&mut self, group: Option<ChartGroup>) {
        for series in group.iter().flat_map(|group| &group.charts).flat_map(|chart| &chart.series) {
            if !self.systems.contains(&series.system) {
                self.systems.push(series.system.clone());
            }
        }
        self.parts.extend(group.map(Part::Chart));
    }

    /// Adds numbers for programs.
    pub(super) fn measure(&mut self, name: &str, engine: &str, numbers: &Value) {
        self.measures.push(json!({ "measure": name, "engine": engine, "numbers": numbers }));
    }

    /// Adds the operations that were acknowledged in slices of a load's time.
    pub(super) fn slices(&mut self, engine: &str, load: &str, slices: &[(f64, u64)]) {
        let row = |(begin, count): &(f64, u64)| format!("{engine},{load},{begin:.1},{count}\n");
        self.slices.extend(slices.iter().map(row));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    pub(super) fn write(&self, directory: &Path, about: &str, environment: &Value, started: &str) -> Result<()> {
        std::fs::create_dir_all(directory).map_err(Error::file(directory))?;
        let tables: Vec<String> = self.tables.iter().map(Table::to_string).collect();
        let (facts, warnings) = heading_of(environment, started);
        let run = json!({
            "experiment": "replset",
            "arbor": crate::build(),
            "started": started,
            "environment": environment,
            "command_line": std::env::args().collect::<Vec<_>>(),
            "measures": self.measures,
        });
        let written = [
            ("tables.txt", format!("{}\n{}", heading_text(environment), tables.join("\n"))),
            ("tables.json", format!("{:#}\n", json!(self.tables))),
            ("run.json", format!("{run:#}\n")),
            ("report.html", self.page(about, facts, warnings)),
        ];
        let slices = (!self.slices.is_empty())
            .then(|| ("acknowledged.csv", format!("engine,load,t_s,acknowledged\n{}", self.slices)));
        for (name, text) in written.into_iter().chain(slices) {
            let path = directory.join(name);
            std::fs::write(&path, text).map_err(Error::file(&path))?;
        }
        println!("results: {}", directory.display());
        Ok(())
    }

    fn page(&self, about: &str, facts: Vec<(&'static str, String)>, warnings: Vec<String>) -> String {
        let parts = self.parts.clone();
        let sheet = Sheet { title: "replset".to_owned(), about: about.to_owned(), warnings, facts, parts };
        sheet.page(&self.systems.iter().map(String::as_str).collect::<Vec<_>>())
    }
}
