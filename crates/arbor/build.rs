//! Names the commit that is built, for `arbor --version` and `buildInfo`: `ARBOR_COMMIT`, 40 hexadecimal digits with `-modified`
//! behind them where tracked files differ from it; `unknown` outside of a git checkout.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // Every commit and checkout is a line there.
    if let Some(path) =
        git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|path| std::path::Path::new(path).exists())
    {
        println!("cargo:rerun-if-changed={path}");
    }
    let commit = git(&["rev-parse", "HEAD"]).filter(|commit| commit.len() == 40);
    let modified = git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|changes| !changes.is_empty());
    let commit = match (commit, modified) {
        (Some(commit), true) => format!("{commit}-modified"),
        (Some(commit), false) => commit,
        (None, _) => "unknown".to_owned(),
    };
    println!("cargo:rustc-env=ARBOR_COMMIT={commit}");
    println!("cargo:rustc-env=ARBOR_PROFILE={}", profile());
}

/// Returns the directory that the profile builds into, which `PROFILE` does not name: that is `release` of each profile with
/// optimizations.
fn profile() -> String {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    // target/PROFILE/build/arbor-HASH/out
    let directory = out.ancestors().nth(3).and_then(Path::file_name).and_then(OsStr::to_str);
    directory.map_or_else(|| std::env::var("PROFILE").unwrap_or_default(), str::to_owned)
}

/// Returns what a git command prints, without the end of the line; none if git is not there or refuses.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
