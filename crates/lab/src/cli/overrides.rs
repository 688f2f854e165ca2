//! Command-line overrides of an experiment.

use std::path::PathBuf;

use clap::ArgMatches;
use serde_json::Value;

use super::{number, parse, text, texts};
use crate::experiment::{DataDevice, Experiment, Plan, Scale, default_root};
use crate::kv::{KvEngine, asked_for};
use crate::run::Ramp;
use crate::target::Driver;
use crate::target::managed::Setup;
use crate::target::mysql::{MariaDb, MySqlBuild};
use crate::{Error, Result};

pub(crate) fn setup(matches: &ArgMatches) -> Result<Setup> {
    let binary = match text(matches, "binary") {
        Some(binary) => PathBuf::from(binary),
        None => std::env::current_exe()?,
    };
    let root = text(matches, "data").map_or_else(default_root, PathBuf::from);
    Ok(Setup { binary, root, arguments: Vec::new(), keep: false, disk: Default::default(), mysql: Vec::new() })
}

/// The plan of `run`.
pub(super) fn plan(experiment: Experiment, matches: &ArgMatches, built_in: &[KvEngine]) -> Result<Plan> {
    let scale = if text(matches, "scale") == Some("full") { Scale::Full } else { Scale::Small };
    let mut plan = Plan::of(experiment, scale, setup(matches)?);
    plan.command_line = std::env::args().collect();
    plan.drop = matches.get_flag("drop");
    let devices = DataDevice::parse(text(matches, "data").unwrap_or_default());
    plan.parameters.devices = devices.map_err(|what| Error::Usage(format!("--data: {what}")))?;
    if let Some(first) = plan.parameters.devices.first() {
        plan.setup.root = first.directory.clone();
    }
    plan.setup.keep = matches.get_flag("keep");
    plan.setup.arguments = texts(matches, "server-arg");
    workload_settings(&mut plan, matches)?;
    server_options(&mut plan, matches)?;
    step_options(&mut plan, matches)?;
    let parameters = &mut plan.parameters;
    parameters.server_arguments = texts(matches, "server-arg");
    parameters.echo &= !matches.get_flag("no-echo");
    parameters.targets = texts(matches, "target");
    parameters.agents = texts(matches, "agent");
    parameters.generators = texts(matches, "generator");
    for agent in &parameters.agents {
        let name = agent.split_once('=').map(|(name, _)| name);
        if !name.is_some_and(|name| parameters.targets.iter().any(|target| crate::target::name_of(target) == name)) {
            return Err(Error::Usage(format!("--agent {agent}: NAME=HOST:PORT with the name of a --target is needed")));
        }
    }
    let mysql =
        texts(matches, "mysql").iter().map(|text| MySqlBuild::parse(text)).collect::<std::result::Result<_, _>>();
    parameters.mysql = mysql.map_err(|what| Error::Usage(format!("--mysql: {what}")))?;
    parameters.text_settings = text(matches, "settings") == Some("text");
    parameters.peer = text(matches, "peer").map(str::to_owned);
    parameters.engines = texts(matches, "engine");
    if parameters.engines.is_empty() && parameters.targets.is_empty() {
        parameters.engines = vec!["ftree".to_owned()];
    }
    if parameters.engines.iter().any(|engine| engine == "all") {
        plan.parameters.engines = all_engines(&plan, built_in);
    }
    // Another binary may have other engines; it refuses what it has not.
    known_engines(&mut plan, built_in, text(matches, "binary").is_some())?;
    let drivers = texts(matches, "driver");
    if !drivers.is_empty() {
        plan.parameters.drivers = drivers.iter().map(|name| driver(name)).collect::<Result<_>>()?;
    }
    plan.check()?;
    Ok(plan)
}

fn driver(name: &str) -> Result<Driver> {
    serde_json::from_value(Value::String(name.to_owned()))
        .map_err(|_| Error::Usage(format!("--driver: unknown driver {name:?}; known are lean and official")))
}

/// Returns the engines of this build that work on this machine, and those of MariaDB that can be started here if the experiment supports them.
fn all_engines(plan: &Plan, built_in: &[KvEngine]) -> Vec<String> {
    let (experiment, builds) = (&plan.experiment, &plan.parameters.mysql);
    let own = built_in.iter().filter(|engine| engine.usable().is_ok()).map(|engine| engine.name.to_owned());
    let runs = |name: &String| MariaDb::of(name, builds).is_some_and(|mariadb| mariadb.missing().is_none());
    let mariadb = MariaDb::names(builds).into_iter().filter(|name| experiment.mysql && runs(name));
    // Point queries alone are asked by HANDLER.
    let mariadb = mariadb.filter(|name| experiment.workload == "pointquery" || !name.ends_with("-handler"));
    own.chain(mariadb).collect()
}

