//! Writes the reports of runs from their directories: what a run does at its end, and `arbor lab report` at any time.

use std::path::{Path, PathBuf};

use super::founding::tables;
use super::load_control::PRICES;
use super::page::{Entry, index, page};
use super::text;
use crate::results::Run;
use crate::site::Prices;
use crate::{Error, Result};

pub const HTML: &str = "report.html";
pub const TEXT: &str = "report.txt";
pub const INDEX: &str = "index.html";
const TABLES: &str = "tables.json";

/// Reads a run's directory and writes report.txt, report.html and the tables as data into it.
pub fn draw(directory: &Path) -> Result<Run> {
    draw_with(directory, None, None)
}

/// Like [`draw`], but with another peer in a report of `kv`, and with prices.
pub(super) fn draw_with(directory: &Path, peer: Option<&str>, prices: Option<&Prices>) -> Result<Run> {
    let mut run = Run::read(directory)?;
    let fitting = prices.map(|prices| prices.of_machine(&run.environment));
    if let Some(parameters) = run.record.parameters.as_object_mut() {
        parameters.extend(peer.map(|peer| ("peer".to_owned(), peer.into())));
        parameters.extend(fitting.map(|fitting| (PRICES.to_owned(), fitting)));
    }
    run.tables = tables(&run);
    let data = serde_json::to_string_pretty(&run.tables).map_err(|error| Error::Io(error.into()))?;
    write(&directory.join(TABLES), &format!("{data}\n"))?;
    write(&directory.join(TEXT), &text(&run))?;
    write(&directory.join(HTML), &page(&run))?;
    Ok(run)
}

/// Writes one page over drawn runs in `directory`; returns its path.
pub fn draw_index(directory: &Path, title: &str, runs: &[PathBuf]) -> Result<PathBuf> {
    let drawn = runs.iter().map(|run| Run::read(run)).collect::<Result<Vec<Run>>>()?;
    let links: Vec<String> = runs.iter().map(|run| link(directory, &run.join(HTML))).collect();
    let entries: Vec<Entry<'_>> = drawn.iter().zip(&links).map(|(run, link)| Entry { run, link }).collect();
    let path = directory.join(INDEX);
    write(&path, &index(title, &entries))?;
    Ok(path)
}

/// Returns a page's address as seen from `directory`: relative if it is below it.
pub(crate) fn link(directory: &Path, page: &Path) -> String {
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let (directory, page) = (absolute(directory), absolute(page));
    match page.strip_prefix(&directory) {
        Ok(relative) => encoded(&relative.to_string_lossy()),
        Err(_) => format!("file://{}", encoded(&page.to_string_lossy())),
    }
}

/// A path as an address: all but plain letters in percent.
fn encoded(path: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte);
    path.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// Replaces a file whole.
fn write(path: &Path, text: &str) -> Result<()> {
    let fresh = path.with_extension("new");
    std::fs::write(&fresh, text).and_then(|()| std::fs::rename(&fresh, path)).map_err(Error::file(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_below_are_linked_by_their_names() {
        for (directory, page, expect) in [
            ("/r", "/r/a b/report.html", "a%20b/report.html"),
            ("/r", "/s/report.html", "file:///s/report.html"),
            ("lab", "lab/x/report.html", "x/report.html"),
        ] {
            assert_eq!(link(Path::new(directory), Path::new(page)), expect);
        }
    }
}
