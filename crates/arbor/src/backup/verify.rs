//! `arbor backup verify`.

use std::path::Path;

use super::log_files::{LoadFiles, LogFiles, LogReader};
use super::manifest::Manifest;
use super::point::{self, Asked};
use super::rows_file::RowsReader;
use super::target::{Backup, Condition, Target};
use super::{Error, Result, io, restore};

/// Checks one backup, or all; with `scratch` restores them there as well. Prints a line per problem. Errors: there are problems.
pub(super) fn run(from: &Target, name: Option<&str>, scratch: Option<&Path>) -> Result<()> {
    let backups: Vec<Backup> =
        from.backups()?.into_iter().filter(|backup| name.is_none_or(|name| name == backup.name)).collect();
    if backups.is_empty() {
        let name = name.map_or(String::new(), |name| format!(" {name}"));
        return Err(Error::Refused(format!("{from} has no backup{name}")));
    }
    let mut bad = 0;
    for backup in &backups {
        let problems = match backup.read()? {
            Condition::Unfinished => vec!["it is incomplete: it has no manifest.json".to_owned()],
            Condition::Damaged(error) => vec![error.to_string()],
            Condition::Whole(manifest) => problems(from, backup, &manifest, scratch)?,
        };
        problems.iter().for_each(|problem| println!("{} PROBLEM {problem}", backup.name));
        if problems.is_empty() {
            println!("{} ok", backup.name);
        }
        bad += usize::from(!problems.is_empty());
    }
    if name.is_none() && !LogFiles::of(from).files()?.is_empty() {
        let problems = log_problems(from, scratch)?;
        problems.iter().for_each(|problem| println!("log PROBLEM {problem}"));
        match problems.is_empty() {
            true => println!("log ok"),
            false => {
                return Err(Error::Refused(format!("the log and {bad} of {} backups have problems", backups.len())));
            }
        }
    }
    match bad {
        0 => Ok(()),
        bad => Err(Error::Refused(format!("{bad} of {} backups have problems", backups.len()))),
    }
}

fn problems(from: &Target, backup: &Backup, manifest: &Manifest, scratch: Option<&Path>) -> Result<Vec<String>> {
    let check = |file| RowsReader::open(&*backup.files, &backup.name, file).and_then(RowsReader::check);
    let mut problems: Vec<String> =
        manifest.files.iter().filter_map(|file| check(file).err()).map(|error| error.to_string()).collect();
    if let (Some(scratch), true) = (scratch, problems.is_empty()) {
        problems.extend(trial(from, &Asked::Backup(backup.name.clone()), scratch)?);
    }
    Ok(problems)
}

/// Restores a state. Returns the problem.
pub(super) fn trial(from: &Target, asked: &Asked, scratch: &Path) -> Result<Option<String>> {
    let point = match point::find(from, asked) {
        Ok(point) => point,
        Err(error) => return Ok(Some(error.to_string())),
    };
    let directory = scratch.join(format!("arbor-verify-{}-{}", point.backup.name, std::process::id()));
    let problem = restore::trial(from, &point, &directory).err().map(|error| error.to_string());
    if directory.exists() {
        std::fs::remove_dir_all(&directory).map_err(io("remove", &directory))?;
    }
    Ok(problem)
}

/// Reads all of the archived log, and the trees that it refers to.
fn log_problems(from: &Target, scratch: Option<&Path>) -> Result<Vec<String>> {
    let (log, mut problems) = (LogFiles::of(from), Vec::new());
    let mut next = None;
    for file in log.files()? {
        let mut read = || -> Result<()> {
            let mut reader = LogReader::open(&log, &file)?;
            while let Some(block) = reader.next_block()? {
                let first = block.head.first.0;
                if let Some(next) = next.filter(|next| *next < first) {
                    problems.push(format!("log: positions {next} to {} are missing", first - 1));
                }
                next = Some(block.head.last().0 + 1);
            }
            Ok(())
        };
        if let Err(error) = read() {
            problems.push(error.to_string());
        }
    }
    for record in log.loads()? {
        let check = |load: LoadFiles| {
            let check = |file| {
                RowsReader::open(&*log.files, &LogFiles::load_directory(record), file).and_then(RowsReader::check)
            };
            load.files.iter().try_for_each(check)
        };
        problems
            .extend(log.load(record).and_then(|load| load.map_or(Ok(()), check)).err().map(|error| error.to_string()));
    }
    if let (Some(scratch), true) = (scratch, problems.is_empty() && next.is_some()) {
        problems.extend(trial(from, &Asked::Newest, scratch)?);
    }
    Ok(problems)
}
