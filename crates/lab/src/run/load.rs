//! The load: collections made or found, the workload's own streams of batches, indexes that come after.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::{Context, Interrupt, Interval, Recorder};
use crate::observe::{DiskUse, Observed, Sample, Usage, disk_use_of};
use crate::results::Phase;
use crate::target::{Failure, Session, Sizes, Statistics, Target};
use crate::workload::{Client, Found, Kind, Unit, Workload};
use crate::{Error, Result};

/// Result of a load.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub documents: u64,
    /// Begin on the run's clock.
    pub begin_s: f64,
    pub end_s: f64,
    pub threads: usize,
    pub usage: Usage,
    pub recorder: Recorder,
    /// Sizes before and after, as the server reports them.
    pub sizes: (Sizes, Sizes),
    /// The data directory after the load.
    pub disk: Option<DiskUse>,
    pub interrupted: bool,
    /// Why it ended before its end.
    pub failure: Option<String>,
}

impl Loaded {
    pub fn documents_per_second(&self) -> f64 {
        self.documents as f64 / self.usage.seconds.max(1e-9)
    }

    pub fn log_bytes_per_document(&self) -> Option<f64> {
        let (before, after) = (self.sizes.0.log_bytes?, self.sizes.1.log_bytes?);
        Some((after - before) / self.documents as f64)
    }
}

pub(super) fn failed(target: &dyn Target) -> impl Fn(Failure) -> Error {
    let name = target.name().to_owned();
    move |failure| Error::Usage(format!("{name}: {failure}"))
}

/// Creates the collections unless they exist. Returns true if they have to be loaded. Collections with other
/// contents are dropped only if `drop_existing`: they may belong to someone else.
pub fn prepare(target: &dyn Target, workload: &dyn Workload, drop_existing: bool) -> Result<bool> {
    let failed = failed(target);
    let mut session = target.connect()?;
    let collections = workload.collections();
    let found = find(&mut *session, workload).map_err(&failed)?;
    let loaded = collections.iter().zip(&found).all(|(expected, found)| expected.documents.contains(&found.documents));
    let empty = found.iter().all(|found| found.documents == 0);
    if loaded && !empty && !drop_existing {
        return Ok(false);
    }
    if !empty && !drop_existing {
        let differences = collections.iter().zip(&found).map(|(expected, found)| {
            format!("{}.{} holds {} documents", expected.database, expected.name, found.documents)
        });
        return Err(Error::Usage(format!(
            "{}: {}, which is not what this load makes; --drop replaces them",
            target.name(),
            differences.collect::<Vec<_>>().join(", ")
        )));
    }
    for collection in &collections {
        session.remove(collection).map_err(&failed)?;
        session.create(collection).map_err(&failed)?;
    }
    Ok(true)
}

fn find(session: &mut dyn Session, workload: &dyn Workload) -> std::result::Result<Vec<Found>, Failure> {
    workload.collections().iter().map(|collection| session.find(collection)).collect()
}

/// Passes the state of the collections to the workload.
pub fn resume(target: &dyn Target, workload: &dyn Workload) -> Result<()> {
    workload.resume(&find(&mut *target.connect()?, workload).map_err(failed(target))?);
    Ok(())
}

/// Loads all collections by the workload's streams. A load that fails halfway returns a result with the failure.
pub fn load(target: &dyn Target, workload: &dyn Workload, threads: usize, context: &mut Context<'_>) -> Result<Loaded> {
    let failed = failed(target);
    let mut sizer = target.connect()?;
    let before = sizer.sizes(workload.database()).map_err(&failed)?;
    let streams = workload.loaders(threads);
    let sessions = streams.iter().map(|_| target.connect()).collect::<Result<Vec<_>>>()?;
    let threads = streams.len();
    let interrupt = context.interrupt.clone();
    let loader = Loader { interrupt: &interrupt, slot: Mutex::default(), failure: Mutex::default() };
    let mut progress = Progress::begin(target, context)?;
    std::thread::scope(|scope| {
        let threads: Vec<_> = streams
            .into_iter()
            .zip(sessions)
            .map(|(stream, session)| {
                let loader = &loader;
                scope.spawn(move || loader.run(stream, session))
            })
            .collect();
        while !threads.iter().all(|thread| thread.is_finished()) {
            let end = progress.last.at() + Duration::from_secs(1);
            while Instant::now() < end && !threads.iter().all(|thread| thread.is_finished()) {
                std::thread::sleep(Duration::from_millis(10));
            }
            progress.interval(loader.drain(), threads.len(), context)?;
        }
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| Error::Panicked))
    })?;
    let mut failure = loader.failure.lock().take();
    for collection in workload.collections() {
        if failure.is_none() && !interrupt.is_set() {
            failure = sizer.create_late_indexes(&collection).err();
        }
    }
    progress.total.merge(&loader.drain());
    let now = Sample::take(&progress.observed)?;
    let after = sizer.sizes(workload.database()).unwrap_or_default();
    let Slot { documents, recorder } = progress.total;
    Ok(Loaded {
        documents,
        begin_s: context.seconds(progress.first.at()),
        end_s: context.seconds(now.at()),
        threads,
        usage: now.since(&progress.first),
        recorder,
        sizes: (before, after),
        disk: disk_use_of(target),
        interrupted: context.interrupt.is_set(),
        failure: failure.map(|failure| failure.to_string()),
    })
}

