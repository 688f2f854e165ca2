//! `arbor lab report DIR...`: draws the reports of finished runs again.

use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Command};

use super::draw::draw_with;
use super::draw_index;
use crate::Result;
use crate::site::Prices;

pub fn command() -> Command {
    Command::new("report")
        .about("Draw the reports of runs again from their files; of several directories also an index page")
        .arg(
            Arg::new("directory")
                .required(true)
                .value_name("DIR")
                .num_args(1..)
                .action(ArgAction::Append)
                .help("A run's directory"),
        )
        .arg(
            Arg::new("index")
                .long("index")
                .value_name("DIR")
                .help("Directory for the index page (the parent of the first run's directory)"),
        )
        .arg(
            Arg::new("peer")
                .long("peer")
                .value_name("E")
                .help("Engine that the others are compared with in a report of kv"),
        )
        .arg(
            Arg::new("prices")
                .long("prices")
                .value_name("FILE")
                .help("Table of instance types, for the price of a million operations (docs/prices.yaml)"),
        )
        .arg(Arg::new("text").long("text").action(ArgAction::SetTrue).help("Print the text report"))
}

/// Draws, and prints where the pages are.
pub fn run(matches: &ArgMatches) -> Result<()> {
    let directories: Vec<PathBuf> =
        matches.get_many::<String>("directory").into_iter().flatten().map(PathBuf::from).collect();
    let prices = matches.get_one::<String>("prices").map(|file| Prices::read(Path::new(file))).transpose()?;
    for directory in &directories {
        let run = draw_with(directory, matches.get_one::<String>("peer").map(String::as_str), prices.as_ref())?;
        if matches.get_flag("text") {
            println!("{}", super::text(&run));
        }
        println!("{}", directory.join(super::draw::HTML).display());
    }
    let parent = directories.first().and_then(|directory| directory.parent()).unwrap_or(Path::new("")).to_owned();
    let parent = if parent.as_os_str().is_empty() { PathBuf::from(".") } else { parent };
    let index = matches.get_one::<String>("index").map(PathBuf::from);
    if directories.len() > 1 || index.is_some() {
        println!("{}", draw_index(&index.unwrap_or(parent), "Laboratory runs", &directories)?.display());
    }
    Ok(())
}
