//! Messages between a laboratory and a generator.

use std::collections::BTreeMap;
use std::ops::Range;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::run::{Latencies, Ramp, Recorder};
use crate::target::Driver;
use crate::workload::{Mode, Workload, build};

/// The clients of a step that a generator runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Task {
    /// `[NAME=]URI`
    pub target: String,
    pub driver: Driver,
    /// Name of the workload, with all of its settings.
    pub workload: String,
    pub is_compat: bool,
    pub settings: Map<String, Value>,
    /// Numbers of these clients among all of the step.
    pub numbers: Range<usize>,
    pub of: usize,
    pub seed: u64,
    /// Rate of these clients alone, and whether its gaps are those of a Poisson process.
    pub rate: Option<(Ramp, bool)>,
    pub connections_per_thread: usize,
}

impl Task {
    pub(super) fn workload(&self) -> Result<Box<dyn Workload>, String> {
        let mode = if self.is_compat { Mode::Compat } else { Mode::Fixed };
        let workload = build(&self.workload, mode, &self.settings)?;
        match workload.is_divisible() && self.numbers.end <= self.of && !self.numbers.is_empty() {
            true => Ok(workload),
            false => Err(format!("clients {:?} of {} of {} cannot be elsewhere", self.numbers, self.of, self.workload)),
        }
    }
}

/// Reply to a task whose clients are connected.
#[derive(Serialize, Deserialize)]
pub(super) struct Ready {
    pub ready: bool,
}

/// Reply that says why a step cannot be.
#[derive(Serialize, Deserialize)]
pub(super) struct Refused {
    pub error: String,
}

/// Operations that clients elsewhere have done since they were last asked.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Recording {
    /// Histograms by kind, in the compressed form of HdrHistogram: service times, and response times if there is a rate.
    kinds: BTreeMap<String, (String, Option<String>)>,
    errors: Vec<(String, u64, String)>,
    misses: u64,
    /// Operations that are due and not begun.
    pub backlog: Option<f64>,
}

impl Recording {
    pub(super) fn of(recorder: &Recorder, backlog: Option<f64>) -> std::io::Result<Recording> {
        let mut taken = Recording { misses: recorder.misses(), backlog, ..Recording::default() };
        for (kind, latencies) in recorder.kinds() {
            let response = latencies.response.as_ref().map(encoded).transpose()?;
            taken.kinds.insert(kind.name().to_owned(), (encoded(&latencies.service)?, response));
        }
        let errors = recorder.errors().map(|(code, count, message)| (code.to_owned(), count, message.to_owned()));
        taken.errors = errors.collect();
        Ok(taken)
    }

    /// Returns what was recorded. Kinds that the workload does not have are left out.
    pub(super) fn recorder(&self, workload: &dyn Workload) -> std::io::Result<Recorder> {
        let mut recorder = Recorder::default();
        for kind in workload.kinds() {
            let Some((service, response)) = self.kinds.get(kind.name()) else { continue };
            let response = response.as_deref().map(decoded).transpose()?;
            recorder.add(*kind, &Latencies { service: decoded(service)?, response });
        }
        self.errors.iter().for_each(|(code, count, message)| recorder.errors_of(code, *count, message));
        recorder.misses_of(self.misses);
        Ok(recorder)
    }
}

fn encoded(histogram: &Histogram<u64>) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(histogram, &mut bytes).map_err(std::io::Error::other)?;
    Ok(STANDARD.encode(bytes))
}

fn decoded(text: &str) -> std::io::Result<Histogram<u64>> {
    let bytes = STANDARD.decode(text).map_err(std::io::Error::other)?;
    Deserializer::new().deserialize(&mut bytes.as_slice()).map_err(std::io::Error::other)
}
