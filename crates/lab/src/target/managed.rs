//! Arbor servers that the laboratory starts and ends: a child process of the same binary, on 127.0.0.1, on a free port,
//! in a folder of its own.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::mongodb::MongoDb;
use super::ports::free_port;
use crate::{Error, Result};

const START_TIMEOUT: Duration = Duration::from_secs(60);
/// A clean stop writes a checkpoint of everything; after this long the process is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(120);

/// How managed servers are started.
#[derive(Clone, Debug)]
pub struct Setup {
    pub binary: PathBuf,
    /// Each server gets a new folder in here.
    pub root: PathBuf,
    /// Passed on behind our own arguments.
    pub arguments: Vec<String>,
    /// Leave the folder when the server has stopped.
    pub keep: bool,
}

/// Children that were not waited for yet; their numbers cannot be anybody else's until then.
static RUNNING: Mutex<Vec<u32>> = Mutex::new(Vec::new());

fn running() -> MutexGuard<'static, Vec<u32>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends the children at once, because this process is about to end at once.
pub(crate) fn kill_all() {
    for pid in running().iter() {
        signal(*pid, Signal::KILL);
    }
}

fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // It may have ended by itself.
        let _ = kill_process(pid, signal);
    }
}

/// A child process that is ended when dropped: SIGTERM to its number, then a wait.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    pub(crate) fn start(name: &str, command: &mut Command, log: &Path) -> Result<Process> {
        let output = File::create(log).map_err(Error::file(log))?;
        let errors = output.try_clone().map_err(Error::file(log))?;
        // A group of its own: Ctrl-C at the terminal is for the laboratory, which ends its servers itself.
        command.stdin(Stdio::null()).stdout(output).stderr(errors).process_group(0);
        let child = command.spawn().map_err(Error::file(command.get_program()))?;
        running().push(child.id());
        Ok(Process { name: name.to_owned(), child, log: log.to_owned() })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until something accepts connections at `address`.
    pub(crate) fn wait_until_ready(&mut self, address: &str) -> Result<()> {
        let started = Instant::now();
        loop {
            if std::net::TcpStream::connect(address).is_ok() {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                running().retain(|pid| *pid != self.child.id());
                return Err(self.not_started(format!("it ended with {status}")));
            }
            if started.elapsed() > START_TIMEOUT {
                return Err(self.not_started(format!("nothing listens after {} s", START_TIMEOUT.as_secs())));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn not_started(&self, reason: String) -> Error {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let reason = match log.lines().rev().find(|line| !line.is_empty()) {
            Some(last) => format!("{reason}, saying {last:?}"),
            None => reason,
        };
        Error::Start { name: self.name.clone(), reason, log: self.log.clone() }
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
            std::thread::sleep(Duration::from_millis(20));
        }
        running().retain(|pid| *pid != self.child.id());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop();
    }
}

/// One managed server; dropping it stops the process and removes its folder.
#[derive(Debug)]
pub struct Managed {
    process: Option<Process>,
    folder: PathBuf,
    keep: bool,
    pub target: MongoDb,
}

impl Managed {
    /// Starts a server with storage engine `engine`.
    pub fn start(engine: &str, setup: &Setup) -> Result<Managed> {
        let port = free_port()?;
        let folder = setup.root.join(format!("arbor-lab-{engine}-{}-{port}", std::process::id()));
        let data = folder.join("data");
        std::fs::create_dir_all(&data).map_err(Error::file(&data))?;
        let address = format!("127.0.0.1:{port}");
        let mut command = Command::new(&setup.binary);
        command.arg("serve").arg("--dbpath").arg(&data).args(["--port", &port.to_string()]);
        command.args(["--bind_ip", "127.0.0.1", "--storageEngine", engine]).args(&setup.arguments);
        // From here on the folder belongs to `managed`, also when the start fails.
        let mut managed =
            Managed { process: None, target: MongoDb::at(engine, &address), folder: folder.clone(), keep: setup.keep };
        let process = managed.process.insert(Process::start(engine, &mut command, &folder.join("server.log"))?);
        let id = process.id();
        if let Err(error) = process.wait_until_ready(&address) {
            // Its log is named in the error.
            managed.keep = true;
            return Err(error);
        }
        managed.target = managed.target.clone().local(id, Some(&data));
        Ok(managed)
    }
}

impl Drop for Managed {
    fn drop(&mut self) {
        drop(self.process.take());
        if !self.keep {
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}
