//! `arbor report diagnostics`: what the flight recorder of a server has kept, as one page.
//!
//! | file | what |
//! |---|---|
//! | `history` | the series that the page is about, read from the files |
//! | `findings` | what is notable, in sentences |
//! | `charts` | the series as charts, at most [`BUCKETS`] points each |
//!
//! The page itself is `page/diagnostics`.

mod charts;
mod findings;
mod history;

use std::path::Path;

pub(super) use charts::groups;
pub(super) use findings::{Finding, clock, findings};
pub(super) use history::{History, Shape};

use crate::{Error, Result};

/// Points of a chart; a long time is drawn in longer intervals.
pub(super) const BUCKETS: usize = 400;

/// Draws the files of a directory into `out`; returns the findings as text.
pub fn draw_diagnostics(directory: &Path, out: &Path) -> Result<Vec<String>> {
    let history = History::read(directory).map_err(Error::file(directory))?;
    if history.len() < 2 {
        return Err(Error::Usage(format!("{} contains no samples of a flight recorder", directory.display())));
    }
    let findings = findings(&history);
    let page = super::page::diagnostics(&history, &findings);
    std::fs::write(out, page).map_err(Error::file(out))?;
    Ok(findings.iter().map(|finding| format!("{}  {}", finding.when, finding.text)).collect())
}
