//! `arbor inspect`: prints the shape of the fractal tree's trees, as of the last checkpoint.

use std::path::PathBuf;

use clap::{Arg, ArgMatches, Command};

use crate::engines::{USUAL, ftree_options};
use crate::failure::{BAD_OPTIONS, Failure};
use crate::folder;

pub fn command() -> Command {
    let dbpath =
        Arg::new("dbpath").long("dbpath").value_name("FOLDER").default_value("/data/db").help("Folder to look at");
    Command::new("inspect")
        .about("Prints the shape of the fractal tree in a folder while no server runs on it")
        .arg(dbpath)
}

pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let folder = PathBuf::from(matches.get_one::<String>("dbpath").map_or("/data/db", String::as_str));
    require_ftree("inspect", &folder)?;
    let mut out = std::io::stdout().lock();
    arbor_ftree::check::inspect(&folder.join(USUAL), &ftree_options(), &mut out).map_err(Failure::cannot_start)
}

/// The command knows no other engine's files.
pub fn require_ftree(command: &str, folder: &std::path::Path) -> Result<(), Failure> {
    match folder::engine_of(folder) {
        Some(engine) if engine != USUAL && !folder.join(USUAL).is_dir() => Err(Failure::new(
            BAD_OPTIONS,
            format!("arbor {command} knows the engine '{USUAL}'; {} was created with '{engine}'", folder.display()),
        )),
        _ => Ok(()),
    }
}
