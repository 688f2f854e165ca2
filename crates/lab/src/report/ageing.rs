//! Effect of an experiment's rounds on each system: its last round as a part of its first, and of the last
//! round of the fastest. The founding text's rows follow from its own rounds.

use super::chart::ROUND;
use super::grid::{Grid, label, with};
use super::published::Published;
use crate::results::{Form, Row, Table};

/// First and last round of a system.
struct Ends<'a> {
    name: &'a str,
    first: f64,
    last: f64,
}

/// None: there was one round only. Of other dimensions than the rounds, their last values. A system that did not come to
/// the last round is left out.
pub(super) fn table(grid: &Grid<'_>, published: Option<&Published>) -> Option<Table> {
    let rounds = grid.dimensions().iter().find(|dimension| dimension.name == ROUND)?;
    let at = grid.choices(rounds).pop()?;
    let held = label(&at);
    let place = if held.is_empty() { held } else { format!(" ({held})") };
    let title = format!("the last round as a part of the first, and of the fastest system's last{place}");
    let rate = |system: &str, round: Option<&String>| grid.metric(system, &with(&at, rounds, round?), "per_second");
    let (first, last) = (rounds.values.first(), rounds.values.last());
    let ends = |name| Some(Ends { name, first: rate(name, first)?, last: rate(name, last)? });
    let mut table = Table::new(&title, "", ["of its first", "of the fastest"].map(str::to_owned));
    table.rows = rows(grid.systems().filter_map(ends).collect(), false);
    if table.rows.is_empty() {
        return None;
    }
    table.rows.extend(published.into_iter().flat_map(of_text));
    Some(table.about("ageing").form(Form::NameFirst))
}

fn of_text(text: &Published) -> Vec<Row> {
    let rounds = text.table("rounds").map(|table| (table.rows.as_slice(), table.columns.len()));
    let (all, columns) = rounds.unwrap_or_default();
    let ends = |row| {
        let row: &Row = row;
        Some(Ends { name: &row.name, first: row.number(0)?, last: row.number(columns.checked_sub(1)?)? })
    };
    rows(all.iter().filter_map(ends).collect(), true)
}

fn rows(all: Vec<Ends<'_>>, published: bool) -> Vec<Row> {
    let fastest = all.iter().map(|ends| ends.last).fold(0.0, f64::max);
    let part = |value: f64, of: f64| if of > 0.0 { format!("{:.2}", value / of) } else { "-".to_owned() };
    let row = |ends: Ends<'_>| Row {
        name: ends.name.to_owned(),
        cells: vec![part(ends.last, ends.first), part(ends.last, fastest)],
        published,
    };
    all.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_read_as_its_author_read_it() {
        let cells = |experiment: &str| {
            let rows = of_text(Published::about(experiment).unwrap());
            rows.into_iter().map(|row| (row.name, row.cells.join(" "))).collect::<Vec<_>>()
        };
        let pairs =
            |pairs: &[(&str, &str)]| pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect::<Vec<_>>();
        assert_eq!(
            cells("000-linkbench-cached"),
            pairs(&[
                ("wiredtiger", "0.86 1.00"),
                ("rocksdb", "0.89 0.62"),
                ("tokumx", "0.44 0.31"),
                ("mmapv1", "0.92 0.30")
            ])
        );
        assert_eq!(cells("001-point-queries"), []);
    }
}
