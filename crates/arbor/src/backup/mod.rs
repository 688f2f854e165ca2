//! `arbor backup`: the state of a running server at one commit position, as files.
//!
//! ```text
//! server   arborBackup: one snapshot over all engines is held ── blocks of rows, in key order
//! create        ── a file per tree, synced ── manifest.json, synced: from here on it is a backup
//! restore  manifest, files ── an initial sync of an empty directory, whose peer is the backup
//! ```
//!
//! | file | what |
//! |---|---|
//! | `target` | the directory of backups, each a directory named by its time |
//! | `manifest` | what a backup consists of, with a checksum for everything |
//! | `rows_file` | byte layout of the rows of a tree |
//! | `source` | the server that is asked |
//! | `create`, `verify`, `restore` | the subcommands; `list` and `prune` are here |
//!
//! - B1: a directory without `manifest.json` is no backup: the manifest is written last, when all other files are on the disk.
//! - B2: a backup has no effect on the data of the server, and none of it is left there when it ends or is killed: a snapshot that no client
//!   asks for is released.
//! - B3: a restore changes an empty directory only. Until it has ended, `arbor.syncing` keeps servers from opening the directory.

mod create;
mod manifest;
mod restore;
mod rows_file;
mod source;
mod target;
mod verify;

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::failure::{BAD_OPTIONS, Failure};
use target::{Condition, Target};

/// The reason why a backup cannot be written, read or restored.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("cannot {what} {}: {source}", path.display())]
    Io { what: &'static str, path: PathBuf, source: std::io::Error },
    /// A file of a backup is not as it was written.
    #[error("{}: {reason}", path.display())]
    Damaged { path: PathBuf, reason: String },
    #[error("{0}")]
    Refused(String),
}

type Result<T> = std::result::Result<T, Error>;

/// An I/O error with what was being done.
fn io(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.into();
    move |source| Error::Io { what, path, source }
}

fn damaged(path: impl Into<PathBuf>, reason: impl Into<String>) -> Error {
    Error::Damaged { path: path.into(), reason: reason.into() }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::cannot_start(error)
    }
}

pub(crate) fn command() -> Command {
    let option = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help)
    };
    let from = || option("from", "DIRECTORY", "Directory of backups").required(true);
    let backup = || option("backup", "NAME", "One backup of the directory");
    let create = Command::new("create")
        .about("Writes the present state of a running server")
        .arg(
            option("uri", "URI", "Connection string; of several hosts a secondary is taken, if there is one")
                .required(true),
        )
        .arg(option("to", "DIRECTORY", "Directory of backups; the new one is a directory in it").required(true))
        .arg(
            option("limit", "MB", "Megabytes per second that are read at most")
                .value_parser(clap::value_parser!(u64).range(1..)),
        );
    let list = Command::new("list").about("Prints the backups of a directory, the oldest first").arg(from());
    let verify = Command::new("verify")
        .about("Reads every file of the backups of a directory and checks it")
        .arg(from())
        .arg(backup())
        .arg(Arg::new("restore").long("restore").action(ArgAction::SetTrue).help("Restores and validates them as well"))
        .arg(option("scratch", "DIRECTORY", "Place of what is restored for that; it is removed").requires("restore"));
    let restore = Command::new("restore")
        .about("Makes a data directory of a backup")
        .arg(from())
        .arg(backup().help("The backup; the newest one by default"))
        .arg(option("dbpath", "DIRECTORY", "Directory to restore into: an empty one, or none yet").required(true));
    let prune = Command::new("prune")
        .about("Removes the oldest backups of a directory, and those that were not finished")
        .arg(from())
        .arg(
            option("keep", "COUNT", "Number of backups that stay")
                .required(true)
                .value_parser(clap::value_parser!(u64).range(1..)),
        );
    Command::new("backup")
        .about("Backs up a running server, and restores what was backed up")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands([create, list, verify, restore, prune])
}

pub(crate) fn run(matches: &ArgMatches) -> std::result::Result<(), Failure> {
    let Some((name, matches)) = matches.subcommand() else {
        return Err(Failure::new(BAD_OPTIONS, "arbor backup needs a subcommand"));
    };
    let text = |name: &str| matches.get_one::<String>(name).map(String::as_str);
    let from = || Target::new(text("from").unwrap_or_default());
    match name {
        "create" => {
            let limit = matches.get_one::<u64>("limit").map(|megabytes| megabytes << 20);
            create::create(text("uri").unwrap_or_default(), &Target::new(text("to").unwrap_or_default()), limit)?;
        }
        "list" => list(&from())?,
        "verify" => {
            let scratch = text("scratch").map_or_else(std::env::temp_dir, PathBuf::from);
            let scratch = matches.get_flag("restore").then_some(scratch);
            verify::run(&from(), text("backup"), scratch.as_deref())?;
        }
        "restore" => restore::run(&from(), text("backup"), text("dbpath").unwrap_or_default().as_ref())?,
        "prune" => prune(&from(), matches.get_one::<u64>("keep").map_or(usize::MAX, |keep| *keep as usize))?,
        name => return Err(Failure::new(BAD_OPTIONS, format!("arbor backup has no subcommand {name}"))),
    }
    Ok(())
}

fn list(from: &Target) -> Result<()> {
    for backup in from.backups()? {
        match backup.read() {
            Condition::Whole(manifest) => println!("{} {manifest}", backup.name),
            Condition::Unfinished => println!("{} incomplete: it has no manifest.json", backup.name),
            Condition::Damaged(error) => println!("{} damaged: {error}", backup.name),
        }
    }
    Ok(())
}

fn prune(from: &Target, keep: usize) -> Result<()> {
    let mut whole = Vec::new();
    for backup in from.backups()? {
        match backup.read() {
            Condition::Whole(_) => whole.push(backup),
            Condition::Unfinished => {
                backup.remove().map(|()| println!("{} removed: it was not finished", backup.name))?
            }
            // What it holds may be all there is.
            Condition::Damaged(error) => println!("{} is damaged, and stays: {error}", backup.name),
        }
    }
    let old = whole.len().saturating_sub(keep);
    whole.iter().take(old).try_for_each(|backup| backup.remove().map(|()| println!("{} removed", backup.name)))
}
