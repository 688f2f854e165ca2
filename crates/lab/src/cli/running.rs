//! Runs from the command line: one experiment, all of them, one again; and what is drawn when they are over.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::ArgMatches;
use rustix::process::{Resource, getrlimit, setrlimit};

use super::overrides::{self, setup};
use super::{given_directories, number, out, text};
use crate::experiment::{KV, Parameters, Plan, RunLog, Scale, built_in, carry_out, echo_only, find, judged, read};
use crate::kv::{self, KvEngine};
use crate::live::{Estimate, Live, News, Watcher};
use crate::report::{self, Progress};
use crate::results::{Ending, Run};
use crate::run::{Interrupt, Watch};
use crate::{Error, Result};

pub(super) fn run_one(matches: &ArgMatches, engines: &[KvEngine]) -> Result<Ending> {
    let plan = overrides::plan(find(text(matches, "experiment").unwrap_or_default())?, matches, engines)?;
    once(&plan, matches, engines)
}

/// One run with a live page of its own.
fn once(plan: &Plan, matches: &ArgMatches, engines: &[KvEngine]) -> Result<Ending> {
    let directory = out(matches, &plan.experiment.name)?;
    let interrupt = Interrupt::by_signals()?;
    let live = live(&plan.experiment.name, matches)?;
    let ending = perform(plan, &directory, live.as_ref(), engines, &interrupt)?;
    publish_end(live.as_ref(), ending, &directory.join(report::HTML));
    if ending == Ending::Complete { kept_thresholds(&directory).map(|()| ending) } else { Ok(ending) }
}

/// Errors: a threshold of the run was not kept.
fn kept_thresholds(directory: &Path) -> Result<()> {
    let judged = judged(&Run::read(directory)?.record);
    let broken = judged.iter().filter(|judged| !judged.is_kept);
    let broken: Vec<String> = broken.map(|judged| format!("{} of {}", judged.threshold, judged.system)).collect();
    if broken.is_empty() { Ok(()) } else { Err(Error::NotKept(format!("not kept: {}", broken.join(", ")))) }
}

/// Every experiment, one directory each, and an index. With the directory of an aborted run it continues that run: experiments
/// that completed are not run again.
pub(super) fn run_all(matches: &ArgMatches, engines: &[KvEngine]) -> Result<Ending> {
    let interrupt = Interrupt::by_signals()?;
    let root = out(matches, "all")?;
    let mut plans = Vec::new();
    for experiment in built_in()? {
        let name = experiment.name.clone();
        let named = |error| match error {
            Error::Usage(text) => Error::Usage(format!("{name}: {text}")),
            other => other,
        };
        plans.push(overrides::plan(experiment, matches, engines).map_err(named)?);
    }
    let live = live("all experiments", matches)?;
    let (mut ending, mut directories) = (Ending::Complete, Vec::new());
    for plan in &plans {
        if interrupt.is_set() {
            ending = Ending::Interrupted;
            break;
        }
        let (directory, earlier) = place(&root, &plan.experiment.name)?;
        let ended = match earlier {
            Some(ended) => Ok(ended),
            None => perform(plan, &directory, live.as_ref(), engines, &interrupt),
        };
        match ended {
            Ok(Ending::Complete) => {}
            Ok(other) => ending = other,
            Err(error) => {
                eprintln!("{}: {error}", plan.experiment.name);
                ending = Ending::Partial;
            }
        }
        // What could not begin has left nothing to show.
        if directory.join("run.yaml").is_file() {
            directories.push(directory);
            if let Err(error) = report::draw_index(&root, "All experiments", &directories) {
                eprintln!("cannot draw the index: {error}");
                ending = Ending::Partial;
            }
        }
    }
    println!("index: {}", root.join(report::INDEX).display());
    publish_end(live.as_ref(), ending, &root.join(report::INDEX));
    Ok(ending)
}

/// Returns the directory of an experiment below that of all, and how it ended if it was carried out. An aborted run keeps
/// its directory; its repetition gets a new one.
fn place(root: &Path, name: &str) -> Result<(PathBuf, Option<Ending>)> {
    let mut directory = root.join(name);
    let mut number = 1;
    while directory.join("run.yaml").is_file() {
        let ending = Run::read(&directory)?.record.ending;
        if matches!(ending, Ending::Complete | Ending::Partial) {
            return Ok((directory, Some(ending)));
        }
        number += 1;
        directory = root.join(format!("{name}-{number}"));
    }
    Ok((directory, None))
}

/// Repeats the run that a directory records.
pub(super) fn replay(matches: &ArgMatches, engines: &[KvEngine]) -> Result<Ending> {
    let directory = given_directories(matches).swap_remove(0);
    let record = Run::read(&directory)?.record;
    let file = directory.join("run.yaml").display().to_string();
    let experiment = read(&file, &record.text)?;
    let scale = if record.scale == Scale::Full.name() { Scale::Full } else { Scale::Small };
    let mut plan = Plan::of(experiment, scale, setup(matches)?);
    let wrong = |error| Error::Usage(format!("{file}: its parameters are of another version: {error}"));
    plan.parameters = serde_json::from_value::<Parameters>(record.parameters).map_err(wrong)?;
    plan.setup.arguments = plan.parameters.server_arguments.clone();
    plan.command_line = std::env::args().collect();
    plan.drop = matches.get_flag("drop");
    if text(matches, "binary").is_none() {
        overrides::remember_facts(&mut plan, engines);
    }
    plan.check()?;
    once(&plan, matches, engines)
}

