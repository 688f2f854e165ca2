//! series.csv: `system,step,clients,phase,t_s,series,value`, a row per metric and interval.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use super::record::Phase;
use super::{lines, text};
use crate::{Error, Result};

const HEADER: &str = "system,step,clients,phase,t_s,series,value";

#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    pub system: String,
    pub step: String,
    pub clients: usize,
    pub phase: Phase,
    /// End of the interval, since the run began.
    pub t_s: f64,
    pub series: String,
    pub value: f64,
}

impl Point {
    pub fn is_of(&self, system: &str, step: &str, series: &str) -> bool {
        self.system == system && self.step == step && self.series == series
    }
}

/// The file as it is written.
#[derive(Debug)]
pub struct SeriesFile(BufWriter<File>);

impl SeriesFile {
    pub fn create(path: &Path) -> Result<SeriesFile> {
        let mut file = BufWriter::new(File::create(path).map_err(Error::file(path))?);
        writeln!(file, "{HEADER}").and_then(|()| file.flush()).map_err(Error::file(path))?;
        Ok(SeriesFile(file))
    }

    /// Appends one interval's points, whole lines at once.
    pub fn append(&mut self, points: &[Point]) -> std::io::Result<()> {
        for point in points {
            writeln!(
                self.0,
                "{},{},{},{},{:.3},{},{}",
                quoted(&point.system),
                quoted(&point.step),
                point.clients,
                point.phase.name(),
                point.t_s,
                quoted(&point.series),
                short(point.value),
            )?;
        }
        self.0.flush()
    }
}

/// Returns a number with at most three digits after the point, without trailing zeros.
fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Returns a cell of CSV.
pub(crate) fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

pub(super) fn read(path: &Path) -> Result<Vec<Point>> {
    let text = text(path)?;
    let mut lines = lines(&text);
    match lines.next() {
        None => return Ok(Vec::new()),
        Some((_, HEADER)) => {}
        Some((n, _)) => return Err(Error::results(path, format!("line {n}: the header is not {HEADER}"))),
    }
    lines
        .map(|(n, line)| point(line).ok_or_else(|| Error::results(path, format!("line {n} is not a point: {line:?}"))))
        .collect()
}

fn point(line: &str) -> Option<Point> {
    let cells = cells(line)?;
    let [system, step, clients, phase, t_s, series, value] = cells.as_slice() else { return None };
    Some(Point {
        system: system.clone(),
        step: step.clone(),
        clients: clients.parse().ok()?,
        phase: [Phase::Load, Phase::Run, Phase::Recovery].into_iter().find(|each| each.name() == phase)?,
        t_s: t_s.parse().ok()?,
        series: series.clone(),
        value: value.parse().ok()?,
    })
}

/// The cells of a line; a quoted one may hold commas and doubled quotes.
fn cells(line: &str) -> Option<Vec<String>> {
    let (mut cells, mut cell, mut inside) = (Vec::new(), String::new(), false);
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if inside && chars.peek() == Some(&'"') => {
                chars.next();
                cell.push('"');
            }
            '"' => inside = !inside,
            ',' if !inside => cells.push(std::mem::take(&mut cell)),
            c => cell.push(c),
        }
    }
    cells.push(cell);
    (!inside).then_some(cells)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: Option<&[&str]>) {
        let expected = expected.map(|cells| cells.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>());
        assert_eq!(cells(line), expected, "{line}");
    }

    #[test]
    fn cells_may_be_quoted() {
        check("a,b,", Some(&["a", "b", ""]));
        check("\"a,b\",\"say \"\"x\"\"\"", Some(&["a,b", "say \"x\""]));
        check("\"open", None);
    }

    #[test]
    fn numbers_are_short() {
        for (value, text) in [(1.0, "1"), (0.1234, "0.123"), (1200.0, "1200"), (0.5, "0.5"), (0.0, "0")] {
            assert_eq!(short(value), text);
        }
    }
}
