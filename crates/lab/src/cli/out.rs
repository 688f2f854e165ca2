//! The directory of a run's results.

use std::path::{Path, PathBuf};

use clap::ArgMatches;

use super::text;
use crate::{Error, Result};

/// Returns the directory that `--out` names, or a new one of its own below `lab-results`.
pub(crate) fn out(matches: &ArgMatches, name: &str) -> Result<PathBuf> {
    match text(matches, "out") {
        Some(directory) => Ok(PathBuf::from(directory)),
        None => {
            let time = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ");
            fresh(Path::new("lab-results"), &format!("{name}-{time}"))
        }
    }
}

/// Makes a directory that was not there: another run may begin in the same second, in another process, too.
fn fresh(parent: &Path, name: &str) -> Result<PathBuf> {
    std::fs::create_dir_all(parent).map_err(Error::file(parent))?;
    let mut directory = parent.join(name);
    let mut number = 1;
    loop {
        match std::fs::create_dir(&directory) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                number += 1;
                directory = parent.join(format!("{name}-{number}"));
            }
            made => return made.map(|()| directory.clone()).map_err(Error::file(&directory)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_one_second_have_directories_of_their_own() {
        let parent = tempfile::tempdir().unwrap();
        let names: Vec<String> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..4).map(|_| scope.spawn(|| fresh(&parent.path().join("r"), "a-1").unwrap())).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap().file_name().unwrap().to_str().unwrap().to_owned())
                .collect()
        });
        let mut sorted = names;
        sorted.sort_unstable();
        assert_eq!(sorted, ["a-1", "a-1-2", "a-1-3", "a-1-4"]);
    }
}
