//! `arbor backup`: the state of a running server at one commit position, as files.
//!
//! ```text
//! server   arborBackup: one snapshot over all engines is held ── blocks of rows, in key order
//! create        ── a file per tree, synced ── manifest.json, synced: from here on it is a backup
//! archive       ── the log behind the backup, block by block, as it grows
//! restore  manifest, files ── an initial sync of an empty directory, whose peer is the backup ── the log, as a follower receives it
//! ```
//!
//! | file | what |
//! |---|---|
//! | `target` | the backups of a deployment, each a directory named by its time |
//! | `files`, `s3` | where the files of a target are: a directory, or an object store |
//! | `cipher` | files that are encrypted |
//! | `manifest` | what a backup consists of, with a checksum for everything |
//! | `rows_file` | byte layout of the rows of a tree |
//! | `source` | the server that is asked |
//! | `log_files` | the archived log in the target, byte layout |
//! | `point` | a point of the past: the backup and the part of the log that make it up |
//! | `copy` | the data directory that `$backupCursor` lists |
//! | `cluster` | all sets of a sharded cluster at one time |
//! | `create`, `archive`, `verify`, `restore` | the subcommands; `list` and `prune` are here |
//!
//! - B1: a directory without `manifest.json` is no backup: the manifest is written last, when all other files are on the disk.
//! - B2: a backup has no effect on the data of the server, and none of it is left there when it ends or is killed: a snapshot that no client
//!   asks for is released.
//! - B3: a restore changes an empty directory only. Until it has ended, `arbor.syncing` keeps servers from opening the directory.

mod archive;
mod cipher;
mod cluster;
pub(crate) mod copy;
mod create;
mod files;
mod log_files;
mod manifest;
mod point;
mod restore;
mod rows_file;
mod s3;
mod source;
mod target;
mod verify;

use std::path::PathBuf;
use std::time::Duration;

use arbor_txn::fetch::BACKGROUND_NICE;
use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::failure::{BAD_OPTIONS, Failure};
use crate::pace::Speed;
use cipher::Cipher;
use log_files::LogFiles;
use manifest::Manifest;
use point::Asked;
use target::{Backup, Condition, Target};

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
    /// A file is encrypted with another key, or ought to be encrypted.
    #[error("{0}")]
    Key(String),
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

/// A time as `restore --time` takes it.
fn shown_time(time: u64) -> String {
    let (seconds, counter) = ((time >> 32) as i64, time & 0xffff_ffff);
    let shown = jiff::Timestamp::from_second(seconds).map_or_else(|_| "?".to_owned(), |shown| shown.to_string());
    format!("{shown} ({seconds},{counter})")
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
    let from = || option("from", "TARGET", "Directory of backups, or s3://BUCKET/PREFIX").required(true);
    let backup = || option("backup", "NAME", "One backup of the directory");
    let uri = || {
        let help = "Connection string; of several hosts a secondary is taken, if there is one. That of a router: the whole cluster";
        option("uri", "URI", help).required(true)
    };
    let limit = || {
        let help = "Megabytes per second that are read at most; 0: as fast as possible. By default what clients leave of the processors";
        option("limit", "MB", help).value_parser(clap::value_parser!(u64))
    };
    let to = || {
        let help = "Directory of backups, or s3://BUCKET/PREFIX; the new one is a directory in it";
        option("to", "TARGET", help).required(true)
    };
    let key = || {
        let help = "File with the key (64 hexadecimal digits) with which everything in the target is encrypted";
        option("key-file", "FILE", help)
    };
    let create = Command::new("create")
        .about("Writes the present state of a running server")
        .args([uri(), to(), limit(), key()])
        .arg(Arg::new("incremental").long("incremental").action(ArgAction::SetTrue).help(
            "Writes what was committed since the last backup: the log, behind what is archived of it. Without a backup a full one",
        ));
    let archive = Command::new("archive")
        .about("Writes the log of a running server behind the newest backup, as it grows, until it is ended")
        .args([uri(), to(), limit(), key()])
        .arg(
            option(
                "interval",
                "SECONDS",
                "Time between two points of a cluster (10): what is committed behind the last one is not restored",
            )
            .value_parser(clap::value_parser!(u64).range(1..=3600)),
        );
    let list = Command::new("list").about("Prints the backups of a directory, the oldest first").args([from(), key()]);
    let verify = Command::new("verify")
        .about("Reads every file of the backups of a directory and checks it")
        .args([from(), key()])
        .arg(backup())
        .arg(Arg::new("restore").long("restore").action(ArgAction::SetTrue).help("Restores and validates them as well"))
        .arg(option("scratch", "DIRECTORY", "Place of what is restored for that; it is removed").requires("restore"));
    let restore = Command::new("restore")
        .about("Makes a data directory of a backup")
        .args([from(), key()])
        .arg(backup().help("The state of this backup; by default the newest one, and the archived log behind it"))
        .arg(option(
            "time",
            "TIME",
            "All commits before this second (2026-11-30T12:00:00Z), or up to a cluster time (SECONDS,COUNTER)",
        ))
        .arg(option("position", "POSITION", "All commits up to this position").value_parser(clap::value_parser!(u64)))
        .group(clap::ArgGroup::new("point").args(["backup", "time", "position"]))
        .arg(
            option("only", "NAMESPACE", "Only this database, or this collection (DB.COLLECTION); may be repeated")
                .action(ArgAction::Append),
        )
        .arg(
            option("shard", "NAME=SET/HOST:PORT,...", "Where a shard of a cluster is going to be; may be repeated")
                .action(ArgAction::Append)
                .value_parser(parse_shard),
        )
        .arg(option("dbpath", "DIRECTORY", "Directory to restore into: an empty one, or none yet").required(true));
    let prune = Command::new("prune")
        .about("Removes the oldest backups of a directory, and those that were not finished")
        .args([from(), key()])
        .arg(
            option("keep", "COUNT", "Number of backups that stay at least")
                .value_parser(clap::value_parser!(u64).range(1..)),
        )
        .arg(
            option("keep-days", "DAYS", "Days back to which everything stays that restores any second of them")
                .value_parser(clap::value_parser!(u32).range(1..)),
        )
        .group(clap::ArgGroup::new("kept").args(["keep", "keep-days"]).multiple(true).required(true));
    Command::new("backup")
        .about("Backs up a running server, and restores what was backed up")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands([create, archive, list, verify, restore, prune])
}

