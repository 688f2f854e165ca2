//! The text above and below the tables of every report: what was run, where, and which caveats apply.

use serde_json::Value;

use crate::results::{Ending, Run, StepRecord, SystemRecord};

/// The run in a few facts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Heading {
    pub facts: Vec<(&'static str, String)>,
}

impl Heading {
    pub(super) fn of(run: &Run) -> Heading {
        let record = &run.record;
        let systems = record.systems.iter().map(asked_name).collect::<Vec<_>>().join(", ");
        let ended = record.ended.as_deref().map_or(String::new(), |ended| format!(" to {ended}"));
        let mut facts = vec![
            ("started", format!("{}{ended}", record.started)),
            ("ending", ending(record.ending).to_owned()),
            ("systems", systems),
            ("scale", format!("{}, mode {}, seed {}", record.scale, record.mode, record.seed)),
            ("settings", settings(&record.systems)),
            ("load", record.schedule.clone()),
            ("clients", record.client_placement.clone()),
            ("driver", drivers(&record.systems)),
            ("software", software(&record.systems, &record.arbor_version)),
            ("devices", devices(&record.systems)),
            ("machine", machine(&run.environment)),
            ("arbor", record.arbor_version.clone()),
        ];
        facts.retain(|(_, value)| !value.is_empty());
        Heading { facts }
    }
}

/// Returns a text of a system's facts.
fn fact<'a>(system: &'a SystemRecord, name: &str) -> Option<&'a str> {
    system.about.get(name)?.as_str()
}

/// Returns the system's name, and the one that it was asked for by where that is another.
fn asked_name(system: &SystemRecord) -> String {
    match fact(system, "asked_for") {
        Some(asked) => format!("{} (asked for as {asked})", system.name),
        None => system.name.clone(),
    }
}

/// Returns the settings of the founding text that systems ran with; empty: with our own.
fn settings(systems: &[SystemRecord]) -> String {
    let of = |system: &SystemRecord| Some(format!("{} {}", system.name, fact(system, "text_settings")?));
    let all: Vec<String> = systems.iter().filter_map(of).collect();
    if all.is_empty() { String::new() } else { format!("the founding text's: {}", all.join("; ")) }
}

/// Returns the disks of systems that ran on several.
fn devices(systems: &[SystemRecord]) -> String {
    let several = systems.iter().filter(|system| system.name.contains('@'));
    let of = |system: &SystemRecord| Some(format!("{} on {}", system.name, fact(system, "data_on")?));
    several.filter_map(of).collect::<Vec<_>>().join("; ")
}

/// Returns what each system is made of beyond this build of Arbor: the library of its engine, or the version of another server.
fn software(systems: &[SystemRecord], build: &str) -> String {
    let of = |system: &SystemRecord| {
        let own = fact(system, "git_version").is_some_and(|commit| build.contains(commit));
        let version = fact(system, "version").filter(|_| !own).map(|version| format!("version {version}"));
        let text = fact(system, "library").map(str::to_owned).or(version)?;
        Some(format!("{}: {text}", system.name))
    };
    systems.iter().filter_map(of).collect::<Vec<_>>().join("; ")
}

/// Returns the client drivers of the systems that name one.
fn drivers(systems: &[SystemRecord]) -> String {
    let said = systems.iter().filter_map(|system| Some((&system.name, system.about.get("driver")?.as_str()?)));
    said.map(|(name, driver)| format!("{name} by {driver}")).collect::<Vec<_>>().join("; ")
}

pub fn ending(ending: Ending) -> &'static str {
    match ending {
        Ending::Running => "not ended: still running, or the laboratory itself died",
        Ending::Complete => "complete",
        Ending::Partial => "partial: a system could not be measured to the end",
        Ending::Interrupted => "interrupted: what was measured until then is kept",
    }
}

