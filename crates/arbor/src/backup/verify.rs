//! `arbor backup verify`.

use std::path::Path;

use super::manifest::Manifest;
use super::rows_file::RowsReader;
use super::target::{Backup, Condition, Target};
use super::{Error, Result, io, restore};

/// Checks one backup, or all; with `scratch` restores them there as well. Prints a line per problem. Errors: there are problems.
pub(super) fn run(from: &Target, name: Option<&str>, scratch: Option<&Path>) -> Result<()> {
    let backups: Vec<Backup> =
        from.backups()?.into_iter().filter(|backup| name.is_none_or(|name| name == backup.name)).collect();
    if backups.is_empty() {
        let name = name.map_or(String::new(), |name| format!(" {name}"));
        return Err(Error::Refused(format!("{} has no backup{name}", from.path.display())));
    }
    let mut bad = 0;
    for backup in &backups {
        let problems = match backup.read() {
            Condition::Unfinished => vec!["it is incomplete: it has no manifest.json".to_owned()],
            Condition::Damaged(error) => vec![error.to_string()],
            Condition::Whole(manifest) => problems(backup, &manifest, scratch)?,
        };
        problems.iter().for_each(|problem| println!("{} PROBLEM {problem}", backup.name));
        if problems.is_empty() {
            println!("{} ok", backup.name);
        }
        bad += usize::from(!problems.is_empty());
    }
    match bad {
        0 => Ok(()),
        bad => Err(Error::Refused(format!("{bad} of {} backups have problems", backups.len()))),
    }
}

fn problems(backup: &Backup, manifest: &Manifest, scratch: Option<&Path>) -> Result<Vec<String>> {
    let check = |file| RowsReader::open(&backup.path, file).and_then(RowsReader::check);
    let mut problems: Vec<String> =
        manifest.files.iter().filter_map(|file| check(file).err()).map(|error| error.to_string()).collect();
    if let (Some(scratch), true) = (scratch, problems.is_empty()) {
        let directory = scratch.join(format!("arbor-verify-{}-{}", backup.name, std::process::id()));
        problems.extend(restore::trial(backup, manifest, &directory).err().map(|error| error.to_string()));
        std::fs::remove_dir_all(&directory).map_err(io("remove", &directory))?;
    }
    Ok(problems)
}
