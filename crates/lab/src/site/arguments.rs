//! The command line of `arbor lab site`.

use std::path::PathBuf;

use clap::{ArgMatches, Command};

use super::{Prices, page, runs_below};
use crate::cli::{directories, option, text};
use crate::results::Ending;
use crate::{Error, Result};

pub(crate) fn command() -> Command {
    Command::new("site")
        .about("Write one page over many runs and machines: filters, ratios to the best, sizes, history by commit")
        .arg(directories("Directories of runs, or with runs below them"))
        .arg(option("out", "FILE", "The page (site.html)"))
        .arg(option("title", "TEXT", "Its title (Laboratory)"))
        .arg(option(
            "prices",
            "FILE",
            "Table of instance types, for the price of a million operations (docs/prices.yaml)",
        ))
}

pub(crate) fn run(matches: &ArgMatches) -> Result<Ending> {
    let found = runs_below(&crate::cli::given_directories(matches))?;
    let prices = text(matches, "prices").map(|file| Prices::read(&PathBuf::from(file))).transpose()?;
    let file = PathBuf::from(text(matches, "out").unwrap_or("site.html"));
    let html = page(&file, text(matches, "title").unwrap_or("Laboratory"), &found, prices.as_ref())?;
    std::fs::write(&file, html).map_err(Error::file(&file))?;
    println!("{} runs: {}", found.len(), file.display());
    Ok(Ending::Complete)
}