fn parse_shard(text: &str) -> std::result::Result<(String, String), String> {
    let (name, hosts) = text.split_once('=').ok_or("it is not of the form NAME=SET/HOST:PORT")?;
    match hosts.split_once('/') {
        Some((set, hosts)) if !name.is_empty() && !set.is_empty() && hosts.contains(':') => {}
        _ => return Err("it is not of the form NAME=SET/HOST:PORT".to_owned()),
    }
    Ok((name.to_owned(), hosts.to_owned()))
}

pub(crate) fn run(matches: &ArgMatches) -> std::result::Result<(), Failure> {
    let Some((name, matches)) = matches.subcommand() else {
        return Err(Failure::new(BAD_OPTIONS, "arbor backup needs a subcommand"));
    };
    let text = |name: &str| matches.get_one::<String>(name).map(String::as_str);
    let key = || text("key-file").map(|path| Cipher::read(path.as_ref())).transpose();
    let target = |name| Ok::<Target, Error>(Target::parse(text(name).unwrap_or_default())?.encrypted(key()?));
    let (from, to) = (|| target("from"), || target("to"));
    let speed = || matches.get_one::<u64>("limit").map_or(Speed::Idle, |megabytes| Speed::of_megabytes(*megabytes));
    if ["create", "archive"].contains(&name) {
        // what clients do on this machine goes first; where it is not allowed, it does not
        let _refused = rustix::process::setpriority_process(None, BACKGROUND_NICE);
    }
    match name {
        "create" => create::create(text("uri").unwrap_or_default(), &to()?, speed(), matches.get_flag("incremental"))?,
        "archive" => {
            let interval = matches.get_one::<u64>("interval").map(|seconds| Duration::from_secs(*seconds));
            archive::run(text("uri").unwrap_or_default(), &to()?, speed(), interval)?;
        }
        "list" if cluster::is_of_one(&from()?)? => cluster::list(&from()?)?,
        "list" => list(&from()?)?,
        "verify" => {
            let scratch = text("scratch").map_or_else(std::env::temp_dir, PathBuf::from);
            let scratch = matches.get_flag("restore").then_some(scratch);
            if text("backup").is_none() && cluster::is_of_one(&from()?)? {
                return Ok(cluster::verify(&from()?, scratch.as_deref())?);
            }
            verify::run(&from()?, text("backup"), scratch.as_deref())?;
        }
        "restore" => {
            let asked = match (text("backup"), text("time"), matches.get_one::<u64>("position")) {
                (Some(name), ..) => Asked::Backup(name.to_owned()),
                (_, Some(time), _) => Asked::Time(
                    point::parse_time(time).map_err(|error| Failure::new(BAD_OPTIONS, format!("--time: {error}")))?,
                ),
                (.., Some(position)) => Asked::Position(*position),
                _ => Asked::Newest,
            };
            let only: Vec<String> = matches.get_many("only").unwrap_or_default().cloned().collect();
            let (from, dbpath) = (from()?, text("dbpath").unwrap_or_default().as_ref());
            let hosts: Vec<(String, String)> = matches.get_many("shard").unwrap_or_default().cloned().collect();
            match cluster::is_of_one(&from)? {
                true if !only.is_empty() => {
                    let text = "--only is for backups of one set: name the directory of a shard in --from";
                    return Err(Failure::new(BAD_OPTIONS, text));
                }
                true => cluster::restore(&from, &asked, &hosts, dbpath)?,
                false if !hosts.is_empty() => {
                    return Err(Failure::new(BAD_OPTIONS, "--shard is for backups of a sharded cluster"));
                }
                false => restore::run(&from, &asked, &only, dbpath)?,
            }
        }
        "prune" => {
            let keep = Keep {
                count: matches.get_one::<u64>("keep").map(|count| *count as usize),
                days: matches.get_one::<u32>("keep-days").copied(),
            };
            let (from, now) = (from()?, jiff::Timestamp::now());
            if cluster::is_of_one(&from)? { cluster::prune(&from, keep, now)? } else { prune(&from, keep, now)? }
        }
        name => return Err(Failure::new(BAD_OPTIONS, format!("arbor backup has no subcommand {name}"))),
    }
    Ok(())
}

