//! `arbor lab site DIR...`: one static page over many runs and machines. Its data is in the page; `assets/site.js` filters it and draws.
//!
//! | file | what |
//! |---|---|
//! | `entry` | the numbers of a run: a row per system and step |
//! | `change` | points of a history at which its level changes |
//! | `prices` | a user's table of instance types, and the price of a million operations |
//! | `arguments` | the command line |

pub(crate) mod arguments;
mod change;
mod entry;
mod prices;

use std::path::{Path, PathBuf};

use change::changes;
use entry::{Entry, RunFacts, entries};
pub use prices::Prices;
use serde_json::{Value, json};

use crate::report::{Part, Sheet, link, linked_table};
use crate::results::Run;
use crate::{Error, Result};

/// A run and its directory's report as seen from the page.
struct Place {
    run: Run,
    link: String,
}

/// Finds runs in directories: a run's own, or one with runs below it.
pub(crate) fn runs_below(directories: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for directory in directories {
        let before = found.len();
        collect(directory, DEPTH_MAX, &mut found);
        if found.len() == before {
            return Err(Error::Usage(format!("{} contains no run", directory.display())));
        }
    }
    found.sort();
    found.dedup();
    Ok(found)
}

/// Levels of directories that are searched for runs.
const DEPTH_MAX: usize = 4;

fn collect(directory: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    if directory.join("run.yaml").is_file() {
        found.push(directory.to_owned());
        return;
    }
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut below: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    below.sort();
    if depth > 0 {
        below.iter().for_each(|path| collect(path, depth - 1, found));
    }
}

/// Returns the page over runs; `file` is where it will be.
pub fn page(file: &Path, title: &str, directories: &[PathBuf], prices: Option<&Prices>) -> Result<String> {
    let parent = file.parent().unwrap_or(Path::new(""));
    let read = |directory: &PathBuf| {
        let link = link(parent, &directory.join(crate::report::HTML));
        Ok(Place { run: Run::read(directory)?, link })
    };
    let mut places = directories.iter().map(read).collect::<Result<Vec<Place>>>()?;
    places.sort_by(|a, b| a.run.record.started.cmp(&b.run.record.started));
    let facts: Vec<RunFacts> = places.iter().map(|place| RunFacts::of(&place.run)).collect();
    let all: Vec<Entry> = places.iter().enumerate().flat_map(|(n, place)| entries(n, &place.run)).collect();
    let runs: Vec<Value> = places.iter().zip(&facts).map(|(place, facts)| of_run(place, facts, prices)).collect();
    let mut systems: Vec<&str> = Vec::new();
    for entry in &all {
        if !systems.contains(&entry.system.as_str()) {
            systems.push(&entry.system);
        }
    }
    let data = json!({
        "systems": systems,
        "figures": {},
        "runs": runs,
        "entries": all,
        "changes": changes(&all, &facts),
        "currency": prices.map(|prices| prices.currency.clone()),
    });
    let rows = places.iter().zip(&facts).map(|(place, facts)| {
        let record = &place.run.record;
        let systems = record.systems.iter().map(|system| system.name.as_str()).collect::<Vec<_>>().join(", ");
        let cells =
            [facts.started.clone(), systems, facts.machine.clone(), facts.commit.clone(), facts.warnings.join("; ")];
        (place.link.clone(), record.experiment.clone(), cells)
    });
    let list = linked_table("Runs", ["experiment", "started", "systems", "machine", "commit", "careful"], rows);
    let sheet = Sheet {
        title: title.to_owned(),
        about: format!(
            "{} runs. Ratios are to the best of what is shown; a geometric mean of 1 would be best everywhere.",
            places.len()
        ),
        warnings: Vec::new(),
        facts: Vec::new(),
        parts: vec![Part::Html(CONTENTS.to_owned()), Part::Heading("Runs".to_owned()), Part::Html(list)],
    };
    Ok(sheet.page_with(&data, include_str!("../../assets/site.js")))
}

/// Places that the script fills.
const CONTENTS: &str = include_str!("../../assets/site.html");

fn of_run(place: &Place, facts: &RunFacts, prices: Option<&Prices>) -> Value {
    json!({
        "link": place.link,
        "experiment": place.run.record.experiment,
        "scale": place.run.record.scale,
        "started": facts.started,
        "machine": facts.machine,
        "commit": facts.commit,
        "warnings": facts.warnings,
        "instances": prices.map(|prices| prices.fitting(&place.run.environment)),
    })
}
