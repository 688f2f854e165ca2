//! A table as the founding texts print them: right-aligned columns, the row's name at the end.
//!
//! ```text
//! point queries per second
//!     1      2      4  clients
//! 17864  32397  60294  fb56.handler
//! ```

use std::fmt;

#[derive(Clone, Debug)]
pub struct Table {
    pub title: String,
    /// What the columns are; stands behind the header.
    pub legend: String,
    pub columns: Vec<String>,
    pub rows: Vec<(Vec<String>, String)>,
}

impl Table {
    pub fn new(title: &str, legend: &str, columns: impl IntoIterator<Item = String>) -> Table {
        let columns = columns.into_iter().collect();
        Table { title: title.to_owned(), legend: legend.to_owned(), columns, rows: Vec::new() }
    }

    /// Cells that are missing at the end stay empty.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>, name: &str) {
        self.rows.push((cells.into_iter().collect(), name.to_owned()));
    }

    /// The first column is as wide as its widest cell, the others have two blanks before that and are at least 7 wide.
    fn widths(&self) -> Vec<usize> {
        const WIDTH_MIN: usize = 7;
        let cell = |row: &[String], column: usize| row.get(column).map_or(0, |cell| cell.chars().count());
        (0..self.columns.len())
            .map(|column| {
                let rows = self.rows.iter().map(|(cells, _)| cell(cells, column));
                let widest = rows.chain([cell(&self.columns, column)]).max().unwrap_or(0);
                if column == 0 { widest } else { (widest + 2).max(WIDTH_MIN) }
            })
            .collect()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = self.widths();
        writeln!(f, "{}", self.title)?;
        line(f, &widths, &self.columns, &self.legend)?;
        self.rows.iter().try_for_each(|(cells, name)| line(f, &widths, cells, name))
    }
}

fn line(f: &mut fmt::Formatter<'_>, widths: &[usize], cells: &[String], name: &str) -> fmt::Result {
    for (column, width) in widths.iter().enumerate() {
        write!(f, "{:>width$}", cells.get(column).map_or("", String::as_str))?;
    }
    writeln!(f, "  {name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(title: &str, cells: &[(&[&str], &str)]) -> String {
        let mut table = Table::new(title, "clients", ["1", "2", "40"].map(str::to_owned));
        for (cells, name) in cells {
            table.row(cells.iter().map(|cell| (*cell).to_owned()), name);
        }
        table.to_string()
    }

    #[test]
    fn the_founding_texts_own_form() {
        let qps = table(
            "point queries per second",
            &[(&["17864", "32397", "350665"], "fb56.handler"), (&["11730", "22884", "249402"], "fb56.sql")],
        );
        let expected = "point queries per second\n    1      2      40  clients\n17864  32397  350665  fb56.handler\n\
                        11730  22884  249402  fb56.sql\n";
        assert_eq!(qps, expected);
        let switches = table("context switch per query", &[(&["4.44", "4.14", "2.19"], "fb56.handler")]);
        assert_eq!(
            switches,
            "context switch per query\n   1      2     40  clients\n4.44   4.14   2.19  fb56.handler\n"
        );
    }

    #[test]
    fn a_row_that_ended_early_stays_aligned() {
        assert_eq!(table("t", &[(&["5"], "a")]), "t\n1      2     40  clients\n5                a\n");
    }
}
