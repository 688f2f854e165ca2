//! `arbor.engines`: the names of the engines that are members, one per line, the home first.
//!
//! A directory of an engine that is not listed was never a member: its making was cut short before anything was written to
//! it. A listed engine whose directory is gone is unavailable, never recreated. Without the file the home is the only member.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use arbor_engine::{Error, Result};

const FILE: &str = "arbor.engines";

pub(crate) struct Roster {
    directory: PathBuf,
}

fn failed(what: &str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let context = format!("{what} {}", path.display());
    move |source| Error::Io { context, source }
}

impl Roster {
    pub(crate) fn new(directory: &Path) -> Roster {
        Roster { directory: directory.to_owned() }
    }

    pub(crate) fn read(&self) -> Result<Vec<String>> {
        let path = self.directory.join(FILE);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(text.lines().map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(failed("reading", &path)(error)),
        }
    }

    /// Writes a new file, makes it durable, then renames it over the old one.
    pub(crate) fn write(&self, names: &[String]) -> Result<()> {
        let (path, new) = (self.directory.join(FILE), self.directory.join("arbor.engines.new"));
        let written = || -> std::io::Result<()> {
            let mut file = File::create(&new)?;
            names.iter().try_for_each(|name| writeln!(file, "{name}"))?;
            file.sync_all()?;
            fs::rename(&new, &path)?;
            File::open(&self.directory)?.sync_all()
        };
        written().map_err(failed("writing", &path))
    }
}