/// Summarizes env.json's description of the machine in a line.
pub(crate) fn machine(environment: &Value) -> String {
    let text = |name: &str| environment.get(name)?.as_str().map(str::to_owned);
    let number = |name: &str| environment.get(name)?.as_u64();
    // the part in brackets is mount options
    let filesystem = text("filesystem").map(|text| text.split(" (").next().unwrap_or_default().to_owned());
    let device =
        filesystem.map(|system| text("device").map_or(system.clone(), |device| format!("{system} on {device}")));
    let disk = text("device_model").map(|model| format!("disk {model}"));
    let facts = [
        text("processor"),
        number("processors").map(|count| format!("{count} processors")),
        number("memory_bytes").map(|bytes| format!("{:.1} GB of memory", bytes as f64 / 1e9)),
        device,
        disk,
        text("kernel").map(|kernel| format!("Linux {kernel}")),
        text("load_average").map(|load| format!("load average before the run {load}")),
    ];
    facts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// A run that began while more of the processors was in use is no measurement to publish.
const BUSY_SHARE_MAX: f64 = 0.1;
/// Nor is one in which others used more during a step. The kernel's own threads for disk and network are among them.
const OTHERS_SHARE_MAX: f64 = 0.15;

/// Returns what a reader has to know before any number: how the run ended, a busy machine, a build for debugging.
pub(crate) fn warnings(run: &Run) -> Vec<String> {
    let ended = (run.record.ending != Ending::Complete).then(|| ending(run.record.ending).to_owned());
    ended.into_iter().chain(others(run)).chain(unfit(&run.environment, &run.record.arbor_version)).collect()
}

/// Returns a warning about the step in which programs other than the server and the generator used most of the processors.
fn others(run: &Run) -> Option<String> {
    let processors = run.environment.get("processors")?.as_f64()?;
    let steps = run.record.systems.iter().flat_map(|system| system.steps.iter().map(move |step| (system, step)));
    let share = |step: &StepRecord| {
        let (host, units, seconds) = (step.metric("cpu_percent")?, step.metric("units")?, step.metric("seconds")?);
        let own = step.metric("server_cpu_us_per_unit")? + step.metric("client_cpu_us_per_unit")?;
        Some(host / 100.0 - own * units / 1e6 / (seconds * processors))
    };
    let shares = steps.filter_map(|(system, step)| Some((system, step, share(step)?)));
    let (system, step, share) = shares.max_by(|a, b| a.2.total_cmp(&b.2))?;
    (share > OTHERS_SHARE_MAX).then(|| {
        let at = format!("{}, {}", system.name, super::grid::label_of_step(step));
        format!("the machine was busy: other programs used up to {:.0} % of its processors ({at})", share * 100.0)
    })
}

/// Returns the facts and warnings at the top of a page that is not of a run of steps.
pub(crate) fn heading_of(environment: &Value, started: &str) -> (Vec<(&'static str, String)>, Vec<String>) {
    let build = crate::build();
    let facts = vec![("started", started.to_owned()), ("machine", machine(environment)), ("arbor", build.to_owned())];
    (facts, unfit(environment, build).collect())
}

/// Returns machine, build and warnings in lines, for what prints tables only.
pub(crate) fn heading_text(environment: &Value) -> String {
    let started = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let (facts, warnings) = heading_of(environment, &started);
    let warnings = warnings.iter().map(|warning| format!("{:12}{warning}\n", "WARNING"));
    let facts = facts.iter().map(|(name, value)| format!("{name:12}{value}\n"));
    warnings.chain(facts).collect()
}

/// Returns why the numbers of this machine and build are not to be published.
fn unfit(environment: &Value, build: &str) -> impl Iterator<Item = String> + use<> {
    let busy = environment.get("busy_share").and_then(Value::as_f64).filter(|share| *share > BUSY_SHARE_MAX);
    let busy = busy.map(|share| {
        format!("the machine was busy: {:.0} % of its processors were in use before the run", share * 100.0)
    });
    let debug = build.split(", ").any(|part| part == "debug");
    let debug = debug.then(|| "a build for debugging: its speed says nothing".to_owned());
    [busy, debug].into_iter().flatten()
}

/// Returns the caveats for a reader of the tables.
pub(super) fn remarks(run: &Run) -> Vec<String> {
    let mut remarks = run.record.remarks.clone();
    remarks.extend(super::founding::beyond_echo(&run.record));
    for system in &run.record.systems {
        remarks.extend(system.failure.iter().map(|failure| format!("{}: ended early: {failure}", system.name)));
        remarks.extend(system.steps.iter().flat_map(|step| of_step(system, step)));
    }
    remarks
}

fn of_step(system: &SystemRecord, step: &StepRecord) -> Vec<String> {
    let at = format!("{}, {}", system.name, super::grid::label_of_step(step));
    let mut remarks: Vec<String> = step.marks.iter().map(|mark| format!("{at}: {mark}")).collect();
    remarks.extend(
        step.errors.iter().map(|error| format!("{at}: {} errors {}: {}", error.count, error.code, error.first)),
    );
    if step.interrupted {
        remarks.push(format!("{at}: interrupted"));
    }
    remarks
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn systems_are_named_with_what_drove_them() {
        let system = |name: &str, driver| SystemRecord {
            name: name.to_owned(),
            about: json!({ "driver": driver }),
            steps: Vec::new(),
            failure: None,
        };
        let systems =
            [system("ftree", Some("lean")), system("tcp-echo", None), system("ftree.official", Some("other"))];
        assert_eq!(drivers(&systems), "ftree by lean; ftree.official by other");
    }

    #[test]
    fn engines_are_named_as_what_ran_with_their_libraries() {
        let system = |about| SystemRecord { name: "lmdb".to_owned(), about, ..SystemRecord::default() };
        let aliased =
            system(json!({ "asked_for": "mmapv1", "library": "LMDB 0.9.70", "git_version": "12", "version": "7.0" }));
        assert_eq!(asked_name(&aliased), "lmdb (asked for as mmapv1)");
        assert_eq!(software(std::slice::from_ref(&aliased), "0.1.0, commit 12, release"), "lmdb: LMDB 0.9.70");
        let own = system(json!({ "git_version": "12", "version": "7.0" }));
        assert_eq!(software(std::slice::from_ref(&own), "0.1.0, commit 12, release"), "");
        assert_eq!(software(&[own], "0.1.0, commit 13, release"), "lmdb: version 7.0");
    }

    #[test]
    fn what_was_not_idle_is_said_first() {
        let said = |busy: f64, build: &str| unfit(&json!({ "busy_share": busy }), build).collect::<Vec<_>>().join("; ");
        assert_eq!(said(0.05, "0.1.0, commit 12, release, jemalloc"), "");
        assert_eq!(
            said(0.46, "0.1.0, commit 12, debug, jemalloc"),
            "the machine was busy: 46 % of its processors were in use before the run; a build for debugging: its speed says nothing"
        );
    }

    #[test]
    fn a_machine_in_a_line() {
        let environment = json!({
            "processor": "Xeon", "processors": 2, "memory_bytes": 25_276_502_016_u64, "filesystem": "ext4 (rw,relatime)",
            "device": "vda", "kernel": "6.18", "governor": null,
        });
        assert_eq!(machine(&environment), "Xeon, 2 processors, 25.3 GB of memory, ext4 on vda, Linux 6.18");
        assert_eq!(machine(&Value::Null), "");
    }
}
