//! Goes through the phases with all engines in turn.

use std::path::{Path, PathBuf};

use super::child::{Answer, EngineProcess};
use super::{KvEngine, KvOptions, Phase, PhaseStatistics};
use crate::run::Interrupt;
use crate::{Error, Result};

/// Result of a run.
pub(super) struct Outcome {
    pub parts: Vec<Part>,
    /// The phase that Ctrl-C ended.
    pub interrupted: Option<Phase>,
}

/// One engine's side of the run.
pub(super) struct Part {
    pub engine: KvEngine,
    /// `None`: the engine cannot do this phase, or broke down in it.
    pub statistics: Vec<(Phase, Option<PhaseStatistics>)>,
    pub failure: Option<String>,
}

/// Something that runs an engine's phases.
pub(super) trait Runner {
    fn run(&mut self, phase: Phase) -> Result<Answer>;
    fn rest(&self) {}
}

impl Runner for EngineProcess {
    fn run(&mut self, phase: Phase) -> Result<Answer> {
        EngineProcess::run(self, phase)
    }

    fn rest(&self) {
        EngineProcess::rest(self);
    }
}

/// Makes the runner of an engine that works in a directory.
pub(super) type Start<'s> = &'s dyn Fn(&KvOptions, KvEngine, &Path) -> Result<Box<dyn Runner + 's>>;

struct EngineRun<'s> {
    part: Part,
    directory: PathBuf,
    runner: Option<Box<dyn Runner + 's>>,
}

/// Callback for each phase that an engine has completed.
pub(super) type PhaseObserver<'t> = &'t mut dyn FnMut(KvEngine, Phase, &PhaseStatistics);

/// Runs the phases below `directory`, which is left as it was. An engine that fails stays out of what follows; an interrupt
/// ends the run, and what was measured is kept.
pub(super) fn conduct(
    options: &KvOptions,
    engines: &[KvEngine],
    phases: &[Phase],
    directory: &Path,
    start: Start<'_>,
    interrupt: &Interrupt,
    observer: PhaseObserver<'_>,
) -> Result<Outcome> {
    let mut runs = Vec::new();
    for engine in engines {
        let number = runs.len();
        let directory = directory.join(format!("arbor-kv-{}-{}-{number}", engine.name, std::process::id()));
        std::fs::create_dir_all(&directory).map_err(Error::file(&directory))?;
        let part = Part { engine: *engine, statistics: Vec::new(), failure: None };
        runs.push(EngineRun { part, directory, runner: None });
    }
    let mut interrupted = None;
    for phase in phases {
        for run in runs.iter_mut().filter(|run| run.part.failure.is_none()) {
            if interrupted.is_none() && !run.take_turn(options, *phase, start, interrupt, observer) {
                interrupted = Some(*phase);
            }
        }
    }
    for run in &mut runs {
        run.runner = None;
        std::fs::remove_dir_all(&run.directory).map_err(Error::file(&run.directory))?;
    }
    Ok(Outcome { parts: runs.into_iter().map(|run| run.part).collect(), interrupted })
}

impl<'s> EngineRun<'s> {
    /// Runs one phase; returns false if it was interrupted.
    fn take_turn(
        &mut self,
        options: &KvOptions,
        phase: Phase,
        start: Start<'s>,
        interrupt: &Interrupt,
        observer: PhaseObserver<'_>,
    ) -> bool {
        if interrupt.is_set() {
            return false;
        }
        let outcome = match phase {
            Phase::KillReopen => self.kill_and_reopen(options, start),
            phase => self.run(options, phase, start),
        };
        let name = self.part.engine.name;
        let statistics = match outcome {
            // A process that was ended for it has not failed.
            Ok(Answer::Failed(_)) | Err(_) if interrupt.is_set() => return false,
            Ok(Answer::PhaseStatistics(statistics)) => {
                let note = if statistics.note.is_empty() { String::new() } else { format!(" ({})", statistics.note) };
                eprintln!("{name:10} {phase}: {:.0}/s, {:.3} s{note}", statistics.rate(), statistics.seconds);
                observer(self.part.engine, phase, &statistics);
                Some(statistics)
            }
            Ok(Answer::Absent) => None,
            Ok(Answer::Failed(reason)) => self.failed(phase, reason),
            Err(error) => self.failed(phase, error.to_string()),
        };
        self.part.statistics.push((phase, statistics));
        true
    }

    fn failed(&mut self, phase: Phase, reason: String) -> Option<PhaseStatistics> {
        eprintln!("{:10} {phase}: {reason}", self.part.engine.name);
        self.part.failure = Some(format!("{phase}: {reason}"));
        self.runner = None;
        None
    }

    fn run(&mut self, options: &KvOptions, phase: Phase, start: Start<'s>) -> Result<Answer> {
        let runner = match &mut self.runner {
            Some(runner) => runner,
            None => self.runner.insert(start(options, self.part.engine, &self.directory)?),
        };
        let answer = runner.run(phase);
        runner.rest();
        answer
    }

    /// Runs in processes and a directory of its own; the rows of the other phases are removed first.
    fn kill_and_reopen(&mut self, options: &KvOptions, start: Start<'s>) -> Result<Answer> {
        self.runner = None;
        let rows = self.directory.join("rows");
        if rows.exists() {
            std::fs::remove_dir_all(&rows).map_err(Error::file(&rows))?;
        }
        let mut loading = start(options, self.part.engine, &self.directory)?;
        match loading.run(Phase::KillLoad)? {
            Answer::PhaseStatistics(_) => drop(loading),
            other => return Ok(other),
        }
        start(options, self.part.engine, &self.directory)?.run(Phase::KillReopen)
    }
}

