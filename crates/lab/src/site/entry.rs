//! The numbers of a run that the page compares.

use serde::Serialize;

use crate::report::{machine, run_warnings, step_places};
use crate::results::{Clock, Phase, Run, SystemRecord};

/// Facts about a run by which it is filtered.
#[derive(Clone, Debug)]
pub(super) struct RunFacts {
    pub experiment: String,
    pub scale: String,
    pub started: String,
    pub machine: String,
    /// Ten digits; `unknown` where the build does not name it.
    pub commit: String,
    pub warnings: Vec<String>,
}

/// Digits of a commit that are shown.
const COMMIT_DIGITS: usize = 10;

impl RunFacts {
    pub(super) fn of(run: &Run) -> RunFacts {
        let build = &run.record.arbor_version;
        let commit = build.split(", ").find_map(|part| part.strip_prefix("commit "));
        let commit = commit.map_or("unknown".to_owned(), |commit| {
            let modified = if commit.ends_with("-modified") { "*" } else { "" };
            commit.chars().take(COMMIT_DIGITS).collect::<String>() + modified
        });
        let name = |key: &str| run.environment.get(key).and_then(serde_json::Value::as_str);
        let machine = match (name("host"), machine(&run.environment)) {
            (Some(host), machine) => format!("{host}: {machine}"),
            (None, machine) => machine,
        };
        // the load is another one in each run, the machine is the same
        let machine = machine.split(", load average").next().unwrap_or_default().to_owned();
        RunFacts {
            experiment: run.record.experiment.clone(),
            scale: run.record.scale.clone(),
            started: run.record.started.clone(),
            machine,
            commit,
            warnings: run_warnings(run),
        }
    }
}

/// One system at one place of a run; of repeats their median.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Entry {
    pub run: usize,
    pub system: String,
    /// Step without its repeat; `load`, or `size` at the end.
    pub step: String,
    pub label: String,
    /// Begins with empty caches.
    pub cold: bool,
    /// Metrics: `rate` per second, `p99` in microseconds, `seconds` of a load or of a phase by time, `bytes`.
    pub rate: Option<f64>,
    pub p99: Option<f64>,
    pub seconds: Option<f64>,
    pub bytes: Option<f64>,
    /// The compression, in an entry about sizes.
    pub note: String,
}

/// Returns all entries of a run: its steps, loads and recoveries, and the size of each system at the end.
pub(super) fn entries(n: usize, run: &Run) -> Vec<Entry> {
    run.record.systems.iter().flat_map(|system| of_system(n, system)).collect()
}

fn of_system(n: usize, system: &SystemRecord) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut bytes = None;
    for place in step_places(system) {
        let median = |name: &str| place.median(|step| step.metric(name));
        bytes = median("du_bytes").or(median("storage_bytes")).or(bytes);
        let by_time = median("by_time") == Some(1.0);
        let seconds = match place.phase {
            Phase::Run => median("seconds").filter(|_| by_time),
            Phase::Load => place.median(|step| Some(step.end_s - step.begin_s)),
            Phase::Recovery => median("serve_s"),
        };
        entries.push(Entry {
            run: n,
            system: system.name.clone(),
            cold: place.name.contains("cold"),
            label: place.label.clone(),
            rate: median("per_second").filter(|_| !by_time && place.phase != Phase::Recovery),
            p99: place
                .median(|step| Some(step.latency(&step.unit, Clock::Service)?.p99))
                .filter(|_| place.phase == Phase::Run && !by_time),
            seconds,
            bytes: None,
            note: String::new(),
            step: place.name,
        });
    }
    if let Some(bytes) = bytes {
        let note = system.about.get("compression").and_then(serde_json::Value::as_str).unwrap_or_default();
        entries.push(Entry {
            run: n,
            system: system.name.clone(),
            step: "size".to_owned(),
            label: "size at the end".to_owned(),
            cold: false,
            rate: None,
            p99: None,
            seconds: None,
            bytes: Some(bytes),
            note: note.to_owned(),
        });
    }
    entries
}
