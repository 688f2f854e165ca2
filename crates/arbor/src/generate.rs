//! `arbor generate`: man pages and shell completions, for packages. They are those of the command line, so they cannot differ from it.

use std::path::{Path, PathBuf};

use clap::{Arg, ArgMatches, Command};
use clap_complete::{Shell, generate_to};
use clap_mangen::generate_to as generate_pages;

use crate::failure::Failure;

pub(crate) fn command() -> Command {
    let directory =
        Arg::new("directory").required(true).value_name("DIR").help("Directory for `man` and `completions`");
    Command::new("generate").about("Writes man pages and shell completions").hide(true).arg(directory)
}

pub(crate) fn run(matches: &ArgMatches, cli: Command) -> Result<(), Failure> {
    let directory = PathBuf::from(matches.get_one::<String>("directory").map_or(".", String::as_str));
    write(&directory, cli).map_err(|error| Failure::cannot_start(format!("{}: {error}", directory.display())))
}

fn write(directory: &Path, mut cli: Command) -> std::io::Result<()> {
    // the version of a build names its commit; pages are those of the release
    cli = cli.version(crate::version::VERSION);
    let (man, completions) = (directory.join("man"), directory.join("completions"));
    std::fs::create_dir_all(&man)?;
    std::fs::create_dir_all(&completions)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        generate_to(shell, &mut cli, "arbor", &completions)?;
    }
    generate_pages(cli, man)
}
