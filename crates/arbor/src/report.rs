//! `arbor report`: what a server has recorded, as pages.

use std::path::Path;

use clap::{Arg, ArgMatches, Command};

use crate::failure::{BAD_OPTIONS, Failure};

pub(crate) fn command() -> Command {
    let directory = Arg::new("directory")
        .required(true)
        .value_name("DIR")
        .help("diagnostic.data, or the data directory that contains it");
    let out =
        Arg::new("out").long("out").value_name("FILE").default_value("diagnostics.html").help("The page to write");
    let diagnostics = Command::new("diagnostics")
        .about("Draws what the flight recorder has kept, and prints what is notable")
        .arg(directory)
        .arg(out);
    Command::new("report").about("Draws what a server has recorded").subcommand_required(true).subcommand(diagnostics)
}

pub(crate) fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let Some(("diagnostics", matches)) = matches.subcommand() else {
        return Err(Failure::new(BAD_OPTIONS, "what is to be drawn?"));
    };
    let text = |name: &str| matches.get_one::<String>(name).map_or("", String::as_str);
    let (given, out) = (Path::new(text("directory")), Path::new(text("out")));
    let inside = given.join(arbor_metrics::flight::DIRECTORY);
    let directory = if inside.is_dir() { &inside } else { given };
    let findings = arbor_lab::report::draw_diagnostics(directory, out).map_err(Failure::cannot_start)?;
    findings.iter().for_each(|finding| println!("{finding}"));
    println!("{}", out.display());
    Ok(())
}