pub(super) fn run_echo(matches: &ArgMatches) -> Result<Ending> {
    let mut plan = Plan::of(find("001-point-queries")?, Scale::Small, setup(matches)?);
    overrides::step_options(&mut plan, matches)?;
    plan.experiment.name = "echo".to_owned();
    plan.check()?;
    let bytes = number(matches, "bytes")?.unwrap_or(0);
    let directory = out(matches, "echo")?;
    let interrupt = Interrupt::by_signals()?;
    let live = live("echo", matches)?;
    let mut log = RunLog::open(&directory, &plan, watchers(&plan, live.as_ref()))?;
    echo_only(&plan, bytes, &mut log, &interrupt);
    let ending = log.close(interrupt.is_set());
    drop(log);
    draw(&directory)?;
    publish_end(live.as_ref(), ending, &directory.join(report::HTML));
    Ok(ending)
}

fn perform(
    plan: &Plan,
    directory: &Path,
    live: Option<&Arc<Live>>,
    engines: &[KvEngine],
    interrupt: &Interrupt,
) -> Result<Ending> {
    if plan.experiment.workload == KV {
        return kv::run_as_experiment(plan, directory, engines, interrupt);
    }
    allow_many_connections();
    let mut log = RunLog::open(directory, plan, watchers(plan, live))?;
    carry_out(plan, &mut log, interrupt);
    let ending = log.close(interrupt.is_set());
    drop(log);
    draw(directory)?;
    Ok(ending)
}

/// Starts the live page if one is requested.
fn live(title: &str, matches: &ArgMatches) -> Result<Option<Arc<Live>>> {
    let Some(port) = number::<u16>(matches, "live")? else { return Ok(None) };
    let live = Live::start(port, title)?;
    eprintln!("live page: {}", live.url());
    Ok(Some(Arc::new(live)))
}

/// Returns the observers other than the files: the terminal, the live page.
fn watchers(plan: &Plan, live: Option<&Arc<Live>>) -> Vec<Box<dyn Watch>> {
    let estimate = || Estimate::new(plan.systems(), Duration::from_secs_f64(plan.parameters.warm_s));
    let mut watchers: Vec<Box<dyn Watch>> = vec![Box::new(Progress::new(&plan.experiment.name, estimate()))];
    if let Some(live) = live {
        live.publish(&News::Begin { experiment: &plan.experiment.name, about: &plan.experiment.about });
        watchers.push(Box::new(Watcher::new(Arc::clone(live), estimate())));
    }
    watchers
}

/// Publishes the end of the run, and where the report is, on the live page.
fn publish_end(live: Option<&Arc<Live>>, ending: Ending, page: &Path) {
    if let Some(live) = live {
        let report = page.display().to_string();
        live.publish(&News::End { ending: report::ending(ending), report: &report });
    }
}

/// Draws everything that is drawn from a run's files, prints the text.
fn draw(directory: &Path) -> Result<()> {
    let text = report::text(&report::draw(directory)?);
    // Who does not read on has the directory.
    let _ = writeln!(std::io::stdout(), "{text}\nresults: {}", directory.display());
    Ok(())
}

/// A thousand clients are a thousand sockets, here and in the servers we start, which inherit the limit.
fn allow_many_connections() {
    let limit = getrlimit(Resource::Nofile);
    // If that is refused, connecting reports it.
    let _ = setrlimit(Resource::Nofile, rustix::process::Rlimit { current: limit.maximum, ..limit });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_aborted_run_is_repeated_in_a_new_directory() {
        let root = tempfile::tempdir().unwrap();
        let ended = |directory: &str, ending: &str| {
            std::fs::create_dir_all(root.path().join(directory)).unwrap();
            let rest = "about: b\nscale: small\nmode: fixed\nseed: 1\nunit: u\nkinds: []\nschedule: s\nparameters: {}\n\
                        arbor_version: v\ncommand_line: []\nclient_placement: c\nstarted: t\ntext: x\n";
            let record = format!("format: 1\nexperiment: a\nending: {ending}\n{rest}");
            std::fs::write(root.path().join(directory).join("run.yaml"), record).unwrap();
        };
        let placed = || {
            let (directory, ending) = place(root.path(), "a").unwrap();
            (directory.file_name().unwrap().to_str().unwrap().to_owned(), ending)
        };
        assert_eq!(placed(), ("a".to_owned(), None));
        ended("a", "interrupted");
        assert_eq!(placed(), ("a-2".to_owned(), None));
        ended("a-2", "running");
        ended("a-3", "partial");
        assert_eq!(placed(), ("a-3".to_owned(), Some(Ending::Partial)));
        ended("a", "complete");
        assert_eq!(placed(), ("a".to_owned(), Some(Ending::Complete)));
    }
}