fn list(from: &Target) -> Result<()> {
    for backup in from.backups()? {
        match backup.read()? {
            Condition::Whole(manifest) => println!("{} {manifest}", backup.name),
            Condition::Unfinished => println!("{} incomplete: it has no manifest.json", backup.name),
            Condition::Damaged(error) => println!("{} damaged: {error}", backup.name),
        }
    }
    let log = LogFiles::of(from);
    let heads = log.heads()?;
    if !heads.is_empty() {
        println!("log: {} bytes", log.bytes()?);
        point::ranges(from, &heads)?.iter().for_each(|range| println!("restorable: {range}"));
    }
    Ok(())
}

/// The backups that a `prune` leaves: those that either of the two wants.
#[derive(Clone, Copy, Debug, Default)]
struct Keep {
    count: Option<usize>,
    days: Option<u32>,
}

impl Keep {
    /// Returns how many of the backups, the oldest first, go. They are given by the times at which they ended.
    fn too_old<'m>(self, backups: impl Iterator<Item = &'m str> + Clone, now: jiff::Timestamp) -> usize {
        let all = backups.clone().count();
        let by_count = self.count.map(|count| all.saturating_sub(count));
        let by_days = self.days.map(|days| {
            let since = now.as_second() - i64::from(days) * 86_400;
            let is_before =
                |ended: &&str| ended.parse::<jiff::Timestamp>().is_ok_and(|ended| ended.as_second() <= since);
            // The last one before that is what the log continues: without it the first of these days could not be restored.
            backups.take_while(is_before).count().saturating_sub(1)
        });
        [by_count, by_days].into_iter().flatten().min().unwrap_or(0)
    }
}

fn prune(from: &Target, keep: Keep, now: jiff::Timestamp) -> Result<()> {
    let mut whole = Vec::new();
    for backup in from.backups()? {
        match backup.read()? {
            Condition::Whole(manifest) => whole.push((backup, manifest)),
            Condition::Unfinished => {
                backup.remove().map(|()| println!("{} removed: it was not finished", backup.name))?
            }
            // What it holds may be all there is.
            Condition::Damaged(error) => println!("{} is damaged, and stays: {error}", backup.name),
        }
    }
    let old = keep.too_old(whole.iter().map(|(_, manifest)| manifest.ended.as_str()), now);
    remove_old(from, &whole, old)
}

/// Removes the first `old` backups, and the log before the others.
fn remove_old(from: &Target, whole: &[(Backup, Box<Manifest>)], old: usize) -> Result<()> {
    whole.iter().take(old).try_for_each(|(backup, _)| backup.remove().map(|()| println!("{} removed", backup.name)))?;
    if let Some((_, oldest)) = whole.get(old) {
        match LogFiles::of(from).remove_before(oldest.position)? {
            0 => {}
            removed => println!("{removed} files of the log removed"),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_either_number_or_days_want_stays() {
        let backups = [1, 5, 10, 15, 20].map(|day| format!("2026-11-{day:02}T00:00:00Z"));
        let now = "2026-11-20T12:00:00Z".parse().unwrap();
        let gone = |count, days| Keep { count, days }.too_old(backups.iter().map(String::as_str), now);
        assert_eq!([gone(Some(2), None), gone(Some(5), None), gone(Some(9), None)], [3, 0, 0]);
        // Ten days back is the 10th at noon: the backup of that day is the one from which it is restored.
        assert_eq!(
            [gone(None, Some(10)), gone(None, Some(11)), gone(None, Some(100)), gone(None, Some(1))],
            [2, 1, 0, 3]
        );
        assert_eq!([gone(Some(1), Some(10)), gone(Some(4), Some(1)), gone(None, None)], [2, 1, 0]);
        assert_eq!(Keep { count: None, days: Some(1) }.too_old(std::iter::empty(), now), 0);
    }
}
