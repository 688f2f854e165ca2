//! Shares of a server's time, from `perf` on its process: each sample belongs to the crate of the function it fell into.
//!
//! Without `perf`, or of a server that is not on this machine, there are no shares.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// Parts of the server's processor time, in percent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shares {
    pub planning: f64,
    /// Storage engine, transactions, collections and indexes.
    pub engine: f64,
    /// Operators, expressions and documents.
    pub execution: f64,
    /// Memory, the kernel, the wire protocol.
    pub other: f64,
}

const PLANNING: &[&str] = &["arbor_query::plan"];
const ENGINE: &[&str] =
    &["arbor_ftree", "arbor_engine", "arbor_txn", "arbor_store", "arbor_disk", "arbor_log", "mdb_", "rocksdb", "__wt_"];
const EXECUTION: &[&str] = &["arbor_query", "arbor_lang", "arbor_bson"];

pub(super) struct Profile {
    perf: Child,
    file: PathBuf,
}

impl Profile {
    /// None: `perf` is not to be had.
    pub(super) fn start(process: u32) -> Option<Profile> {
        let file = std::env::temp_dir().join(format!("arbor-lab-perf-{process}-{}", std::process::id()));
        let perf = Command::new("perf")
            .args(["record", "-q", "-F", "499", "-p", &process.to_string(), "-o"])
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        Some(Profile { perf, file })
    }

    pub(super) fn finish(mut self) -> Option<Shares> {
        let pid = Pid::from_raw(self.perf.id() as i32)?;
        // it writes its file and ends; if it ended before, there is nothing to read
        let _ = kill_process(pid, Signal::INT);
        let _ = self.perf.wait();
        let report = Command::new("perf")
            .args(["report", "--stdio", "-q", "--no-children", "-g", "none", "-F", "overhead,symbol", "-i"])
            .arg(&self.file)
            .stderr(Stdio::null())
            .output();
        let _ = std::fs::remove_file(&self.file);
        shares(&String::from_utf8_lossy(&report.ok()?.stdout))
    }
}

/// Lines `12.34%  [.] name`.
fn shares(report: &str) -> Option<Shares> {
    let mut shares = Shares::default();
    let mut all = 0.0;
    for line in report.lines() {
        let Some((percent, symbol)) = line.trim().split_once('%') else { continue };
        let Ok(percent) = percent.parse::<f64>() else { continue };
        let of = |prefixes: &[&str]| prefixes.iter().any(|prefix| symbol.contains(prefix));
        let part = match () {
            _ if of(PLANNING) => &mut shares.planning,
            _ if of(ENGINE) => &mut shares.engine,
            _ if of(EXECUTION) => &mut shares.execution,
            _ => &mut shares.other,
        };
        *part += percent;
        all += percent;
    }
    (all > 0.0).then_some(shares)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_shared_out_by_crate() {
        let report = "    40.00%  [.] <arbor_lang::path::Path>::visit\n    25.50%  [.] arbor_ftree::cursor::next\n    \
                      10.00%  [.] arbor_query::plan::choose::plan\n     4.50%  [k] copy_user\n\n";
        let shares = shares(report).unwrap();
        assert_eq!((shares.planning, shares.engine, shares.execution, shares.other), (10.0, 25.5, 40.0, 4.5));
        assert!(super::shares("").is_none());
    }
}
