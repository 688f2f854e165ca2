//! The process that one engine has for itself, from both sides.
//!
//! The conductor writes the name of a phase per line to its standard input and reads an [`Answer`] in JSON per line from
//! its standard output. Between its turns the process is stopped.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};

use super::session::Session;
use super::{Figures, KvEngine, KvOptions, Phase};
use crate::target::memory_limit::MemoryLimit;
use crate::{Error, Result};

/// The subcommand that the process runs.
pub(super) const COMMAND: &str = "kv-engine";

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    Figures(Figures),
    /// The engine cannot do this.
    Absent,
    Failed(String),
}

impl Answer {
    pub fn of(outcome: Result<Option<Figures>>) -> Answer {
        match outcome {
            Ok(Some(figures)) => Answer::Figures(figures),
            Ok(None) => Answer::Absent,
            Err(error) => Answer::Failed(error.to_string()),
        }
    }
}

/// The process's side: answers until its input ends.
pub(super) fn serve(options: &KvOptions, engine: KvEngine, folder: &Path) -> Result<()> {
    // A conductor that died would leave this process stopped for ever.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(std::io::Error::from)?;
    let mut session = Session::new(options, engine, folder);
    for line in std::io::stdin().lines() {
        let phase: Phase = line?.parse().map_err(Error::Usage)?;
        say(&Answer::of(session.run(phase)))?;
        if phase == Phase::KillLoad {
            // The load goes on until the process is killed.
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
    answers: Lines<BufReader<ChildStdout>>,
    _limit: Option<MemoryLimit>,
}

impl EngineProcess {
    pub fn start(options: &KvOptions, engine: KvEngine, folder: &Path) -> Result<EngineProcess> {
        let text = serde_json::to_string(options).map_err(std::io::Error::from)?;
        let mut child = Command::new(std::env::current_exe()?)
            .args(["lab", COMMAND, "--engine", engine.name, "--options", &text, "--folder"])
            .arg(folder)
            // The C library's allocator, which engines in C and C++ use, keeps much in an arena for each thread.
            .env("MALLOC_ARENA_MAX", "2")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let limit = options.memory_bytes.map(|bytes| {
            let name = format!("arbor-kv-{}", child.id());
            let limit = MemoryLimit::new(&name, bytes).ok_or_else(|| Error::Usage("no memory cgroup".to_owned()))?;
            limit.add(child.id()).map(|()| limit)
        });
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let answers = output.map(|output| BufReader::new(output).lines());
        let answers = answers.ok_or_else(|| Error::Engine("the engine's process has no output".to_owned()))?;
        let mut process = EngineProcess { child, input, answers, _limit: None };
        process._limit = limit.transpose()?;
        Ok(process)
    }

    pub fn run(&mut self, phase: Phase) -> Result<Answer> {
        self.signal(Signal::CONT);
        let asked =
            self.input.as_mut().is_some_and(|input| writeln!(input, "{phase}").and_then(|()| input.flush()).is_ok());
        match self.answers.next().filter(|_| asked) {
            Some(line) => Ok(serde_json::from_str(&line?).map_err(std::io::Error::from)?),
            None => Err(Error::Engine(format!("the engine's process ended: {}", self.child.wait()?))),
        }
    }

    /// Until its next turn.
    pub fn rest(&self) {
        self.signal(Signal::STOP);
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // A process that ended meanwhile is found by its missing answer.
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
