//! The phases that write.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arbor_engine::Op;
use parking_lot::Mutex;
use rand::rngs::SmallRng;

use super::PhaseStatistics;
use super::measure::{Clock, Tally, engine as engine_error};
use super::reading;
use super::rows::{Choice, Order, key, random, value};
use super::session::{Open, Session, TREE};
use crate::{Error, Result};

/// Shorter than a server's `--syncdelay 60`, because phases are.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(10);
/// Interval at which the log is trimmed up to what the engine made durable by itself.
const TRIM_INTERVAL: Duration = Duration::from_secs(1);
/// Puts per batch where nothing is measured.
const FILL_BATCH: usize = 1000;

fn put(row: u64, value: Vec<u8>) -> Op {
    Op::Put { tree: TREE, key: key(row).to_vec(), value }
}

impl Session<'_> {
    pub(super) fn load_sequential(&self) -> Result<PhaseStatistics> {
        let open = self.open_in("sequential", self.options.log)?;
        open.create()?;
        let (bytes, mut random) = (self.options.value_bytes, random(self.options.seed));
        let clock = Clock::start()?;
        let (tally, loaded) = self.batches(&open, &clock, self.options.rows, self.options.load_seconds, |_, n| {
            Ok(put(n, value(&mut random, bytes)))
        })?;
        open.checkpoint()?;
        let statistics = self.finish(clock, tally, "sequential", loaded);
        drop(open);
        let path = self.path("sequential");
        std::fs::remove_dir_all(&path).map_err(Error::file(&path))?;
        statistics
    }

    /// Loads all rows; those that find no time are put in key order afterwards and not measured.
    pub(super) fn load_random(&mut self, rows: u64, seconds: u64) -> Result<PhaseStatistics> {
        let (bytes, mut random, order) = (self.options.value_bytes, random(self.options.seed), Order::of(rows));
        let clock = Clock::start()?;
        let open = self.open()?;
        let (tally, loaded) =
            self.batches(open, &clock, rows, seconds, |_, n| Ok(put(order.row(n), value(&mut random, bytes))))?;
        let mut statistics = self.finish(clock, tally, "rows", loaded)?;
        if loaded < rows {
            statistics.note = format!("{loaded} rows in random order, the rest in key order");
            let rest = (0..rows).filter(|row| order.turn(*row) >= loaded);
            fill(open, rest.map(|row| put(row, value(&mut random, bytes))))?;
        }
        self.rows = rows;
        Ok(statistics)
    }

    pub(super) fn overwrite(&self) -> Result<PhaseStatistics> {
        let bytes = self.options.value_bytes;
        self.change(move |_, row, random| Ok(put(row, value(random, bytes))))
    }

    pub(super) fn read_modify_write(&self) -> Result<PhaseStatistics> {
        self.change(|open, row, _| {
            let snapshot = open.engine.snapshot().map_err(engine_error)?;
            let stored = snapshot.get(TREE, &key(row)).map_err(engine_error)?;
            let mut value = stored.map(|value| value.into_owned()).unwrap_or_default();
            if let Some(first) = value.first_mut() {
                *first = first.wrapping_add(1);
            }
            Ok(put(row, value))
        })
    }

    pub(super) fn increment(&self) -> Result<PhaseStatistics> {
        let one = 1u64.to_le_bytes();
        self.change(move |_, row, _| Ok(Op::Update { tree: TREE, key: key(row).to_vec(), update: one.to_vec() }))
    }

    /// Changes random rows in batches.
    fn change(&self, mut op: impl FnMut(&Open, u64, &mut SmallRng) -> Result<Op>) -> Result<PhaseStatistics> {
        let choice = Choice::of(self.options.rows, self.options.zipfian);
        let mut random = random(self.options.seed + 1);
        let open = self.open()?;
        let clock = Clock::start()?;
        let (tally, _) = self.batches(open, &clock, self.options.calls, self.options.seconds, |open, _| {
            let row = choice.row(&mut random);
            op(open, row, &mut random)
        })?;
        self.finish(clock, tally, "rows", self.rows)
    }

    /// Runs up to `count` operations in batches until the time is up. Returns how many there were.
    fn batches(
        &self,
        open: &Open,
        clock: &Clock,
        count: u64,
        seconds: u64,
        mut op: impl FnMut(&Open, u64) -> Result<Op>,
    ) -> Result<(Tally, u64)> {
        let mut tally = Tally::new(clock.begun);
        let until = clock.begun + Duration::from_secs(seconds);
        let mut next = 0;
        with_checkpoints(open, || {
            while next < count && Instant::now() < until {
                let end = (next + self.options.batch).min(count);
                tally.call(|| {
                    let ops = (next..end).map(|n| op(open, n)).collect::<Result<_>>()?;
                    open.apply(ops)?;
                    Ok(end - next)
                })?;
                next = end;
            }
            Ok(())
        })?;
        Ok((tally, next))
    }

    /// Gets and puts in turn. An engine takes batches from one thread at a time, so concurrent puts are combined.
    pub(super) fn mixed(&self, threads: usize) -> Result<PhaseStatistics> {
        let open = self.open()?;
        let combined = Combined::new(open);
        let bytes = self.options.value_bytes;
        let clock = Clock::start()?;
        let mut tally = Err(Error::Panicked);
        with_checkpoints(open, || {
            tally = self.calls(threads, self.options.calls, clock.begun, &|engine, row, n| match n % 2 {
                0 => reading::get(engine, &key(row)),
                _ => combined.put(put(row, value(&mut random(row ^ n), bytes))),
            });
            Ok(())
        })?;
        self.finish(clock, tally?, "rows", self.rows)
    }
}