/// Replaces aliases by the names of the engines that will run, and remembers what was typed. Errors: an engine is not in this
/// build, unless another binary may have it, or lacks its library here.
fn known_engines(plan: &mut Plan, built_in: &[KvEngine], other_binary: bool) -> Result<()> {
    let mut engines: Vec<String> = Vec::new();
    for asked in std::mem::take(&mut plan.parameters.engines) {
        let builds = &plan.parameters.mysql;
        let is_mariadb = MariaDb::of(&asked, builds).is_some();
        let own = KvEngine::known(built_in, &asked);
        let name = match own {
            Some(engine) if other_binary => engine.name.to_owned(),
            None if is_mariadb || other_binary => asked.clone(),
            _ => KvEngine::asked(built_in, "engine", &asked)
                .map_err(|error| with_mariadb(error, builds))?
                .name
                .to_owned(),
        };
        if let Some(mariadb) = MariaDb::of(&name, builds) {
            check_mariadb(&plan.experiment, &name, &mariadb)?;
        }
        if let Some(note) = asked_for(&name, &asked) {
            plan.remarks.push(note);
            plan.parameters.asked_for.insert(name.clone(), asked);
        }
        if !engines.contains(&name) {
            engines.push(name);
        }
    }
    plan.parameters.engines = engines;
    if !other_binary {
        remember_facts(plan, built_in);
    }
    Ok(())
}

/// Errors: the experiment does not run on MariaDB, or this machine has none.
fn check_mariadb(experiment: &Experiment, name: &str, mariadb: &MariaDb) -> Result<()> {
    if !experiment.mysql {
        return Err(Error::Usage(format!("--engine: {} does not run on MariaDB ({name})", experiment.name)));
    }
    mariadb.missing().map_or(Ok(()), |reason| Err(Error::Usage(format!("--engine: {name}: {reason}"))))
}

/// Remembers the facts about those engines of a plan that are in this build.
pub(super) fn remember_facts(plan: &mut Plan, built_in: &[KvEngine]) {
    let known = plan.parameters.engines.iter().filter_map(|name| KvEngine::known(built_in, name));
    plan.facts = known.map(|engine| (engine.name.to_owned(), (engine.facts)())).collect();
}

/// Appends MariaDB's engines to those that a refusal lists.
fn with_mariadb(error: Error, builds: &[MySqlBuild]) -> Error {
    match error {
        Error::Usage(text) if text.contains("; it has ") => {
            Error::Usage(format!("{text}, {}", MariaDb::names(builds).join(", ")))
        }
        other => other,
    }
}

fn workload_settings(plan: &mut Plan, matches: &ArgMatches) -> Result<()> {
    if let Some(mode) = text(matches, "mode") {
        plan.parameters.mode = mode.to_owned();
    }
    for (option, setting) in [("tables", "tables"), ("docs", "docs"), ("batch", "batch"), ("range", "range_size")] {
        if let Some(value) = number::<u64>(matches, option)? {
            plan.parameters.settings.insert(setting.to_owned(), value.into());
        }
    }
    for text in texts(matches, "set") {
        let (name, value) =
            text.split_once('=').ok_or_else(|| Error::Usage(format!("--set: expected NAME=VALUE, not {text:?}")))?;
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
        choose_phases(plan, name, &value);
        plan.parameters.settings.insert(name.to_owned(), value);
    }
    Ok(())
}

/// Keeps the phases that have this value of a setting. Where none has, each step runs with it once, and the phases differ
/// by what else they set: a phase's own setting would hide the one that was asked for.
fn choose_phases(plan: &mut Plan, name: &str, value: &Value) {
    let phases = &mut plan.parameters.phases;
    if phases.iter().any(|phase| phase.settings.get(name) == Some(value)) {
        phases.retain(|phase| phase.settings.get(name) == Some(value));
        return;
    }
    if phases.iter().any(|phase| phase.settings.contains_key(name)) {
        let mut seen: Vec<serde_json::Map<String, Value>> = Vec::new();
        phases.iter_mut().for_each(|phase| drop(phase.settings.remove(name)));
        phases.retain(|phase| {
            let known = seen.contains(&phase.settings);
            seen.push(phase.settings.clone());
            !known
        });
        if let [only] = phases.as_mut_slice() {
            only.name = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        }
    }
}

