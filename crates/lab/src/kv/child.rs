//! The process that one engine has for itself, from both sides.
//!
//! The conductor writes the name of a phase per line to its standard input and reads an [`Answer`] in JSON per line from
//! its standard output. Between its turns the process is stopped.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};

use super::session::Session;
use super::{KvEngine, KvOptions, Phase, PhaseStatistics};
use crate::run::Interrupt;
use crate::target::control_groups::ControlGroups;
use crate::{Error, Result};

/// The subcommand that the process runs.
pub(super) const COMMAND: &str = "kv-engine";

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    PhaseStatistics(PhaseStatistics),
    /// The engine cannot do this.
    Absent,
    Failed(String),
}

impl Answer {
    pub(super) fn of(outcome: Result<Option<PhaseStatistics>>) -> Answer {
        match outcome {
            Ok(Some(statistics)) => Answer::PhaseStatistics(statistics),
            Ok(None) => Answer::Absent,
            Err(error) => Answer::Failed(error.to_string()),
        }
    }
}

/// Serves phases until the input ends: the process's side.
pub(super) fn serve(options: &KvOptions, engine: KvEngine, directory: &Path) -> Result<()> {
    // If the conductor died, this process would stay stopped permanently.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(std::io::Error::from)?;
    let mut session = Session::new(options, engine, directory);
    for line in std::io::stdin().lines() {
        let phase: Phase = line?.parse().map_err(Error::Usage)?;
        say(&Answer::of(session.run(phase)))?;
        if phase == Phase::KillLoad {
            // The load continues until the process is killed.
            session.overwrite()?;
        }
    }
    Ok(())
}

fn say(answer: &Answer) -> Result<()> {
    let text = serde_json::to_string(answer).map_err(std::io::Error::from)?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}")?;
    Ok(out.flush()?)
}

/// The conductor's side.
pub(super) struct EngineProcess {
    child: Child,
    input: Option<ChildStdin>,
    /// Lines of its output, until that ends.
    answers: Receiver<std::io::Result<String>>,
    interrupt: Interrupt,
    limit: Option<ControlGroups>,
}

/// Interval at which an interrupt is checked during a phase.
const SLICE: Duration = Duration::from_millis(100);

impl EngineProcess {
    /// An interrupt ends the phase under way.
    pub(super) fn start(
        options: &KvOptions,
        engine: KvEngine,
        directory: &Path,
        interrupt: &Interrupt,
    ) -> Result<EngineProcess> {
        let text = serde_json::to_string(options).map_err(std::io::Error::from)?;
        let mut child = Command::new(std::env::current_exe()?)
            .args(["lab", COMMAND, "--engine", engine.name, "--options", &text, "--directory"])
            .arg(directory)
            // The C library's allocator, which engines in C and C++ use, keeps much in an arena for each thread.
            .env("MALLOC_ARENA_MAX", "2")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C at the terminal is for the conductor, which ends this process.
            .process_group(0)
            .spawn()?;
        let limit = options.memory_bytes.map(|bytes| {
            let mut groups = ControlGroups::new(format!("arbor-kv-{}", child.id()));
            if !groups.limit_memory(bytes) {
                return Err(Error::Usage("no memory cgroup".to_owned()));
            }
            groups.add(child.id()).map(|()| groups)
        });
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let output = output.ok_or_else(|| Error::Engine("the engine's process has no output".to_owned()))?;
        let mut process =
            EngineProcess { child, input, answers: lines(output), interrupt: interrupt.clone(), limit: None };
        process.limit = limit.transpose()?;
        Ok(process)
    }

    pub(super) fn run(&mut self, phase: Phase) -> Result<Answer> {
        self.signal(Signal::CONT);
        let asked =
            self.input.as_mut().is_some_and(|input| writeln!(input, "{phase}").and_then(|()| input.flush()).is_ok());
        loop {
            match self.answers.recv_timeout(SLICE) {
                _ if self.interrupt.is_set() => return Err(Error::Engine("interrupted".to_owned())),
                Ok(line) if asked => return Ok(serde_json::from_str(&line?).map_err(std::io::Error::from)?),
                Err(RecvTimeoutError::Timeout) => {}
                _ => return Err(self.ended()?),
            }
        }
    }

    fn ended(&mut self) -> Result<Error> {
        let status = self.child.wait()?;
        let limited = self.limit.as_ref().is_some_and(ControlGroups::has_killed);
        let why = if limited { ", by the limit of its memory" } else { "" };
        Ok(Error::Engine(format!("the engine's process ended: {status}{why}")))
    }

    /// Stops the process until its next turn.
    pub(super) fn rest(&self) {
        self.signal(Signal::STOP);
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // A process that has ended is detected by its missing answer.
            let _ = kill_process(pid, signal);
        }
    }
}

impl Drop for EngineProcess {
    /// kill -9.
    fn drop(&mut self) {
        self.input = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines(output: ChildStdout) -> Receiver<std::io::Result<String>> {
    let (sender, answers) = channel();
    std::thread::spawn(move || BufReader::new(output).lines().try_for_each(|line| sender.send(line)));
    answers
}
