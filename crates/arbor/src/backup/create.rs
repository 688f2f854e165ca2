//! `arbor backup create`.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use arbor_base::ThreadThrottle;
use arbor_txn::fetch::{BACKUP_IDLE, TreeFacts, decode_block};

use super::cluster::{self, Cluster};
use super::files::Files;
use super::manifest::{FORMAT, Manifest, TreeFile};
use super::rows_file::RowsWriter;
use super::source::{Source, State};
use super::target::{Backup, Condition, Target};
use super::{Error, Result, archive};
use crate::pace::{Pace, Speed};

/// Time between two lines of progress.
const REPORT: Duration = Duration::from_secs(5);
/// The share of all processors that a backup takes away from others here when no processor is idle; the server has a share of its own.
const FLOOR: f64 = 0.0075;
/// Attempts for a block that does not arrive as it was sent.
const TRIES: u32 = 3;

/// `incremental`: adds to the archive of the log if there is a backup.
pub(super) fn create(uri: &str, target: &Target, speed: Speed, incremental: bool) -> Result<()> {
    if let Some(cluster) = Cluster::of(uri)? {
        return cluster::create(uri, &cluster, target, speed, incremental);
    }
    cluster::refuse(target)?;
    let source = Source::choose(uri)?;
    if incremental && has_backup(target)? {
        return archive::once(&source, target, speed).map(|added| println!("{added}"));
    }
    full(&source, target, speed)
}

/// Writes a full backup of one set.
pub(super) fn full(source: &Source, target: &Target, speed: Speed) -> Result<()> {
    let begun = now();
    let state = source.begin()?;
    let written = write(source, &state, target, speed, begun);
    source.end(state.begun.snapshot);
    let (name, manifest) = written?;
    println!("{name} {manifest}");
    Ok(())
}

pub(super) fn has_backup(target: &Target) -> Result<bool> {
    if !target.is_there()? {
        return Ok(false);
    }
    let conditions: Result<Vec<Condition>> = target.backups()?.iter().map(Backup::read).collect();
    Ok(conditions?.iter().any(|condition| matches!(condition, Condition::Whole(_))))
}

pub(super) fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn write(source: &Source, state: &State, target: &Target, speed: Speed, begun: String) -> Result<(String, Manifest)> {
    let backup = target.begin(&state.deployment)?;
    let made = fill(source, state, &backup, speed, begun);
    match made {
        Ok(manifest) => Ok((backup.name, manifest)),
        Err(error) => {
            // Without a manifest it is no backup; it only takes space.
            let _incomplete = backup.remove();
            Err(error)
        }
    }
}

fn fill(source: &Source, state: &State, backup: &Backup, speed: Speed, begun: String) -> Result<Manifest> {
    let mut progress = Progress::new(speed, state.begun.trees.len());
    let mut files = Vec::new();
    for facts in &state.begun.trees {
        files.push(write_tree(source, state.begun.snapshot, facts, (&*backup.files, &backup.name), &mut progress)?);
        progress.trees += 1;
    }
    check_names(backup, &files)?;
    let manifest = Manifest {
        format: FORMAT,
        deployment: state.deployment.clone(),
        set: state.set.clone(),
        host: state.host.clone(),
        version: state.version.clone(),
        begun,
        ended: now(),
        position: state.begun.position.0,
        epoch: state.begun.epoch,
        time: state.begun.time,
        home: state.home.clone(),
        files,
        collections: state.collections.clone(),
    };
    manifest.write(&*backup.files, &backup.name)?;
    Ok(manifest)
}

/// Requires that every file is in the target still: one that was removed meanwhile would be missed at the restore only.
fn check_names(backup: &Backup, files: &[TreeFile]) -> Result<()> {
    let entries = backup.files.list(&backup.name)?.unwrap_or_default();
    let names: HashSet<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
    match files.iter().find(|file| !names.contains(file.name.as_str())) {
        Some(missing) => {
            let path = backup.files.path(&format!("{}/{}", backup.name, missing.name));
            Err(Error::Refused(format!("{} was removed while the backup was written", path.display())))
        }
        None => Ok(()),
    }
}

/// Writes the rows of a tree of a snapshot into a file of the directory.
pub(super) fn write_tree(
    source: &Source,
    snapshot: u64,
    facts: &TreeFacts,
    (files, directory): (&dyn Files, &str),
    progress: &mut Progress,
) -> Result<TreeFile> {
    let mut writer = RowsWriter::create(files, directory, &format!("tree-{}.rows", facts.tree.0))?;
    let mut last_key: Option<Vec<u8>> = None;
    let mut broken = 0;
    loop {
        let (block, rest) = source.block(snapshot, facts.tree, last_key.as_deref())?;
        let (rows, is_last) = match decode_block(&block) {
            Ok(decoded) => decoded,
            Err(reason) => {
                broken += 1;
                if broken == TRIES {
                    return Err(Error::Refused(format!("{}: tree {}: {reason}", source.address, facts.tree)));
                }
                continue;
            }
        };
        writer.push(&block, &rows)?;
        progress.add(block.len() as u64);
        progress.rest(rest);
        last_key = rows.into_iter().next_back().map(|(key, _)| key).or(last_key);
        if is_last {
            return writer.finish(facts.tree.0, facts.options.settings.clone());
        }
    }
}

/// The speed and the progress of a backup.
pub(super) struct Progress {
    pace: Pace,
    /// The throttle of this process, while it leaves the processors to others.
    throttle: Option<ThreadThrottle>,
    reported: Instant,
    trees: usize,
    trees_all: usize,
}

impl Progress {
    /// For the thread that copies. `trees_all`: 0 reports nothing.
    pub(super) fn new(speed: Speed, trees_all: usize) -> Progress {
        let throttle = matches!(speed, Speed::Idle).then(|| ThreadThrottle::new(FLOOR, BACKUP_IDLE));
        Progress { pace: Pace::new(speed.limit()), throttle, reported: Instant::now(), trees: 0, trees_all }
    }

    /// Takes note of bytes that were written; sleeps when they came faster than the limit.
    pub(super) fn add(&mut self, bytes: u64) {
        self.pace.add(bytes);
        if self.trees_all > 0 && self.reported.elapsed() >= REPORT {
            self.reported = Instant::now();
            let (megabytes, speed) = (self.pace.bytes >> 20, self.pace.speed() / f64::from(1 << 20));
            eprintln!("{} of {} trees, {megabytes} MB, {speed:.1} MB/s", self.trees, self.trees_all);
        }
    }

    /// Sleeps as long as this process or the server has used more of its processors than its share.
    fn rest(&mut self, servers: Duration) {
        if let Some(throttle) = &mut self.throttle {
            std::thread::sleep(throttle.rest().max(servers));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_removed_meanwhile_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let backup = Target::parse(dir.path().to_str().unwrap()).unwrap().begin("a deployment").unwrap();
        let files = ["tree-1.rows", "tree-2.rows"].map(|name| {
            backup.files.create(&format!("{}/{name}", backup.name)).unwrap().finish().unwrap();
            TreeFile {
                name: name.to_owned(),
                tree: 1,
                settings: Vec::new(),
                rows: 0,
                rows_checksum: String::new(),
                bytes: 0,
                checksum: String::new(),
            }
        });
        check_names(&backup, &files).unwrap();
        std::fs::remove_file(dir.path().join(&backup.name).join("tree-2.rows")).unwrap();
        let missing = check_names(&backup, &files).unwrap_err().to_string();
        assert!(missing.contains("tree-2.rows was removed"), "{missing}");
    }
}
