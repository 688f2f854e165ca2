//! tables.json: tables as data, for the text report (`report::table`), the page and comparisons alike.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::text;
use crate::{Error, Result};

/// Layout in which the founding text of a table would print it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// Right-aligned columns, the row's name at the end (founding text 001).
    #[default]
    NameLast,
    /// The row's name first, left-aligned columns of 16 characters (response times of founding text 000).
    NameFirst,
    /// One comma-separated line per row, without a header (the graphs' data of founding text 000).
    Lines,
    /// Ruled, the row's name first (sizes of founding text 004).
    Ruled,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// Subject of the table, the same word in every experiment and in the published tables: `rate`, `cpu`,
    /// `switches`, `rounds`, `ageing`, `response`, `io`, `sizes`, `load`, `recovery`; empty for others.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    pub title: String,
    /// Name of the columns (`NameLast`) or of the rows (`NameFirst`, `Ruled`); printed in the corner of the header.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub legend: String,
    #[serde(default)]
    pub form: Form,
    pub columns: Vec<String>,
    pub rows: Vec<Row>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    pub name: String,
    pub cells: Vec<String>,
    /// A number of a founding text, not measured here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub published: bool,
}

impl Table {
    pub fn new(title: &str, legend: &str, columns: impl IntoIterator<Item = String>) -> Table {
        let columns = columns.into_iter().collect();
        Table { title: title.to_owned(), legend: legend.to_owned(), columns, ..Table::default() }
    }

    pub fn about(self, about: &str) -> Table {
        Table { about: about.to_owned(), ..self }
    }

    pub fn form(self, form: Form) -> Table {
        Table { form, ..self }
    }

    /// Cells that are missing at the end stay empty.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>, name: &str) {
        self.rows.push(Row { name: name.to_owned(), cells: cells.into_iter().collect(), published: false });
    }

    /// Returns true if the rows of both fit into one table.
    pub fn is_like(&self, other: &Table) -> bool {
        self.about == other.about && self.columns == other.columns
    }
}

impl Row {
    /// A cell as the number it shows; thousands may be grouped by commas or (more than once) by dots.
    pub fn number(&self, column: usize) -> Option<f64> {
        let cell = self.cells.get(column)?;
        // A median of repeats comes with its spread.
        let cell = cell.split_once(" \u{b1}").map_or(cell.as_str(), |(median, _)| median).replace(',', "");
        let grouped = cell.matches('.').count() > 1;
        if grouped { cell.replace('.', "") } else { cell }.trim().parse().ok().filter(|number: &f64| number.is_finite())
    }
}

pub(super) fn read(path: &Path) -> Result<Vec<Table>> {
    let text = text(path)?;
    if text.is_empty() {
        return Ok(Vec::new());
    }
    serde_json::from_str(&text).map_err(|error| Error::results(path, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_as_numbers() {
        let row = Row {
            cells: ["17864", "1.361", "1,234", "206.777.207.344", "-", "", "inf"].map(str::to_owned).into(),
            ..Row::default()
        };
        let numbers: Vec<Option<f64>> = (0..8).map(|column| row.number(column)).collect();
        assert_eq!(
            numbers,
            [Some(17864.0), Some(1.361), Some(1234.0), Some(206_777_207_344.0), None, None, None, None]
        );
    }

    #[test]
    fn a_table_is_short_as_json() {
        let mut table = Table::new("t", "clients", ["1".to_owned()]);
        table.row(["5".to_owned()], "a");
        let text = serde_json::to_string(&table).unwrap();
        assert_eq!(
            text,
            r#"{"title":"t","legend":"clients","form":"name_last","columns":["1"],"rows":[{"name":"a","cells":["5"]}]}"#
        );
        assert_eq!(serde_json::from_str::<Table>(&text).unwrap(), table);
    }
}
