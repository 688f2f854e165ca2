//! A directory of backups of one deployment. Each is a directory named by the time (UTC) at which it began, so names sort by age.

use std::path::{Path, PathBuf};

use super::manifest::{MANIFEST, Manifest};
use super::{Error, Result, io};

pub(super) struct Target {
    pub path: PathBuf,
}

/// A backup by its name, whatever state it is in.
#[derive(Debug)]
pub(super) struct Backup {
    pub name: String,
    pub path: PathBuf,
}

/// State of a backup, as far as its manifest shows it.
pub(super) enum Condition {
    Whole(Box<Manifest>),
    /// It was interrupted, or is being written.
    Unfinished,
    Damaged(Error),
}

impl Target {
    pub(super) fn new(path: impl Into<PathBuf>) -> Target {
        Target { path: path.into() }
    }

    /// All backups, the oldest first. Other files are passed over.
    pub(super) fn backups(&self) -> Result<Vec<Backup>> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&self.path).map_err(io("read", &self.path))? {
            let entry = entry.map_err(io("read", &self.path))?;
            let (name, path) = (entry.file_name().to_string_lossy().into_owned(), entry.path());
            if is_name(&name) && path.is_dir() {
                found.push(Backup { name, path });
            }
        }
        found.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(found)
    }

    /// The backup of that name, else the newest one that is whole.
    pub(super) fn find(&self, name: Option<&str>) -> Result<(Backup, Manifest)> {
        let mut backups = self.backups()?;
        if let Some(name) = name {
            let own = backups.into_iter().find(|backup| backup.name == name);
            let own = own.ok_or_else(|| Error::Refused(format!("{} has no backup {name}", self.path.display())))?;
            let manifest = Manifest::read(&own.path)?;
            return Ok((own, manifest));
        }
        let mut reason = None;
        while let Some(backup) = backups.pop() {
            match backup.read() {
                Condition::Whole(manifest) => return Ok((backup, *manifest)),
                Condition::Unfinished => {}
                // An older one would be something else than was asked for.
                Condition::Damaged(error) => return Err(error),
            }
            reason.get_or_insert_with(|| format!("; {} is incomplete: it has no {MANIFEST}", backup.name));
        }
        Err(Error::Refused(format!("{} has no backup{}", self.path.display(), reason.unwrap_or_default())))
    }

    /// Makes the directory of a new backup. Errors: the target cannot be written, or holds backups of something else.
    pub(super) fn begin(&self, deployment: &str) -> Result<Backup> {
        if !self.path.is_dir() {
            std::fs::create_dir(&self.path).map_err(io("create", &self.path))?;
        }
        for backup in self.backups()? {
            if let Condition::Whole(manifest) = backup.read()
                && manifest.deployment != deployment
            {
                return Err(Error::Refused(format!(
                    "{} has backups of another deployment ({}, id {}); this one has the id {deployment}. Take another directory",
                    self.path.display(),
                    manifest.host,
                    manifest.deployment
                )));
            }
        }
        let time = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string();
        for number in 0..1000 {
            let name = if number == 0 { time.clone() } else { format!("{time}-{number:03}") };
            let path = self.path.join(&name);
            match std::fs::create_dir(&path) {
                Ok(()) => return Ok(Backup { name, path }),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(io("create", path)(error)),
            }
        }
        Err(Error::Refused(format!("{} has a thousand backups of this second", self.path.display())))
    }
}

impl Backup {
    pub(super) fn read(&self) -> Condition {
        if !self.path.join(MANIFEST).exists() {
            return Condition::Unfinished;
        }
        match Manifest::read(&self.path) {
            Ok(manifest) => Condition::Whole(Box::new(manifest)),
            Err(error) => Condition::Damaged(error),
        }
    }

    /// Removes the manifest first: what is left after a crash is no backup (B1).
    pub(super) fn remove(&self) -> Result<()> {
        let manifest = self.path.join(MANIFEST);
        if manifest.exists() {
            std::fs::remove_file(&manifest).map_err(io("remove", manifest))?;
            sync_directory(&self.path)?;
        }
        std::fs::remove_dir_all(&self.path).map_err(io("remove", &self.path))
    }
}

pub(super) fn sync_directory(path: &Path) -> Result<()> {
    std::fs::File::open(path).and_then(|directory| directory.sync_all()).map_err(io("sync", path))
}

/// `20261124T000556Z`, or with `-001` behind it.
fn is_name(name: &str) -> bool {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let parts = (name.get(..8), name.get(8..9), name.get(9..15), name.get(15..16), name.get(16..));
    let (Some(day), Some("T"), Some(time), Some("Z"), Some(rest)) = parts else { return false };
    digits(day) && digits(time) && (rest.is_empty() || rest.strip_prefix('-').is_some_and(digits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for name in ["20261124T000556Z", "20261124T000556Z-001"] {
            assert!(is_name(name), "{name}");
        }
        for name in
            ["", "lost+found", "20261124T000556", "20261124T000556Zx", "2026112aT000556Z", "20261124T00055\u{e9}Z"]
        {
            assert!(!is_name(name), "{name}");
        }
    }

    #[test]
    fn a_directory_without_a_manifest_is_no_backup_and_others_are_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let target = Target::new(dir.path());
        std::fs::create_dir(dir.path().join("lost+found")).unwrap();
        assert!(target.backups().unwrap().is_empty());
        let first = target.begin("d").unwrap();
        let second = target.begin("d").unwrap();
        let names: Vec<String> = target.backups().unwrap().into_iter().map(|backup| backup.name).collect();
        assert_eq!(names, [first.name.clone(), second.name.clone()]);
        assert!(matches!(first.read(), Condition::Unfinished));
        let refused = target.find(None).unwrap_err().to_string();
        assert!(refused.contains(&format!("{} is incomplete", second.name)), "{refused}");
        first.remove().unwrap();
        assert_eq!(target.backups().unwrap().len(), 1);
    }
}
