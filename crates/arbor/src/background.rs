//! `--fork`: the server in the background.
//!
//! A process with threads cannot fork safely, so the parent starts the same program again, in a session of its own, and
//! waits until that says over a pipe that it listens.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use crate::config::Settings;
use crate::failure::{BAD_OPTIONS, Failure};

/// Set for the process in the background.
const CHILD: &str = "ARBOR_IN_BACKGROUND";

const READY: &str = "ready";

pub(crate) fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Starts the server in the background and answers once it listens.
pub(crate) fn start(settings: &Settings) -> Result<(), Failure> {
    if settings.logpath.is_none() {
        return Err(Failure::new(BAD_OPTIONS, "--fork has to be used with --logpath"));
    }
    println!("about to fork child process, waiting until server is ready for connections.");
    let program = std::env::current_exe().map_err(Failure::cannot_start)?;
    let mut child = Command::new(program)
        .args(std::env::args_os().skip(1))
        .env(CHILD, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(Failure::cannot_start)?;
    println!("forked process: {}", child.id());
    let lines = child.stdout.take().map(|pipe| BufReader::new(pipe).lines());
    if lines.into_iter().flatten().any(|line| line.is_ok_and(|line| line == READY)) {
        println!("child process started successfully, parent exiting");
        return Ok(());
    }
    let code = child.wait().ok().and_then(|status| status.code()).unwrap_or(1);
    let code = u8::try_from(code).unwrap_or(1);
    Err(Failure::new(code, format!("child process failed, exited with {code}; see the log file")))
}

/// Notifies the parent, if there is one, that the server listens; then leaves its session and its terminal.
pub(crate) fn ready() {
    if is_child() {
        let _ = rustix::process::setsid();
        let mut out = std::io::stdout();
        let _ = writeln!(out, "{READY}").and_then(|()| out.flush());
        if let Ok(nowhere) = std::fs::File::options().read(true).write(true).open("/dev/null") {
            let _ = rustix::stdio::dup2_stdout(&nowhere);
            let _ = rustix::stdio::dup2_stderr(&nowhere);
        }
    }
}