fn server_options(plan: &mut Plan, matches: &ArgMatches) -> Result<()> {
    let parameters = &mut plan.parameters;
    let numbers = texts(matches, "cache-mb");
    if !numbers.is_empty() {
        parameters.cache_mb = numbers.iter().map(|text| parse("cache-mb", text)).collect::<Result<_>>()?;
    }
    let numbers = texts(matches, "syncdelay");
    if !numbers.is_empty() {
        parameters.syncdelay = numbers.iter().map(|text| quantity("syncdelay", text)).collect::<Result<_>>()?;
    }
    if let Some(times) = text(matches, "memory") {
        parameters.memory = Some(quantity("memory", times)?).filter(|times| *times > 0.0);
    }
    parameters.loaders = number(matches, "loaders")?.unwrap_or(parameters.loaders);
    parameters.rounds = number(matches, "rounds")?.unwrap_or(parameters.rounds);
    Ok(())
}

/// Applies the options that `run` and `echo` share.
pub(super) fn step_options(plan: &mut Plan, matches: &ArgMatches) -> Result<()> {
    let parameters = &mut plan.parameters;
    let clients = texts(matches, "clients");
    if !clients.is_empty() {
        parameters.clients = clients.iter().map(|text| parse("clients", text)).collect::<Result<_>>()?;
    }
    parameters.connections_per_thread =
        number(matches, "connections-per-thread")?.or(parameters.connections_per_thread);
    let seconds = |name| text(matches, name).map(|text| quantity(name, text)).transpose();
    parameters.seconds = seconds("seconds")?.unwrap_or(parameters.seconds);
    parameters.warm_s = seconds("warm")?.unwrap_or(parameters.warm_s);
    parameters.steady_s = seconds("steady")?.or(parameters.steady_s);
    parameters.interval_s = seconds("interval")?.unwrap_or(parameters.interval_s);
    parameters.rate = seconds("rate")?.or(parameters.rate);
    let points = texts(matches, "ramp");
    if !points.is_empty() {
        let ramp = Ramp::parse(&points).map_err(|what| Error::Usage(format!("--ramp: {what}")))?;
        (parameters.ramp, parameters.rate) = (Some(ramp), seconds("rate")?);
    }
    parameters.thresholds.extend(texts(matches, "threshold"));
    parameters.search_p99_ms = seconds("search-p99")?.or(parameters.search_p99_ms);
    parameters.poisson |= matches.get_flag("poisson");
    parameters.seed = number(matches, "seed")?.unwrap_or(parameters.seed);
    parameters.repeats = number(matches, "repeats")?.unwrap_or(parameters.repeats);
    Ok(())
}

