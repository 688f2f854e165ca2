//! Published results of the founding texts, as data: their tables and their authors' conclusions.
//!
//! The numbers come from other machines and other years. A report shows them next to ours, marked as theirs, so that the
//! shape can be compared; the height cannot.

use std::sync::LazyLock;

use serde::Deserialize;

use super::Table;

/// One founding text's part about one experiment.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    pub id: String,
    /// The experiments that repeat it.
    pub experiments: Vec<String>,
    /// Title, publisher and date.
    pub source: String,
    /// Machine and sizes, in a line.
    pub setting: String,
    pub tables: Vec<Table>,
    /// Results that a repetition should show, in sentences.
    pub shape: Vec<String>,
}

static ALL: LazyLock<Vec<Published>> = LazyLock::new(|| {
    let mut all: Vec<Published> =
        serde_json::from_str(include_str!("published.json")).expect("the published numbers are in this repository");
    let rows = all.iter_mut().flat_map(|text| &mut text.tables).flat_map(|table| &mut table.rows);
    rows.for_each(|row| row.published = true);
    all
});

impl Published {
    /// Returns what was published about an experiment; its name may have a suffix (`001-point-queries-small`).
    pub fn about(experiment: &str) -> Option<&'static Published> {
        let named = |text: &&Published| text.experiments.iter().any(|name| experiment.starts_with(name.as_str()));
        ALL.iter().find(named)
    }

    pub fn all() -> &'static [Published] {
        &ALL
    }

    /// Returns the tables that ours do not include: about something else, or with other columns.
    pub fn apart<'a>(&'a self, ours: &'a [Table]) -> impl Iterator<Item = &'a Table> {
        self.tables.iter().filter(|theirs| !ours.iter().any(|ours| ours.is_like(theirs)))
    }

    pub fn table(&self, about: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.about == about)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_texts() {
        for (experiment, table, row, column, expect) in [
            ("000-linkbench-cached", "rounds", "wiredtiger", 11, 15654.0),
            ("000-linkbench-cached", "response", "tokumx", 2, 3.929),
            ("000-linkbench-disk", "rounds", "tokumx", 0, 439.0),
            ("000-linkbench-disk", "io", "wiredtiger", 2, 12.110),
            ("001-point-queries", "rate", "orig57.handler", 6, 371_045.0),
            ("001-point-queries", "switches", "mongo26", 6, 4.63),
            ("003-chunk-moves", "load", "tokumx", 0, 43769.0),
            ("004-ycsb", "sizes", "rocksdb", 1, 116_787_953_408.0),
        ] {
            let table = Published::about(experiment).and_then(|text| text.table(table)).unwrap();
            let found = table.rows.iter().find(|found| found.name == row).unwrap();
            assert_eq!(found.number(column), Some(expect), "{experiment} {row}");
            assert!(found.published);
        }
        assert_eq!(Published::about("kv"), None);
    }

    #[test]
    fn every_row_has_a_cell_for_each_column() {
        for table in Published::all().iter().flat_map(|text| &text.tables) {
            for row in &table.rows {
                assert_eq!(row.cells.len(), table.columns.len(), "{} {}", table.title, row.name);
            }
        }
    }
}
