//! `arbor lab ...`.

mod arguments;
mod out;
mod overrides;
mod running;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;

pub use arguments::command;
pub(crate) use arguments::{directories, list, option, servers, switch};
use clap::ArgMatches;
pub(crate) use out::out;
pub(crate) use overrides::setup;

use crate::agent;
use crate::compare;
use crate::experiment::{self, describe, find};
use crate::export;
use crate::generator;
use crate::kv::{self, KvEngine};
use crate::query;
use crate::replset;
use crate::report;
use crate::results::{Ending, Run};
use crate::site;
use crate::{Error, Result};

/// Runs what the arguments ask for; `engines` are those of this build.
pub fn run(matches: &ArgMatches, engines: &[KvEngine], host: crate::Host) -> ExitCode {
    host.declare();
    exit_code(dispatch(matches, engines))
}

fn dispatch(matches: &ArgMatches, engines: &[KvEngine]) -> Result<Ending> {
    match matches.subcommand() {
        Some(("run", matches)) if text(matches, "experiment") == Some("query") => {
            query::arguments::run(matches, engines)
        }
        Some(("run", matches)) if text(matches, "experiment") == Some("all") => running::run_all(matches, engines),
        Some(("run", matches)) => running::run_one(matches, engines),
        Some(("replay", matches)) => running::replay(matches, engines),
        Some(("echo", matches)) => running::run_echo(matches),
        Some(("describe", matches)) if text(matches, "experiment") == Some("query") => {
            print!("{}", query::arguments::describe()?);
            Ok(Ending::Complete)
        }
        Some(("describe", matches)) => {
            let name = text(matches, "experiment").unwrap_or_default();
            print!("{}", describe(&find(name)?, name, &setup(matches)?));
            Ok(Ending::Complete)
        }
        Some(("report", matches)) => report::arguments::run(matches).map(|()| Ending::Complete),
        Some(("compare", matches)) => {
            let runs =
                given_directories(matches).iter().map(|directory| Run::read(directory)).collect::<Result<Vec<_>>>()?;
            print!("{}", compare::compare(&runs)?);
            if let Some(file) = text(matches, "page") {
                std::fs::write(file, compare::page(&runs)).map_err(Error::file(file))?;
                println!("{file}");
            }
            Ok(Ending::Complete)
        }
        Some(("export", matches)) => export::run(matches),
        Some(("site", matches)) => site::arguments::run(matches),
        Some(("agent", matches)) => agent::run(matches),
        Some(("generator", matches)) => generator::run(matches),
        Some(("replset", matches)) => replset::arguments::run(matches, engines),
        Some(("kv", matches)) => kv::arguments::run(matches, engines),
        Some(("kv-engine", matches)) => kv::arguments::run_engine(matches, engines).map(|()| Ending::Complete),
        _ => {
            print!("{}", experiment::list()?);
            Ok(Ending::Complete)
        }
    }
}

pub(crate) fn given_directories(matches: &ArgMatches) -> Vec<PathBuf> {
    texts(matches, "directory").iter().map(|directory| Path::new(directory).to_owned()).collect()
}

fn exit_code(ending: Result<Ending>) -> ExitCode {
    match ending {
        Ok(Ending::Complete) => ExitCode::SUCCESS,
        Ok(Ending::Partial | Ending::Running) => ExitCode::FAILURE,
        // As a shell reports a process that SIGINT ended.
        Ok(Ending::Interrupted) => ExitCode::from(130),
        Err(error @ Error::Usage(_)) => {
            eprintln!("arbor lab: {error}");
            ExitCode::from(2)
        }
        Err(error @ Error::NotKept(_)) => {
            eprintln!("arbor lab: {error}");
            ExitCode::from(3)
        }
        Err(error) => {
            eprintln!("arbor lab: {error}");
            ExitCode::FAILURE
        }
    }
}

pub(crate) fn text<'a>(matches: &'a ArgMatches, name: &str) -> Option<&'a str> {
    matches.try_get_one::<String>(name).ok().flatten().map(String::as_str)
}

pub(crate) fn texts(matches: &ArgMatches, name: &str) -> Vec<String> {
    matches.try_get_many::<String>(name).ok().flatten().into_iter().flatten().cloned().collect()
}

pub(crate) fn parse<T: FromStr>(name: &str, text: &str) -> Result<T> {
    text.trim().parse().map_err(|_| Error::Usage(format!("--{name}: invalid number {text:?}")))
}

pub(crate) fn number<T: FromStr>(matches: &ArgMatches, name: &str) -> Result<Option<T>> {
    text(matches, name).map(|text| parse(name, text)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_former_name_of_replset_works() {
        for name in ["set", "replset"] {
            let matches = command().try_get_matches_from(["lab", name]).unwrap();
            assert_eq!(matches.subcommand_name(), Some("replset"));
        }
    }
}
