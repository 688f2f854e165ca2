//! A child process: started in a group of its own, its output in a file, ended by its own number.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use rustix::process::{Pid, Signal, kill_process};

use crate::{Error, Result};

/// A clean stop writes a checkpoint of everything; after this long the process is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(5);

/// A child that was not waited for yet; its number cannot be anybody else's until then.
#[derive(Clone, Copy, Debug)]
struct Running {
    pid: u32,
    use_of_files: UseOfFiles,
}

/// Fate of a server's files when it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UseOfFiles {
    /// They are removed: nothing is lost if the server is killed.
    Removed,
    /// They stay, and the server has to end cleanly.
    Kept,
}

static RUNNING: Mutex<Vec<Running>> = Mutex::new(Vec::new());
/// Servers were killed because the run was interrupted.
static ABANDONED: AtomicBool = AtomicBool::new(false);

fn running() -> MutexGuard<'static, Vec<Running>> {
    RUNNING.lock()
}

fn forget(pid: u32) {
    running().retain(|child| child.pid != pid);
}

/// Ends the children at once, because this process is about to end at once.
pub(crate) fn kill_all() {
    for child in running().iter() {
        signal(child.pid, Signal::KILL);
    }
}

/// Ends those children at once whose files are removed anyway: a client that waits for one of them, and the checkpoint of a clean
/// end, would only delay the end of an interrupted run.
pub(crate) fn abandon() {
    ABANDONED.store(true, Ordering::Relaxed);
    for child in running().iter().filter(|child| child.use_of_files == UseOfFiles::Removed) {
        signal(child.pid, Signal::KILL);
    }
}

/// Returns true if [`abandon`] was called: a server that has ended did not do so by itself.
pub(crate) fn is_abandoned() -> bool {
    ABANDONED.load(Ordering::Relaxed)
}

/// Signals a process that we have started, or that serves us on this machine.
pub(crate) fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // It may have ended by itself.
        let _ = kill_process(pid, signal);
    }
}

/// Returns the command behind the launcher that ends its process with the laboratory's, also after kill -9; None: there is no
/// launcher.
fn supervised(command: &Command) -> Option<Command> {
    let (program, arguments) = crate::launcher().split_first()?;
    Some(behind(program, arguments, command))
}

/// Returns the command as the last arguments of a program that becomes it.
pub(crate) fn behind<T: AsRef<OsStr>>(program: impl AsRef<OsStr>, arguments: &[T], command: &Command) -> Command {
    let mut launched = Command::new(program);
    launched.args(arguments).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => launched.env(name, value),
            None => launched.env_remove(name),
        };
    }
    launched
}

/// A child process that is ended when dropped: SIGTERM to its number, then a wait.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts the process. Output is appended to `log`, also by a server that is started again.
    pub(crate) fn start(name: &str, command: &mut Command, log: &Path, use_of_files: UseOfFiles) -> Result<Process> {
        let output = File::options().create(true).append(true).open(log).map_err(Error::file(log))?;
        let errors = output.try_clone().map_err(Error::file(log))?;
        let mut supervised = supervised(command);
        let command = supervised.as_mut().unwrap_or(command);
        // A group of its own: Ctrl-C at the terminal is for the laboratory, which ends its servers itself.
        command.stdin(Stdio::null()).stdout(output).stderr(errors).process_group(0);
        let child = command.spawn().map_err(Error::file(command.get_program()))?;
        running().push(Running { pid: child.id(), use_of_files });
        Ok(Process { name: name.to_owned(), child, log: log.to_owned() })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until `ready` returns true. Errors: the process ends, or the timeout passes.
    pub(crate) fn wait_until(&mut self, timeout: Duration, ready: impl Fn() -> bool) -> Result<()> {
        let started = Instant::now();
        loop {
            if ready() {
                return Ok(());
            }
            if let Some(status) = self.ended()? {
                return Err(self.not_started(format!("it ended with {status}")));
            }
            if started.elapsed() > timeout {
                return Err(self.not_started(format!("it does not answer after {} s", timeout.as_secs())));
            }
            std::thread::sleep(POLL);
        }
    }

    /// Returns how it ended, if it has.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        let status = self.child.try_wait()?;
        if status.is_some() {
            forget(self.child.id());
        }
        Ok(status)
    }

    fn not_started(&self, reason: String) -> Error {
        let reason = format!("{reason}{}", self.last_lines());
        Error::Start { name: self.name.clone(), reason, log: self.log.clone() }
    }

    /// Returns the last lines of its output, as the end of an error message.
    pub(crate) fn last_lines(&self) -> String {
        let lines = last_lines(&tail(&self.log).unwrap_or_default());
        if lines.is_empty() { String::new() } else { format!("; its last lines: {}", lines.join(" | ")) }
    }

    /// kill -9, and a wait for the end.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        forget(self.child.id());
        Ok(())
    }

    fn stop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            signal(self.child.id(), Signal::TERM);
        }
        let asked = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if asked.elapsed() > STOP_TIMEOUT {
                let _ = self.child.kill();
                let _ = self.child.wait();
                break;
            }
            std::thread::sleep(POLL);
        }
        forget(self.child.id());
    }
}

