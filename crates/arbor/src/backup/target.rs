//! The backups of one deployment. Each is a directory named by the time (UTC) at which it began, so names sort by age.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use super::cipher::{Cipher, Encrypted};
use super::files::{Directory, Files};
use super::manifest::{MANIFEST, Manifest};
use super::s3::Store;
use super::{Error, Result, io};

#[derive(Clone)]
pub(super) struct Target {
    pub files: Arc<dyn Files>,
}

/// A backup by its name, whatever state it is in.
pub(super) struct Backup {
    pub name: String,
    pub files: Arc<dyn Files>,
}

impl fmt::Debug for Backup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path().fmt(f)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.files.path("").display().fmt(f)
    }
}

/// State of a backup, as far as its manifest shows it.
pub(super) enum Condition {
    Whole(Box<Manifest>),
    /// It was interrupted, or is being written.
    Unfinished,
    Damaged(Error),
}

impl Target {
    /// A directory, or `s3://BUCKET/PREFIX`.
    pub(super) fn parse(text: &str) -> Result<Target> {
        match Store::of(text) {
            Some(store) => Ok(Target { files: Arc::new(store?) }),
            None => Ok(Target::directory(text)),
        }
    }

    /// Encrypts all files on their way into the target.
    pub(super) fn encrypted(self, cipher: Option<Cipher>) -> Target {
        match cipher {
            None => self,
            Some(cipher) => Target { files: Arc::new(Encrypted::new(self.files, cipher)) },
        }
    }

    pub(super) fn directory(path: impl Into<PathBuf>) -> Target {
        Target { files: Arc::new(Directory::new(path)) }
    }

    /// A directory in it, as a target of its own.
    pub(super) fn child(&self, name: &str) -> Target {
        Target { files: self.files.child(name) }
    }

    pub(super) fn is_there(&self) -> Result<bool> {
        Ok(self.files.list("")?.is_some())
    }

    fn backup(&self, name: String) -> Backup {
        Backup { name, files: Arc::clone(&self.files) }
    }

    /// All backups, the oldest first. Other files are passed over.
    pub(super) fn backups(&self) -> Result<Vec<Backup>> {
        let entries = self.files.list("")?.ok_or_else(|| {
            let missing = std::io::Error::new(std::io::ErrorKind::NotFound, "it does not exist");
            io("read", self.files.path(""))(missing)
        })?;
        let named = entries.into_iter().filter(|entry| entry.is_directory && is_name(&entry.name));
        let mut found: Vec<Backup> = named.map(|entry| self.backup(entry.name)).collect();
        found.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(found)
    }

    /// The backup of that name, else the newest one that is whole.
    pub(super) fn find(&self, name: Option<&str>) -> Result<(Backup, Manifest)> {
        let mut backups = self.backups()?;
        if let Some(name) = name {
            let own = backups.into_iter().find(|backup| backup.name == name);
            let own = own.ok_or_else(|| Error::Refused(format!("{self} has no backup {name}")))?;
            return match own.read()? {
                Condition::Whole(manifest) => Ok((own, *manifest)),
                Condition::Unfinished => {
                    Err(Error::Refused(format!("{} is incomplete: it has no {MANIFEST}", own.path().display())))
                }
                Condition::Damaged(error) => Err(error),
            };
        }
        let mut reason = None;
        while let Some(backup) = backups.pop() {
            match backup.read()? {
                Condition::Whole(manifest) => return Ok((backup, *manifest)),
                Condition::Unfinished => {}
                // An older one would be something else than was asked for.
                Condition::Damaged(error) => return Err(error),
            }
            reason.get_or_insert_with(|| format!("; {} is incomplete: it has no {MANIFEST}", backup.name));
        }
        Err(Error::Refused(format!("{self} has no backup{}", reason.unwrap_or_default())))
    }

    /// Makes the directory of a new backup. Errors: the target cannot be written, or holds backups of something else.
    pub(super) fn begin(&self, deployment: &str) -> Result<Backup> {
        self.files.make()?;
        for backup in self.backups()? {
            match backup.read()? {
                Condition::Whole(manifest) if manifest.deployment != deployment => {
                    return Err(Error::Refused(format!(
                        "{self} has backups of another deployment ({}, id {}); this one has the id {deployment}. Take another directory",
                        manifest.host, manifest.deployment
                    )));
                }
                // All of a target has one key.
                Condition::Whole(_) | Condition::Unfinished | Condition::Damaged(_) => {}
            }
        }
        let time = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string();
        for number in 0..1000 {
            let name = if number == 0 { time.clone() } else { format!("{time}-{number:03}") };
            if self.files.create_directory(&name)? {
                return Ok(self.backup(name));
            }
        }
        Err(Error::Refused(format!("{self} has a thousand backups of this second")))
    }
}

impl Backup {
    pub(super) fn path(&self) -> PathBuf {
        self.files.path(&self.name)
    }

    /// Errors: it has another key than the target.
    pub(super) fn read(&self) -> Result<Condition> {
        match Manifest::read(&*self.files, &self.name) {
            Ok(Some(manifest)) => Ok(Condition::Whole(Box::new(manifest))),
            Ok(None) => Ok(Condition::Unfinished),
            Err(error @ Error::Key(_)) => Err(error),
            Err(error) => Ok(Condition::Damaged(error)),
        }
    }

    /// Removes the manifest first: what is left after a crash is no backup (B1).
    pub(super) fn remove(&self) -> Result<()> {
        self.files.remove(&format!("{}/{MANIFEST}", self.name))?;
        self.files.remove_directory(&self.name)
    }
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
        let target = Target::directory(dir.path());
        std::fs::create_dir(dir.path().join("lost+found")).unwrap();
        assert!(target.backups().unwrap().is_empty());
        let first = target.begin("d").unwrap();
        let second = target.begin("d").unwrap();
        let names: Vec<String> = target.backups().unwrap().into_iter().map(|backup| backup.name).collect();
        assert_eq!(names, [first.name.clone(), second.name.clone()]);
        assert!(matches!(first.read().unwrap(), Condition::Unfinished));
        let refused = target.find(None).unwrap_err().to_string();
        assert!(refused.contains(&format!("{} is incomplete", second.name)), "{refused}");
        first.remove().unwrap();
        assert_eq!(target.backups().unwrap().len(), 1);
    }
}
