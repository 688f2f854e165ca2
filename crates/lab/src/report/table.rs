//! Tables as text, each in the form of the founding text it follows.
//!
//! ```text
//! point queries per second                        the form NameLast
//!     1      2      4  clients
//! 17864  32397  60294  fb56.handler
//!
//!                 add_link        update_link     the form NameFirst
//! wiredtiger      1.361           1.422
//! ```

use std::fmt;

use crate::results::{Form, Row, Table};

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.title)?;
        match self.form {
            Form::NameLast => name_last(self, f),
            Form::NameFirst => name_first(self, f),
            Form::Lines => self.rows.iter().try_for_each(|row| writeln!(f, "{},{}", name(row), row.cells.join(","))),
            Form::Ruled => ruled(self, f),
        }
    }
}

/// The row's name, marked where the number is not ours.
fn name(row: &Row) -> String {
    if row.published { format!("{} (published)", row.name) } else { row.name.clone() }
}

fn name_last(table: &Table, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let widths = widths(table);
    name_last_line(f, &widths, &table.columns, &table.legend)?;
    table.rows.iter().try_for_each(|row| name_last_line(f, &widths, &row.cells, &name(row)))
}

/// The first column is as wide as its widest cell, the others have two blanks before that and are at least 7 wide.
fn widths(table: &Table) -> Vec<usize> {
    const WIDTH_MIN: usize = 7;
    let widest = (0..table.columns.len()).map(|column| widest(table, column));
    widest.enumerate().map(|(column, widest)| if column == 0 { widest } else { (widest + 2).max(WIDTH_MIN) }).collect()
}

fn widest(table: &Table, column: usize) -> usize {
    let rows = table.rows.iter().map(|row| &row.cells).chain([&table.columns]);
    rows.filter_map(|cells| cells.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
}

fn name_last_line(f: &mut fmt::Formatter<'_>, widths: &[usize], cells: &[String], name: &str) -> fmt::Result {
    for (column, width) in widths.iter().enumerate() {
        write!(f, "{:>width$}", cells.get(column).map_or("", String::as_str))?;
    }
    writeln!(f, "  {name}")
}

fn name_first(table: &Table, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    const WIDTH_MIN: usize = 16;
    let names = table.rows.iter().map(|row| name(row).chars().count()).max().unwrap_or(0);
    let first = (names + 2).max(WIDTH_MIN);
    let widths: Vec<usize> =
        (0..table.columns.len()).map(|column| (widest(table, column) + 2).max(WIDTH_MIN)).collect();
    name_first_line(f, first, &widths, &table.legend, &table.columns)?;
    table.rows.iter().try_for_each(|row| name_first_line(f, first, &widths, &name(row), &row.cells))
}

fn name_first_line(
    f: &mut fmt::Formatter<'_>,
    first: usize,
    widths: &[usize],
    name: &str,
    cells: &[String],
) -> fmt::Result {
    let mut line = format!("{name:first$}");
    for (cell, width) in cells.iter().zip(widths) {
        line.push_str(&format!("{cell:width$}"));
    }
    writeln!(f, "{}", line.trim_end())
}

fn ruled(table: &Table, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let names = table.rows.iter().map(|row| name(row).chars().count()).chain([table.legend.chars().count()]);
    let mut widths = vec![names.max().unwrap_or(0).max(10)];
    widths.extend((0..table.columns.len()).map(|column| widest(table, column).max(10)));
    let rule = widths.iter().map(|width| "=".repeat(*width)).collect::<Vec<_>>().join(" ");
    let line = |name: String, cells: &[String]| {
        let cells = [name].into_iter().chain(cells.iter().cloned());
        let padded = cells.zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect::<Vec<_>>().join(" ");
        padded.trim_end().to_owned()
    };
    writeln!(f, "{rule}\n{}\n{rule}", line(table.legend.clone(), &table.columns))?;
    table.rows.iter().try_for_each(|row| writeln!(f, "{}", line(name(row), &row.cells)))?;
    writeln!(f, "{rule}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(title: &str, rows: &[(&[&str], &str)]) -> Table {
        let mut table = Table::new(title, "clients", ["1", "2", "40"].map(str::to_owned));
        for (cells, name) in rows {
            table.row(cells.iter().map(|cell| (*cell).to_owned()), name);
        }
        table
    }

    #[test]
    fn queries_per_second_of_founding_text_001() {
        let qps = table(
            "point queries per second",
            &[(&["17864", "32397", "350665"], "fb56.handler"), (&["11730", "22884", "249402"], "fb56.sql")],
        );
        let expected = "point queries per second\n    1      2      40  clients\n17864  32397  350665  fb56.handler\n\
                        11730  22884  249402  fb56.sql\n";
        assert_eq!(qps.to_string(), expected);
        let mut switches = table("context switch per query", &[(&["4.44", "4.14", "2.19"], "fb56.handler")]);
        switches.rows[0].published = true;
        assert_eq!(
            switches.to_string(),
            "context switch per query\n   1      2     40  clients\n4.44   4.14   2.19  fb56.handler (published)\n"
        );
    }

    #[test]
    fn a_row_that_ended_early_stays_aligned() {
        assert_eq!(table("t", &[(&["5"], "a")]).to_string(), "t\n1      2     40  clients\n5                a\n");
    }

    #[test]
    fn response_times_and_graph_data_of_founding_text_000() {
        let mut response = Table::new("response", "", ["add_link", "update_link", "get_links_list"].map(str::to_owned));
        response.row(["1.361", "1.422", "0.768"].map(str::to_owned), "wiredtiger");
        let expected = "response\n                add_link        update_link     get_links_list\n\
                        wiredtiger      1.361           1.422           0.768\n";
        assert_eq!(response.form(Form::NameFirst).to_string(), expected);
        let lines = table("t", &[(&["18279", "17715", "16740"], "wiredtiger")]).form(Form::Lines);
        assert_eq!(lines.to_string(), "t\nwiredtiger,18279,17715,16740\n");
    }

    #[test]
    fn sizes_of_founding_text_004() {
        let mut sizes = Table::new("sizes", "engine", ["compression", "storage size"].map(str::to_owned));
        sizes.row(["none", "206.777.207.344"].map(str::to_owned), "mmapv1");
        let expected = "sizes\n========== =========== ===============\nengine     compression storage size\n\
                        ========== =========== ===============\nmmapv1     none        206.777.207.344\n\
                        ========== =========== ===============\n";
        assert_eq!(sizes.form(Form::Ruled).to_string(), expected);
    }
}