#[cfg(test)]
mod tests {
    use super::super::session::Session;
    use super::*;
    use std::sync::Arc;

    use arbor_engine::Engine;
    use arbor_engine::model::ModelEngine;

    use super::super::{EngineFacts, KvSettings};

    struct InProcess<'o>(Session<'o>);

    impl Runner for InProcess<'_> {
        fn run(&mut self, phase: Phase) -> Result<Answer> {
            Ok(Answer::of(self.0.run(phase)))
        }
    }

    /// The model keeps nothing on disk, so one engine lives as long as its directory is opened.
    fn open_model(directory: &Path, settings: &KvSettings) -> std::result::Result<Arc<dyn Engine>, String> {
        use std::collections::HashMap;
        use std::sync::{LazyLock, Mutex};
        static MODELS: LazyLock<Mutex<HashMap<PathBuf, Arc<ModelEngine>>>> = LazyLock::new(Mutex::default);
        let mut models = MODELS.lock().unwrap();
        let new = || ModelEngine::with_updates(settings.updates.clone());
        let engine = Arc::new(models.get(directory).map_or_else(new, |engine| engine.crash()));
        models.insert(directory.to_owned(), engine.clone());
        Ok(engine)
    }

    fn run(options: &KvOptions, only: &[&str]) -> Vec<Part> {
        run_until(options, only, usize::MAX).parts
    }

    /// Like `run`, but interrupted after `phases_until` phases.
    fn run_until(options: &KvOptions, only: &[&str], phases_until: usize) -> Outcome {
        let model =
            KvEngine { name: "model", aliases: &[], missing: || None, facts: EngineFacts::default, open: open_model };
        let other = KvEngine {
            name: "other",
            aliases: &[],
            missing: || None,
            facts: EngineFacts::default,
            open: |_, _| Ok(Arc::new(ModelEngine::new())),
        };
        let broken = KvEngine {
            name: "broken",
            aliases: &[],
            missing: || None,
            facts: EngineFacts::default,
            open: |_, _| Err("it does not open".to_owned()),
        };
        let only: Vec<String> = only.iter().map(|name| (*name).to_owned()).collect();
        let phases = Phase::chosen(options, &only).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let start = |_: &KvOptions, engine, directory: &Path| -> Result<Box<dyn Runner + '_>> {
            Ok(Box::new(InProcess(Session::new(options, engine, directory))))
        };
        let (interrupt, mut phases_run) = (Interrupt::default(), 0);
        let mut observer = |_: KvEngine, _: Phase, _: &PhaseStatistics| {
            phases_run += 1;
            if phases_run == phases_until {
                interrupt.set();
            }
        };
        let engines = [model, other, broken];
        let outcome = conduct(options, &engines, &phases, directory.path(), &start, &interrupt, &mut observer).unwrap();
        assert_eq!(directory.path().read_dir().unwrap().count(), 0, "the data is removed");
        outcome
    }

    fn small() -> KvOptions {
        let threads = vec![1, 2];
        KvOptions {
            rows: 500,
            value_bytes: 40,
            batch: 50,
            calls: 60,
            idle_seconds: 0,
            threads,
            kill_rows: 300,
            ..KvOptions::default()
        }
    }

    #[test]
    fn every_phase_has_statistics() {
        for log in [false, true] {
            let options = KvOptions { log, ..small() };
            let parts = run(&options, &[]);
            assert_eq!(parts[0].failure, None);
            let names: Vec<String> = parts[0].statistics.iter().map(|(phase, _)| phase.to_string()).collect();
            assert_eq!(names, Phase::all(&options).iter().map(Phase::to_string).collect::<Vec<_>>());
            for (phase, statistics) in &parts[0].statistics {
                let statistics = statistics.as_ref().unwrap_or_else(|| panic!("{phase}"));
                assert!(statistics.operations > 0 && statistics.seconds > 0.0, "{phase}: {statistics:?}");
            }
            let note =
                |phase| parts[0].statistics.iter().find(|(own, _)| *own == phase).unwrap().1.clone().unwrap().note;
            assert_eq!(note(Phase::KillReopen), "300 rows were logged, 301 operations replayed");
            assert_eq!(parts[2].failure.as_deref(), Some("load-seq: it does not open"));
        }
    }

    #[test]
    fn an_interrupt_keeps_what_was_measured() {
        let outcome = run_until(&small(), &["load-rand", "get", "overwrite"], 3);
        let measured = outcome.parts.iter().map(|part| part.statistics.iter().filter(|(_, f)| f.is_some()).count());
        assert_eq!(measured.collect::<Vec<_>>(), [2, 1, 0]);
        assert_eq!((outcome.interrupted, &outcome.parts[1].failure), (Some(Phase::Get(1)), &None));
    }

    #[test]
    fn what_an_engine_cannot_do_is_absent() {
        let parts = run(&small(), &["increment", "rmw"]);
        assert!(matches!(parts[1].statistics.as_slice(), [_, (_, Some(_)), (Phase::Increment, None)]));
        assert_eq!(parts[1].failure, None);
    }

    #[test]
    fn a_load_that_finds_no_time_is_completed_in_key_order() {
        let options = KvOptions { load_seconds: 0, ..small() };
        let parts = run(&options, &["load-rand", "scan-full"]);
        let [(_, Some(load)), (_, Some(scan))] = parts[0].statistics.as_slice() else { panic!() };
        assert_eq!((load.operations, scan.operations), (0, 500));
        assert_eq!(load.note, "0 rows in random order, the rest in key order");
    }
}
