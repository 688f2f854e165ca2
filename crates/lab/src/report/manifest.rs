//! run.json: the record that other figures are compared with (spec/workloads.md 1.5).

use hdrhistogram::Histogram;
use serde_json::{Map, Value, json};

use super::{Outcome, SystemResult};
use crate::observe::{DiskUse, Usage, processors};
use crate::run::{Latencies, Loaded, Recorder, Step};
use crate::target::Sizes;
use crate::workload::Kind;

/// The whole outcome.
pub fn manifest(outcome: &Outcome) -> Value {
    json!({
        "experiment": outcome.experiment,
        "unit": outcome.unit.name(),
        "parameters": outcome.parameters,
        "started": outcome.started,
        "ended": outcome.ended,
        "interrupted": outcome.interrupted,
        "client_placement": "same host as the server, one blocking connection per client thread",
        "machine": machine(),
        "systems": outcome.systems.iter().map(|each| system(outcome, each)).collect::<Vec<Value>>(),
    })
}

fn machine() -> Value {
    let first_line = |path: &str| {
        std::fs::read_to_string(path).ok().and_then(|text| text.lines().next().map(|line| line.trim().to_owned()))
    };
    let processor = std::fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("model name"))?;
        line.split_once(':').map(|(_, name)| name.trim().to_owned())
    });
    json!({
        "processors": processors(),
        "processor": processor,
        "memory": first_line("/proc/meminfo"),
        "kernel": first_line("/proc/sys/kernel/osrelease"),
    })
}

fn system(outcome: &Outcome, system: &SystemResult) -> Value {
    json!({
        "name": system.name,
        "about": system.about,
        "load": system.load.as_ref().map(load),
        "steps": system.steps.iter().map(|each| step(outcome, each)).collect::<Vec<Value>>(),
        "sizes": system.sizes.map(sizes),
        "disk": system.disk.map(disk),
        "failure": system.failure,
    })
}

fn load(load: &Loaded) -> Value {
    json!({
        "documents": load.documents,
        "threads": load.threads,
        "documents_per_second": load.documents_per_second(),
        "log_bytes_per_document": load.log_bytes_per_document(),
        "usage": usage(&load.usage),
        "sizes_before": sizes(load.sizes.0),
        "sizes_after": sizes(load.sizes.1),
        "disk_after": load.disk.map(disk),
        "latency_us": latencies(&load.recorder, &[Kind::INSERT_BATCH]),
        "interrupted": load.interrupted,
    })
}

fn step(outcome: &Outcome, step: &Step) -> Value {
    json!({
        "clients": step.clients,
        "per_second": step.rate(),
        "cpu_per_unit": step.cpu_per_unit(),
        "context_switches_per_unit": step.context_switches_per_unit(),
        "generator_share_of_processors": step.client_share(),
        "usage": usage(&step.usage),
        "backlog": step.backlog,
        "misses": step.recorder.misses(),
        "errors": errors(&step.recorder),
        "latency_us": latencies(&step.recorder, &outcome.kinds),
        "interrupted": step.interrupted,
    })
}

fn usage(usage: &Usage) -> Value {
    json!({
        "seconds": usage.seconds,
        "cpu_user_percent": usage.user_percent,
        "cpu_system_percent": usage.system_percent,
        "context_switches": usage.context_switches,
        "server_cpu_s": usage.server_cpu_s,
        "client_cpu_s": usage.client_cpu_s,
    })
}

fn disk(disk: DiskUse) -> Value {
    json!({ "actual_bytes": disk.actual_bytes, "apparent_bytes": disk.apparent_bytes })
}

fn sizes(sizes: Sizes) -> Value {
    json!({
        "documents": sizes.documents,
        "data_bytes": sizes.data_bytes,
        "storage_bytes": sizes.storage_bytes,
        "index_bytes": sizes.index_bytes,
        "log_bytes": sizes.log_bytes,
        "engine_bytes": sizes.engine_bytes,
        "engine_free_bytes": sizes.engine_free_bytes,
    })
}

fn errors(recorder: &Recorder) -> Value {
    recorder.errors().map(|(code, count, first)| json!({ "code": code, "count": count, "first": first })).collect()
}

fn latencies(recorder: &Recorder, kinds: &[Kind]) -> Value {
    let mut all = Map::new();
    for kind in kinds {
        if let Some(latencies) = recorder.latencies(*kind) {
            let response = latencies.response.as_ref().map(quantiles);
            all.insert(
                kind.name().to_owned(),
                json!({ "service": quantiles(&latencies.service), "response": response }),
            );
        }
    }
    Value::Object(all)
}

fn quantiles(histogram: &Histogram<u64>) -> Value {
    let mut all = Map::new();
    all.insert("count".to_owned(), histogram.len().into());
    all.extend(Latencies::summary(histogram).map(|(name, value)| (name.to_owned(), value.into())));
    Value::Object(all)
}