/// A number from 0 on.
fn quantity(name: &str, text: &str) -> Result<f64> {
    let number: f64 = parse(name, text)?;
    // A time has to fit a Duration too.
    if number.is_finite() && (0.0..1e9).contains(&number) {
        Ok(number)
    } else {
        Err(Error::Usage(format!("--{name}: invalid number {text}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::find;
    use crate::kv::EngineFacts;
    use crate::target::control_groups::DiskLimits;

    const BUILT_IN: [KvEngine; 3] = [
        KvEngine {
            name: "ftree",
            aliases: &["tokuft", "PerconaFT"],
            missing: || None,
            facts: EngineFacts::default,
            open: |_, _| Err(String::new()),
        },
        KvEngine {
            name: "lmdb",
            aliases: &["mmapv1"],
            missing: || None,
            facts: EngineFacts::default,
            open: |_, _| Err(String::new()),
        },
        KvEngine {
            name: "paper",
            aliases: &[],
            missing: || Some("no paper".to_owned()),
            facts: EngineFacts::default,
            open: |_, _| Err(String::new()),
        },
    ];

    fn planned(arguments: &[&str]) -> Result<Plan> {
        let matches = crate::cli::command().try_get_matches_from([&["lab", "run"], arguments].concat()).unwrap();
        let matches = matches.subcommand_matches("run").unwrap();
        plan(find(text(matches, "experiment").unwrap())?, matches, &BUILT_IN)
    }

    #[test]
    fn the_command_is_consistent() {
        crate::cli::command().debug_assert();
    }

    #[test]
    fn scales_and_overrides() {
        let small = planned(&["001-point-queries"]).unwrap().parameters;
        assert_eq!((small.settings["tables"].clone(), small.settings["docs"].clone()), (8.into(), 125_000.into()));
        assert_eq!(
            (small.engines, small.clients, small.echo),
            (vec!["ftree".to_owned()], vec![1, 2, 4, 8, 16, 32, 40], true)
        );
        let other = planned(&[
            "sysbench",
            "--engine",
            "lmdb,ftree",
            "--clients",
            "1,3",
            "--rate",
            "50",
            "--docs",
            "2000",
            "--mode",
            "fixed",
            "--set",
            "points=3",
            "--cache-mb",
            "32,64",
            "--memory",
            "2",
            "--repeats",
            "3",
        ])
        .unwrap();
        let stations = other.stations("lmdb");
        assert_eq!(stations.iter().map(|station| station.flags.memory_mb).collect::<Vec<_>>(), [Some(64), Some(128)]);
        let other = other.parameters;
        assert_eq!(
            (other.engines.len(), other.clients, other.settings["points"].clone(), other.echo),
            (2, vec![1, 3], 3.into(), false)
        );
        assert_eq!((other.mode.as_str(), other.rate, other.repeats), ("fixed", Some(50.0), 3));
        assert!(planned(&["load"]).unwrap().parameters.clients.is_empty());
    }

    #[test]
    fn engines_have_the_names_of_what_runs() {
        let plan = planned(&["pointquery", "--engine", "mmapv1,perconaft,lmdb,FTREE"]).unwrap();
        assert_eq!(plan.parameters.engines, ["lmdb", "ftree"]);
        assert_eq!(plan.known("lmdb", &Default::default()).get("asked_for"), Some(&"mmapv1".into()));
        assert_eq!(plan.known("ftree", &Default::default()).get("asked_for"), Some(&"perconaft".into()));
        let mariadb = planned(&["iibench", "--engine", "innodb"]).unwrap_err().to_string();
        assert_eq!(mariadb, "--engine: iibench does not run on MariaDB (innodb)");
        if let Some(reason) = MariaDb::of("innodb", &[]).and_then(|mariadb| mariadb.missing()) {
            let refused = planned(&["pointquery", "--engine", "ftree,innodb"]).unwrap_err().to_string();
            assert_eq!(refused, format!("--engine: innodb: {reason}"));
        }
        assert_eq!(plan.remarks, ["lmdb ran: it was asked for as mmapv1", "ftree ran: it was asked for as perconaft"]);
        let refused = planned(&["pointquery", "--engine", "ftree,frob"]).unwrap_err().to_string();
        assert!(refused.contains("\"frob\" is not in this build; it has ftree, lmdb, paper, innodb"), "{refused}");
        let missing = planned(&["pointquery", "--engine", "ftree,paper"]).unwrap_err().to_string();
        assert!(missing.contains("no paper"), "{missing}");
        let all = planned(&["pointquery", "--engine", "all"]).unwrap().parameters.engines;
        assert!(
            all.starts_with(&["ftree".to_owned(), "lmdb".to_owned()]) && !all.contains(&"paper".to_owned()),
            "{all:?}"
        );
        let other = planned(&["pointquery", "--engine", "frob", "--binary", "/bin/true"]).unwrap();
        assert_eq!(other.parameters.engines, ["frob"]);
    }

    #[test]
    fn a_setting_of_phases_chooses_among_them() {
        let names = |set: &str| {
            let plan = planned(&["004-ycsb", "--set", set]).unwrap();
            let name = |phase: &crate::experiment::PhasePlan| phase.name.clone();
            plan.parameters.phases.iter().map(name).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names("workload=a"), "A");
        assert_eq!(names("workload=e"), "E");
        assert_eq!(names("records=1000"), "A B C F D E");
        let refused = planned(&["004-ycsb", "--set", "workload=z"]).unwrap_err().to_string();
        assert!(refused.contains("workload"), "{refused}");
    }

    #[test]
    fn each_engine_runs_on_each_device() {
        let plan =
            planned(&["pointquery", "--engine", "ftree,lmdb", "--data", "ssd=/a,disk=/b/c", "--no-echo"]).unwrap();
        let systems: Vec<(String, PathBuf)> =
            plan.managed().into_iter().map(|one| (one.name, one.setup.root)).collect();
        let slow = planned(&["pointquery", "--data", "fast=/a+b,slow=/a+b+200iops+40mb", "--no-echo"]).unwrap();
        let limits = DiskLimits { operations: Some(200), megabytes: Some(40) };
        let found: Vec<(PathBuf, DiskLimits)> =
            slow.managed().into_iter().map(|one| (one.setup.root, one.setup.disk)).collect();
        assert_eq!(found, [("/a+b".into(), DiskLimits::default()), ("/a+b".into(), limits)]);
        let expect = [("ftree@ssd", "/a"), ("ftree@disk", "/b/c"), ("lmdb@ssd", "/a"), ("lmdb@disk", "/b/c")];
        assert_eq!(systems, expect.map(|(name, root)| (name.to_owned(), PathBuf::from(root))));
        assert_eq!((plan.systems(), plan.setup.root.as_path()), (4, std::path::Path::new("/a")));
        let one = planned(&["pointquery", "--data", "/a", "--no-echo"]).unwrap();
        assert_eq!(one.managed().into_iter().map(|one| one.name).collect::<Vec<_>>(), ["ftree"]);
        for wrong in ["ssd=/a,/b", "=/a", "a=/a,a=/b", "a b=/c", "a="] {
            assert!(planned(&["pointquery", "--data", wrong]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn settings_of_the_texts() {
        let flags = |arguments: &[&str]| {
            let plan = planned(arguments).unwrap();
            let flags = plan.stations("ftree").swap_remove(0).flags;
            (plan.known("ftree", &flags), flags)
        };
        let (known, of_text) = flags(&["004-ycsb", "--settings", "text"]);
        assert!(of_text.oplog && of_text.arguments.join(" ").contains("--ftreeFanout 128"), "{of_text:?}");
        assert_eq!(known.get("compression"), Some(&"lz4".into()));
        assert!(
            known["text_settings"].as_str().is_some_and(|text| text.ends_with(", one member of a set")),
            "{known:?}"
        );
        let (known, ours) = flags(&["004-ycsb"]);
        assert!(!ours.oplog && ours.arguments.is_empty() && !known.contains_key("text_settings"));
        let refused = planned(&["sysbench", "--settings", "text"]).unwrap_err().to_string();
        assert_eq!(refused, "--settings text: no founding text has settings for sysbench");
    }

    #[test]
    fn every_argument_is_explained() {
        fn check(command: &clap::Command) {
            if command.is_hide_set() {
                return;
            }
            assert!(command.get_about().is_some(), "{}", command.get_name());
            for argument in command.get_arguments() {
                assert!(argument.get_help().is_some(), "{} {}", command.get_name(), argument.get_id());
            }
            command.get_subcommands().for_each(check);
        }
        check(&crate::cli::command());
    }

    #[test]
    fn repeats_come_in_the_same_random_order() {
        let plan = planned(&["sysbench", "--repeats", "4", "--clients", "1,2,4", "--rounds", "2"]).unwrap();
        let station = plan.stations("ftree").swap_remove(0);
        let names: Vec<String> = plan.steps(&station).into_iter().map(|step| step.name).collect();
        assert_eq!(names, plan.steps(&station).into_iter().map(|step| step.name).collect::<Vec<_>>());
        assert_eq!(names.len(), 24);
        assert!(names[..12].iter().all(|name| name.starts_with("round1-c")), "{names:?}");
        let mut sorted = names.clone();
        sorted.sort_unstable();
        assert_ne!(names, sorted);
        sorted.dedup();
        assert_eq!(sorted.len(), 24);
    }

    #[test]
    fn nonsense_is_refused() {
        for bad in [
            &["frobnicate"][..],
            &["pointquery", "--clients", "0"],
            &["pointquery", "--clients", "x"],
            &["pointquery", "--connections-per-thread", "0"],
            &["pointquery", "--generator", "127.0.0.1:1"],
            &["iibench", "--target", "mongodb://h", "--generator", "127.0.0.1:1"],
            &["pointquery", "--connections-per-thread", "4", "--rate", "9"],
            &["sysbench", "--connections-per-thread", "4"],
            &["pointquery", "--seconds=-1"],
            &["pointquery", "--seconds", "0"],
            &["pointquery", "--seconds", "1e300"],
            &["pointquery", "--rate", "0"],
            &["pointquery", "--docs", "10"],
            &["pointquery", "--docs", "4000000000"],
            &["pointquery", "--set", "frob=1"],
            &["pointquery", "--set", "docs"],
            &["pointquery", "--interval", "0"],
            &["pointquery", "--driver", "frob"],
            &["pointquery", "--target", "http://h"],
            &["pointquery", "--ramp", "5"],
            &["pointquery", "--ramp", "5@0,9@3", "--rate", "5"],
            &["pointquery", "--threshold", "p98<1"],
            &["pointquery", "--search-p99", "0"],
            &["pointquery", "--search-p99", "5", "--rate", "5"],
            &["002-recovery", "--search-p99", "5"],
        ] {
            assert!(matches!(planned(bad), Err(Error::Usage(_))), "{bad:?}");
        }
    }
}