/// The side of a load that measures.
struct Progress {
    observed: Observed,
    first: Sample,
    last: Sample,
    total: Slot,
    statistics: Option<Box<dyn Statistics>>,
}

impl Progress {
    fn begin(target: &dyn Target, context: &Context<'_>) -> Result<Progress> {
        let observed = Observed::of_target(target);
        let first = Sample::take(&observed)?;
        debug_assert!(first.at() >= context.began);
        Ok(Progress { observed, first, last: first, total: Slot::default(), statistics: target.statistics() })
    }

    fn interval(&mut self, slot: Slot, clients: usize, context: &mut Context<'_>) -> Result<()> {
        self.total.merge(&slot);
        let now = Sample::take(&self.observed)?;
        let interval = Interval {
            system: context.system.to_owned(),
            step: context.step.to_owned(),
            phase: Phase::Load,
            clients,
            begin_s: context.seconds(self.last.at()),
            end_s: context.seconds(now.at()),
            elapsed: now.at() - self.first.at(),
            planned: Duration::ZERO,
            unit: Kind::INSERT_BATCH,
            unit_rows: 1,
            documents: slot.documents,
            recorder: slot.recorder,
            usage: now.since(&self.last),
            backlog: None,
            statistics: self.statistics.as_mut().map_or_else(Vec::new, |statistics| statistics.read()),
        };
        context.watch.interval(&interval);
        self.last = now;
        Ok(())
    }
}

#[derive(Default)]
struct Slot {
    recorder: Recorder,
    documents: u64,
}

impl Slot {
    fn merge(&mut self, other: &Slot) {
        self.recorder.merge(&other.recorder);
        self.documents += other.documents;
    }
}

struct Loader<'a> {
    interrupt: &'a Interrupt,
    slot: Mutex<Slot>,
    failure: Mutex<Option<Failure>>,
}

impl Loader<'_> {
    /// Runs one stream to its end; the first failure ends all of them.
    fn run(&self, mut stream: Box<dyn Client>, mut session: Box<dyn Session>) {
        let mut unit = Unit::Complete(&[]);
        while matches!(unit, Unit::Complete(_)) && !self.interrupt.is_set() && !self.has_failed() {
            unit = stream.unit(&mut |operation| {
                let begun = Instant::now();
                let outcome = session.execute(operation);
                let service = begun.elapsed().as_nanos() as u64;
                let answer = outcome.map_err(|failure| self.fail(failure)).ok()?;
                let mut slot = self.slot.lock();
                slot.recorder.record(operation.kind(), service, None);
                slot.documents += answer.rows;
                Some(answer)
            });
        }
    }

    fn has_failed(&self) -> bool {
        self.failure.lock().is_some()
    }

    fn fail(&self, failure: Failure) {
        self.failure.lock().get_or_insert(failure);
    }

    fn drain(&self) -> Slot {
        std::mem::take(&mut *self.slot.lock())
    }
}

/// Reads every document once, so that everything that fits is in memory.
pub fn scan(target: &dyn Target, workload: &dyn Workload, interrupt: &Interrupt) -> Result<u64> {
    let failed = failed(target);
    let mut documents = 0;
    for collection in workload.collections() {
        if interrupt.is_set() {
            break;
        }
        documents += target.connect()?.scan(&collection).map_err(&failed)?;
    }
    Ok(documents)
}
