//! The load: each table by exactly one thread, batches in `_id` order (spec/workloads.md 2.3).

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{Interrupt, Interval, Recorder, Watch};
use crate::observe::{DiskUse, Sample, Usage, disk_use};
use crate::target::{Failure, Session, Sizes, Target};
use crate::workload::{Kind, Mode, Rows, Shape};
use crate::{Error, Result};

/// What a load brought.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub documents: u64,
    pub batch: usize,
    pub threads: usize,
    pub usage: Usage,
    pub recorder: Recorder,
    /// Before and after, as the server says.
    pub sizes: (Sizes, Sizes),
    /// The data folder after the load.
    pub disk: Option<DiskUse>,
    pub interrupted: bool,
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

fn failed(target: &dyn Target) -> impl Fn(Failure) -> Error {
    let name = target.name().to_owned();
    move |failure| Error::Usage(format!("{name}: {failure}"))
}

/// Makes the tables, or finds that they are there. True when they have to be loaded. Tables with other contents are
/// dropped only when `drop_existing` says so: the server may be somebody's.
pub fn prepare_tables(target: &dyn Target, shape: Shape, drop_existing: bool) -> Result<bool> {
    let failed = failed(target);
    let mut session = target.connect()?;
    let mut counts = Vec::new();
    for table in 1..=shape.tables {
        counts.push(session.count_rows(table).map_err(&failed)?);
    }
    if !drop_existing && counts.iter().all(|count| *count > 0 && count.abs_diff(shape.rows.into()) <= 1000) {
        return Ok(false);
    }
    if !drop_existing && counts.iter().any(|count| *count > 0) {
        return Err(Error::Usage(format!(
            "{}: the tables sbtest1.. hold {counts:?} documents where {} are needed; --drop replaces them",
            target.name(),
            shape.rows
        )));
    }
    for table in 1..=shape.tables {
        session.drop_table(table).map_err(&failed)?;
        session.create_table(table).map_err(&failed)?;
    }
    Ok(true)
}

/// Loads all tables, up to `threads` at the same time.
pub fn load_tables(
    target: &dyn Target,
    shape: Shape,
    batch: usize,
    threads: usize,
    mode: Mode,
    interrupt: &Interrupt,
    watch: &mut dyn Watch,
) -> Result<Loaded> {
    let threads = threads.clamp(1, shape.tables.max(1) as usize);
    let failed = failed(target);
    let mut sizer = target.connect()?;
    let before = sizer.sizes().map_err(&failed)?;
    let sessions = (0..threads).map(|_| target.connect()).collect::<Result<Vec<_>>>()?;
    // The original rounds down to whole batches.
    let rows = if mode == Mode::Compat { shape.rows / batch as u32 * batch as u32 } else { shape.rows };
    let loader = Loader {
        shape,
        rows,
        batch,
        next_table: AtomicU32::new(1),
        interrupt,
        slot: Mutex::default(),
        failure: Mutex::default(),
    };
    let first = Sample::take(target.process())?;
    let mut total = Recorder::default();
    let mut last = first;
    std::thread::scope(|scope| {
        let threads: Vec<_> = sessions.into_iter().map(|session| scope.spawn(|| loader.run(session))).collect();
        while !threads.iter().all(|thread| thread.is_finished()) {
            let end = last.at() + Duration::from_secs(1);
            while Instant::now() < end && !threads.iter().all(|thread| thread.is_finished()) {
                std::thread::sleep(Duration::from_millis(10));
            }
            let recorder = loader.drain();
            total.merge(&recorder);
            let now = Sample::take(target.process())?;
            let (elapsed, usage) = (now.at() - first.at(), now.since(&last));
            let interval = Interval {
                phase: "load",
                clients: threads.len(),
                elapsed,
                planned: Duration::ZERO,
                unit: Kind::InsertBatch,
                recorder,
                usage,
                backlog: None,
            };
            watch.interval(target.name(), &interval);
            last = now;
        }
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| Error::Panicked))
    })?;
    total.merge(&loader.drain());
    let usage = Sample::take(target.process())?.since(&first);
    if let Some(failure) = loader.failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return Err(failed(failure));
    }
    let documents = total.count(Kind::InsertBatch) * batch as u64;
    let documents = documents.min(u64::from(rows) * u64::from(shape.tables));
    let after = sizer.sizes().map_err(&failed)?;
    let interrupted = interrupt.is_set();
    let disk = target.folder().map(disk_use);
    Ok(Loaded { documents, batch, threads, usage, recorder: total, sizes: (before, after), disk, interrupted })
}

struct Loader<'a> {
    shape: Shape,
    rows: u32,
    batch: usize,
    next_table: AtomicU32,
    interrupt: &'a Interrupt,
    slot: Mutex<Recorder>,
    failure: Mutex<Option<Failure>>,
}

impl Loader<'_> {
    fn run(&self, mut session: Box<dyn Session>) {
        loop {
            let table = self.next_table.fetch_add(1, Ordering::Relaxed);
            if table > self.shape.tables || self.interrupt.is_set() {
                return;
            }
            if let Err(failure) = self.load(table, &mut *session) {
                *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
                return;
            }
        }
    }

    fn load(&self, table: u32, session: &mut dyn Session) -> std::result::Result<(), Failure> {
        let mut rows = Rows::of_table(table, self.shape).take(self.rows as usize);
        let mut batch = Vec::with_capacity(self.batch);
        loop {
            batch.clear();
            batch.extend(rows.by_ref().take(self.batch));
            if batch.is_empty() || self.interrupt.is_set() {
                return Ok(());
            }
            let begun = Instant::now();
            session.insert_rows(table, &batch)?;
            let service = begun.elapsed().as_nanos() as u64;
            self.slot.lock().unwrap_or_else(PoisonError::into_inner).record(Kind::InsertBatch, service, None);
        }
    }

    fn drain(&self) -> Recorder {
        std::mem::take(&mut *self.slot.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Reads every row once, so that everything that fits is in memory.
pub fn scan_tables(target: &dyn Target, shape: Shape, interrupt: &Interrupt) -> Result<u64> {
    let failed = failed(target);
    let mut rows = 0;
    for table in 1..=shape.tables {
        if interrupt.is_set() {
            break;
        }
        rows += target.connect()?.scan_table(table).map_err(&failed)?;
    }
    Ok(rows)
}
