//! Clients that repeat one piece of work as fast as they can.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::work::{Acknowledged, Work, Worker};
use crate::observe::cpu_seconds;
use crate::target::Target;
use crate::target::mongodb::MongoDb;
use crate::{Error, Result};

pub(super) struct LoadStatistics {
    pub seconds: f64,
    /// Nanoseconds of each piece of work.
    pub times: Histogram<u64>,
    /// Processor time of the server.
    pub cpu_seconds: Option<f64>,
}

impl LoadStatistics {
    pub(super) fn per_second(&self) -> f64 {
        self.times.len() as f64 / self.seconds
    }

    pub(super) fn micros_at(&self, quantile: f64) -> f64 {
        self.times.value_at_quantile(quantile) as f64 / 1e3
    }

    pub(super) fn cpu_micros(&self) -> Option<f64> {
        self.cpu_seconds.map(|seconds| seconds * 1e6 / self.times.len().max(1) as f64)
    }
}

/// Nanoseconds up to an hour. One that grows would clamp what `saturating_record` is given to its first bound.
pub(super) fn histogram() -> Histogram<u64> {
    Histogram::new_with_max(3_600_000_000_000, 3).expect("the bounds and three digits are allowed")
}

/// Clients in a closed loop. `first` numbers them, so that no two runs write the same documents.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub work: Work,
    pub acknowledged: Acknowledged,
    pub clients: u32,
    pub first: u32,
    pub time: Duration,
}

pub(super) fn run(target: &MongoDb, load: Load) -> Result<LoadStatistics> {
    let failed = |source| Error::Client { server: target.name().to_owned(), source };
    let mut workers = Vec::new();
    for number in load.first..load.first + load.clients {
        let mut worker = Worker::new(target.client()?, number, load.acknowledged);
        worker.prepare().map_err(failed)?;
        workers.push(worker);
    }
    let ready = Barrier::new(workers.len());
    let cpu = || target.process().and_then(|process| cpu_seconds(process).ok());
    let (begun, before) = (Instant::now(), cpu());
    let each: Vec<_> = std::thread::scope(|scope| {
        let repeat = |worker: Worker| scope.spawn(|| repeat(worker, load.work, load.time, &ready));
        let threads: Vec<_> = workers.into_iter().map(repeat).collect();
        threads.into_iter().map(|thread| thread.join().map_err(|_| Error::Panicked)).collect()
    });
    let (seconds, after) = (begun.elapsed().as_secs_f64(), cpu());
    let mut times = histogram();
    for own in each {
        times += own?.map_err(failed)?;
    }
    Ok(LoadStatistics { seconds, times, cpu_seconds: after.zip(before).map(|(after, before)| after - before) })
}

fn repeat(
    mut worker: Worker,
    work: Work,
    time: Duration,
    ready: &Barrier,
) -> std::result::Result<Histogram<u64>, arbor_client::ClientError> {
    ready.wait();
    let (mut times, end) = (histogram(), Instant::now() + time);
    loop {
        let begun = Instant::now();
        if begun >= end {
            return Ok(times);
        }
        worker.run(work)?;
        times.saturating_record(begun.elapsed().as_nanos() as u64);
    }
}
