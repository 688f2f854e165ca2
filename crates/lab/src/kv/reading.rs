//! The phases that read.

use std::time::{Duration, Instant};

use super::PhaseStatistics;
use super::measure::{Clock, Tally, engine as engine_error};
use super::rows::{Choice, key, random};
use super::session::{SCAN_ROWS, Session, TREE};
use crate::{Error, Result};
use arbor_engine::Engine;

/// Calls between two checks of the clock.
const CALLS_PER_LOOK: u64 = 64;

pub(super) fn get(engine: &dyn Engine, key: &[u8]) -> Result<u64> {
    let snapshot = engine.snapshot().map_err(engine_error)?;
    std::hint::black_box(snapshot.get(TREE, key).map_err(engine_error)?);
    Ok(1)
}

pub(super) fn scan_some(engine: &dyn Engine, row: u64) -> Result<u64> {
    scan(engine, &key(row), SCAN_ROWS)
}

/// Reads up to `limit` rows from a key on and returns how many there were.
pub(super) fn scan(engine: &dyn Engine, from: &[u8], limit: u64) -> Result<u64> {
    let read = || {
        let snapshot = engine.snapshot()?;
        let mut cursor = snapshot.cursor(TREE)?;
        let (mut rows, mut bytes) = (0, 0);
        let mut positioned = cursor.seek(from)?;
        while positioned && rows < limit {
            bytes += cursor.value().len();
            rows += 1;
            positioned = rows < limit && cursor.next()?;
        }
        std::hint::black_box(bytes);
        Ok(rows)
    };
    read().map_err(engine_error)
}

impl Session<'_> {
    /// Calls at random rows, shared by the threads, until their number or time is up.
    pub(super) fn read(
        &self,
        threads: usize,
        call: impl Fn(&dyn Engine, u64) -> Result<u64> + Sync,
    ) -> Result<PhaseStatistics> {
        let clock = Clock::start()?;
        let tally =
            self.calls(threads, self.options.calls, clock.begun, &|engine, random_row, _| call(engine, random_row))?;
        self.finish(clock, tally, "rows", self.rows)
    }

    /// A tenth of the calls, so that what is read by every get is in the caches.
    pub(super) fn warm(&self, threads: usize) -> Result<()> {
        let get = |engine: &dyn Engine, row, _| get(engine, &key(row));
        self.calls(threads, self.options.calls / 10, Instant::now(), &get).map(drop)
    }

    /// `call` gets a random row and the number of its thread's call.
    pub(super) fn calls(
        &self,
        threads: usize,
        count: u64,
        begun: Instant,
        call: &(impl Fn(&dyn Engine, u64, u64) -> Result<u64> + Sync),
    ) -> Result<Tally> {
        let (engine, options) = (&*self.open()?.engine, self.options);
        let until = begun + Duration::from_secs(options.seconds);
        let one = |thread: usize| {
            let (mut tally, mut random) = (Tally::new(begun), random(options.seed + 100 + thread as u64));
            let choice = Choice::of(options.rows, options.zipfian);
            for n in 0..count / threads as u64 {
                let row = choice.row(&mut random);
                tally.call(|| call(engine, row, n))?;
                if n % CALLS_PER_LOOK == 0 && Instant::now() >= until {
                    break;
                }
            }
            Ok(tally)
        };
        if threads == 1 {
            return one(0);
        }
        let tallies: Vec<Result<Tally>> = std::thread::scope(|scope| {
            let one = &one;
            let running: Vec<_> = (0..threads).map(|thread| scope.spawn(move || one(thread))).collect();
            running.into_iter().map(|thread| thread.join().unwrap_or(Err(Error::Panicked))).collect()
        });
        let mut sum = Tally::new(begun);
        for tally in tallies {
            sum.add(tally?);
        }
        Ok(sum)
    }
}