/// Limits of error messages: bytes read from the log's end, lines shown, characters of a line.
const TAIL_BYTES: u64 = 1 << 16;
const LAST_LINES: usize = 5;
const LINE_CHARS: usize = 200;

fn tail(log: &Path) -> std::io::Result<String> {
    let mut file = File::open(log)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the last lines in their order, without empty ones.
fn last_lines(log: &str) -> Vec<String> {
    let mut lines: Vec<String> = log.lines().rev().filter_map(words).take(LAST_LINES).collect();
    lines.reverse();
    lines
}

/// Returns the text of a log line: one of MongoDB's form by its message and error. Messages about connections are left out;
/// they do not explain an exit.
fn words(line: &str) -> Option<String> {
    let entry: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
    if entry["c"] == "NETWORK" && entry["s"] == "I" {
        return None;
    }
    let text = match (entry["msg"].as_str(), entry["attr"]["error"].as_str()) {
        (Some(message), Some(error)) => format!("{message}: {error}"),
        (Some(message), None) => message.to_owned(),
        (None, _) => line.trim().to_owned(),
    };
    (!text.is_empty()).then(|| text.chars().take(LINE_CHARS).collect())
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, directory: &Path) -> Process {
        Process::start("sh", Command::new("sh").args(["-c", script]), &directory.join("log"), UseOfFiles::Kept).unwrap()
    }

    #[test]
    fn an_early_exit_is_reported_with_its_last_lines() {
        let directory = tempfile::tempdir().unwrap();
        let mut process = shell("echo first; echo no such engine; echo; exit 3", directory.path());
        let error = process.wait_until(Duration::from_secs(20), || false).unwrap_err().to_string();
        assert!(error.contains("exit status: 3; its last lines: first | no such engine"), "{error}");
    }

    #[test]
    fn a_line_is_its_message() {
        for (line, expect) in [
            ("", None),
            ("thread 'main' panicked", Some("thread 'main' panicked")),
            (r#"{"s":"I","msg":"Slow query"}"#, Some("Slow query")),
            (r#"{"s":"I","c":"NETWORK","msg":"Connection accepted"}"#, None),
            (r#"{"s":"F","msg":"cannot open","attr":{"error":"no space"}}"#, Some("cannot open: no space")),
            (r#"{"s":"E","msg":"stopped"}"#, Some("stopped")),
        ] {
            assert_eq!(words(line).as_deref(), expect, "{line}");
        }
        assert_eq!(last_lines("1\n2\n\n3\n4\n5\n6\n"), ["2", "3", "4", "5", "6"]);
        assert_eq!(words(&"x".repeat(1000)).map(|line| line.len()), Some(LINE_CHARS));
    }

    #[test]
    fn a_wait_ends_in_time() {
        let directory = tempfile::tempdir().unwrap();
        let mut process = shell("exec sleep 60", directory.path());
        let error = process.wait_until(Duration::from_millis(30), || false).unwrap_err().to_string();
        assert!(error.contains("does not answer"), "{error}");
        assert!(process.ended().unwrap().is_none());
        process.kill().unwrap();
        assert!(process.ended().unwrap().is_some());
    }
}