/// Puts from many threads: the thread that gets the writer applies the operations of all.
struct Combined<'e> {
    open: &'e Open,
    /// Operations, and how many were ever handed in.
    waiting: Mutex<(Vec<Op>, u64)>,
    writer: Mutex<()>,
    applied: AtomicU64,
}

impl Combined<'_> {
    fn new(open: &Open) -> Combined<'_> {
        Combined { open, waiting: Mutex::default(), writer: Mutex::new(()), applied: AtomicU64::new(0) }
    }

    fn put(&self, op: Op) -> Result<u64> {
        let number = {
            let mut waiting = self.waiting.lock();
            waiting.0.push(op);
            waiting.1 += 1;
            waiting.1
        };
        let _writer = self.writer.lock();
        if self.applied.load(Ordering::Acquire) < number {
            let (ops, last) = {
                let mut waiting = self.waiting.lock();
                (std::mem::take(&mut waiting.0), waiting.1)
            };
            self.open.apply(ops)?;
            self.applied.store(last, Ordering::Release);
        }
        Ok(1)
    }
}

fn fill(open: &Open, mut ops: impl Iterator<Item = Op>) -> Result<()> {
    with_checkpoints(open, || {
        loop {
            let batch: Vec<Op> = ops.by_ref().take(FILL_BATCH).collect();
            if batch.is_empty() {
                return Ok(());
            }
            open.apply(batch)?;
        }
    })
}

/// Runs `work` concurrently with a thread that makes checkpoints and trims the log.
pub(super) fn with_checkpoints(open: &Open, work: impl FnOnce() -> Result<()>) -> Result<()> {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let checkpoints = scope.spawn(|| {
            let mut last = Instant::now();
            while !done.load(Ordering::Acquire) {
                std::thread::park_timeout(TRIM_INTERVAL);
                if done.load(Ordering::Acquire) {
                    break;
                }
                if last.elapsed() >= CHECKPOINT_INTERVAL {
                    open.checkpoint()?;
                    last = Instant::now();
                }
                open.trim()?;
            }
            Ok(())
        });
        let outcome = work();
        done.store(true, Ordering::Release);
        checkpoints.thread().unpark();
        outcome.and(checkpoints.join().unwrap_or(Err(Error::Panicked)))
    })
}
