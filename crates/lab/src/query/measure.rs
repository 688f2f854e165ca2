//! Running one shape: a warm run, then as many as fit into the time; the median is reported.

use std::time::{Duration, Instant};

use arbor_bson::{DocBuf, ValueRef};
use arbor_client::{Client, ClientError};

use super::dataset::{self, DATABASE};
use super::profile::{Profile, Shares};
use super::shape::{Counts, Shape};
use crate::observe::cpu_seconds;

/// Runs of one shape at most.
const RUNS_MAX: usize = 2000;

#[derive(Clone, Debug, Default)]
pub(super) struct ShapeStatistics {
    pub seconds: f64,
    /// Processor time of the server per run, where its process is known.
    pub cpu_seconds: Option<f64>,
    pub runs: usize,
    /// Documents that came back.
    pub returned: u64,
    pub documents: u64,
    /// Leaf stage of the plan: `IXSCAN k`, `COLLSCAN`.
    pub plan: String,
    /// The plan scans the collection although an index could serve the query.
    pub scans: bool,
    pub shares: Option<Shares>,
    /// Why it could not be run.
    pub failure: Option<String>,
}

impl ShapeStatistics {
    pub(super) fn per_second(&self) -> f64 {
        self.documents as f64 / self.seconds.max(1e-9)
    }
}

/// Measuring time of one shape, and the process to profile.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    pub measured: Duration,
    /// Process of the server, if it is on this machine.
    pub process: Option<u32>,
    pub profiled: bool,
}

pub(super) fn measure(client: &mut Client, shape: &Shape, pace: Pace) -> ShapeStatistics {
    match try_measure(client, shape, pace) {
        Ok(statistics) => statistics,
        Err(error) => ShapeStatistics { failure: Some(error.to_string()), ..ShapeStatistics::default() },
    }
}

fn try_measure(client: &mut Client, shape: &Shape, pace: Pace) -> Result<ShapeStatistics, ClientError> {
    let plan = explained(client, shape)?;
    let mut returned = once(client, shape)?.1;
    let profile = pace.process.filter(|_| pace.profiled).and_then(Profile::start);
    let cpu = || pace.process.and_then(|pid| cpu_seconds(pid).ok());
    let cpu_before = cpu();
    let (mut times, begun) = (Vec::new(), Instant::now());
    while times.is_empty() || (begun.elapsed() < pace.measured && times.len() < RUNS_MAX) {
        let (seconds, documents) = once(client, shape)?;
        returned = documents;
        times.push(seconds);
    }
    let used = cpu().zip(cpu_before).map(|(after, before)| (after - before) / times.len() as f64);
    let shares = profile.and_then(Profile::finish);
    times.sort_by(f64::total_cmp);
    let documents = match shape.counts {
        Counts::Returned => returned,
        Counts::Documents(count) => count,
    };
    let seconds = times.get(times.len() / 2).copied().unwrap_or_default();
    let scans = plan.contains("COLLSCAN") && !shape.scans;
    Ok(ShapeStatistics {
        seconds,
        cpu_seconds: used,
        runs: times.len(),
        returned,
        documents,
        plan,
        scans,
        shares,
        failure: None,
    })
}

/// Time and documents of one run.
fn once(client: &mut Client, shape: &Shape) -> Result<(f64, u64), ClientError> {
    if shape.refills {
        dataset::refill(client)?;
    }
    let begun = Instant::now();
    let returned = match shape.verb() {
        "find" | "aggregate" => client.find(DATABASE, &shape.command, |_| {})? as u64,
        _ => {
            let reply = client.command(DATABASE, &shape.command)?;
            if let Some(error) = reply.first_write_error() {
                return Err(error);
            }
            match reply.doc.get("values") {
                Some(ValueRef::Array(values)) => values.iter().count() as u64,
                _ => reply.number("n").unwrap_or_default() as u64,
            }
        }
    };
    Ok((begun.elapsed().as_secs_f64(), returned))
}

/// The leaves of the winning plan, each with its index.
fn explained(client: &mut Client, shape: &Shape) -> Result<String, ClientError> {
    let explain = DocBuf::new().with("explain", &shape.command).with("verbosity", "queryPlanner");
    let reply = client.command(DATABASE, &explain)?;
    let mut leaves: Vec<String> = Vec::new();
    collect(ValueRef::Document(reply.doc), &mut leaves);
    leaves.dedup();
    Ok(leaves.join(" "))
}

/// Stages without input, in whatever nesting the server shows them.
fn collect(value: ValueRef<'_>, leaves: &mut Vec<String>) {
    match value {
        ValueRef::Document(stage) => {
            let inner = stage.get("inputStage").or_else(|| stage.get("inputStages"));
            if let (Some(ValueRef::String(name)), None) = (stage.get("stage"), inner) {
                leaves.push(match stage.get("indexName") {
                    Some(ValueRef::String(index)) => format!("{name} {index}"),
                    _ => name.to_owned(),
                });
            }
            let fields = stage.iter().filter(|(name, _)| !matches!(*name, "rejectedPlans" | "command" | "parsedQuery"));
            fields.for_each(|(_, field)| collect(field, leaves));
        }
        ValueRef::Array(stages) => stages.iter().for_each(|stage| collect(stage, leaves)),
        _ => {}
    }
}
