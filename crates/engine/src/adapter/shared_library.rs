//! Finds the shared library of an engine: libraries of the system are loaded when their engine is opened, so that one binary has
//! all engines and starts on machines without them.

use std::env;
use std::path::{Path, PathBuf};

use crate::Error;

/// Directories in which distributions install libraries, the administrator's own first.
const DIRECTORIES: &[&str] =
    &["/usr/local/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"];

/// A library that an engine needs.
#[derive(Clone, Copy, Debug)]
pub struct SharedLibrary {
    /// The engine's name.
    pub engine: &'static str,
    /// The file's name without `lib` and `.so`.
    pub stem: &'static str,
    /// The environment variable that names another file.
    pub variable: &'static str,
    /// Debian's package of it.
    pub package: &'static str,
}

impl SharedLibrary {
    /// Returns the file that the environment variable names, else the newest version in the directories of the system. Errors: there
    /// is none; the text names the package.
    pub fn find(&self) -> Result<PathBuf, String> {
        if let Some(given) = env::var_os(self.variable).filter(|given| !given.is_empty()) {
            return Ok(given.into());
        }
        DIRECTORIES.iter().find_map(|directory| self.newest_in(Path::new(directory))).ok_or_else(|| {
            format!(
                "the library lib{}.so is not on this machine: install the package {} or name the file in {}",
                self.stem, self.package, self.variable
            )
        })
    }

    fn newest_in(&self, directory: &Path) -> Option<PathBuf> {
        let prefix = format!("lib{}.so", self.stem);
        let names = std::fs::read_dir(directory).ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let versions = names.filter_map(|name| Some((version(name.strip_prefix(&prefix)?)?, name)));
        Some(directory.join(versions.max()?.1))
    }

    /// Returns the version in the name of the file that [`SharedLibrary::find`] leads to; `None`: the name has none.
    pub fn version(&self) -> Option<String> {
        let file = self.find().ok()?.canonicalize().ok()?;
        let name = file.file_name()?.to_str()?;
        let suffix = name.strip_prefix(&format!("lib{}.so", self.stem))?;
        let numbers = version(suffix).filter(|numbers| !numbers.is_empty())?;
        Some(numbers.iter().map(u32::to_string).collect::<Vec<_>>().join("."))
    }

    /// Returns the error of using this engine where the library cannot be loaded.
    pub fn unavailable(&self, reason: &str) -> Error {
        Error::Unavailable { engine: self.engine.to_owned(), reason: reason.to_owned(), tree: None }
    }
}

/// Returns the numbers of a suffix like `.7.8.3`, none for an empty one; `None`: it is no version.
fn version(suffix: &str) -> Option<Vec<u32>> {
    let mut parts = suffix.split('.');
    (parts.next() == Some("")).then_some(())?;
    parts.map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAPER: SharedLibrary =
        SharedLibrary { engine: "paper", stem: "paper", variable: "ARBOR_TEST_PAPER_LIBRARY", package: "libpaper1" };

    #[test]
    fn the_newest_version_is_found() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(PAPER.newest_in(directory.path()), None);
        for name in [
            "libpaper.so",
            "libpaper.so.9.2",
            "libpaper.so.10.1",
            "libpaper.so.text",
            "libpapers.so.11",
            "libpaper_x.so",
        ] {
            std::fs::write(directory.path().join(name), "").unwrap();
        }
        assert_eq!(PAPER.newest_in(directory.path()), Some(directory.path().join("libpaper.so.10.1")));
    }

    #[test]
    fn a_missing_library_is_named_with_its_package() {
        let error = PAPER.find().unwrap_err();
        assert!(
            error.contains("libpaper.so") && error.contains("libpaper1") && error.contains(PAPER.variable),
            "{error}"
        );
        let error = PAPER.unavailable(&error).to_string();
        assert!(error.contains("engine paper is not available: the library"), "{error}");
    }

    #[test]
    fn a_version_has_numbers_alone() {
        assert_eq!(version(""), Some(vec![]));
        assert_eq!(version(".7.8.3"), Some(vec![7, 8, 3]));
        for suffix in ["7", ".", ".7.", ".a", "_snappy"] {
            assert_eq!(version(suffix), None, "{suffix}");
        }
    }
}
