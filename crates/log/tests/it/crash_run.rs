//! One seeded run: random work on a faulty disk, a crash at a random call, reopening, comparison with the list of what
//! was acknowledged; several times in a row on the surviving image. Used by the tests and by the example `log_crash_images`.
//!
//! Checked after each crash:
//! 1. every record that was acknowledged as durable is there, with its bytes;
//! 2. what survives is a first part of what was appended, in order, and nothing else: no record of an append that
//!    answered an error comes back;
//! 3. a killed process (no power cut) loses nothing;
//! 4. trimmed segments stay away, records that were not trimmed stay;
//! 5. records that were cut off stay away once the cut has ended, and every record has the epoch it was appended in.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arbor_base::{Position, Random};
use arbor_disk::{Fault, FaultyDisk};
use arbor_log::{Error, Log, LogOptions};

const DIR: &str = "/db/log";

/// Event counts of a run, to show that the runs are not all alike.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Coverage {
    pub crashes: u64,
    pub records_acknowledged: u64,
    pub records_lost: u64,
    pub crashes_while_opening: u64,
    pub poisoned: u64,
    pub out_of_space: u64,
    pub trims: u64,
    pub cuts: u64,
    pub records_cut: u64,
    pub epochs: u64,
}

impl Coverage {
    pub(crate) fn add(&mut self, other: Coverage) {
        self.crashes += other.crashes;
        self.records_acknowledged += other.records_acknowledged;
        self.records_lost += other.records_lost;
        self.crashes_while_opening += other.crashes_while_opening;
        self.poisoned += other.poisoned;
        self.out_of_space += other.out_of_space;
        self.trims += other.trims;
        self.cuts += other.cuts;
        self.records_cut += other.records_cut;
        self.epochs += other.epochs;
    }
}

struct Run {
    seed: u64,
    random: Random,
    disk: FaultyDisk,
    options: LogOptions,
    /// Payload of position n at index n - 1: everything that may be in the log.
    history: Vec<Vec<u8>>,
    /// Epoch of each record of the history.
    epochs: Vec<u64>,
    /// Epoch of the next record.
    epoch: u64,
    /// Positions up to here were acknowledged as durable.
    durable: u64,
    /// Smallest position that must still be readable.
    kept_from: u64,
    coverage: Coverage,
}

/// Panics with the seed when a property does not hold.
pub(crate) fn run(seed: u64) -> Coverage {
    let mut random = Random::new(seed);
    let segment_bytes = [1, 300, 1500, 6000][random.below(4) as usize];
    let options = LogOptions { segment_bytes, commit_interval: Duration::MAX, ..LogOptions::default() };
    let (disk, history, coverage) = (FaultyDisk::new(), Vec::new(), Coverage::default());
    let epochs = Vec::new();
    let mut run = Run { seed, random, disk, options, history, epochs, epoch: 1, durable: 0, kept_from: 1, coverage };
    for _ in 0..1 + run.random.below(4) {
        run.arm();
        let log = run.work();
        run.crash(log);
    }
    run.coverage
}

impl Run {
    fn open(&self) -> Result<Log, Error> {
        Log::open(Arc::new(self.disk.clone()), Path::new(DIR), self.options.clone())
    }

    /// Chooses when the power fails, and perhaps a failing call before that.
    fn arm(&mut self) {
        let calls = [20, 60, 150][self.random.below(3) as usize];
        self.disk.stop_after(self.random.below(calls));
        let fault = [Fault::Io, Fault::OutOfSpace, Fault::ShortWrite][self.random.below(3) as usize];
        if self.random.chance(1, 2) {
            self.disk.fail_nth(self.random.below(calls), fault);
        }
    }

    /// Random calls until the power fails.
    fn work(&mut self) -> Option<Log> {
        let Ok(log) = self.open() else {
            self.coverage.crashes_while_opening += 1;
            return None;
        };
        self.check(&log, "opened for work");
        self.epoch = newest_epoch(&log);
        for _ in 0..150 {
            let outcome = match self.random.below(15) {
                0..6 => self.append(&log),
                6..10 => self.wait_durable(&log),
                10 => self.trim(&log),
                11 => log.prepare_segment(),
                12 => self.begin_epoch(&log),
                13 => self.cut_behind(&log),
                _ => self.read_some(&log),
            };
            match outcome {
                Ok(()) => {}
                Err(Error::Poisoned { .. }) => {
                    self.coverage.poisoned += 1;
                    assert!(matches!(log.append(&[b"x"]), Err(Error::Poisoned { .. })), "seed {}", self.seed);
                    break;
                }
                Err(Error::OutOfSpace { .. }) => self.coverage.out_of_space += 1,
                Err(Error::Io(_)) => {}
                Err(error) => panic!("seed {}: {error}", self.seed),
            }
        }
        if self.random.chance(1, 4) && log.close().is_ok() {
            self.acknowledge(log.appended().0);
        }
        Some(log)
    }

    fn append(&mut self, log: &Log) -> Result<(), Error> {
        let before = log.appended().0;
        assert_eq!(before as usize, self.history.len(), "seed {}", self.seed);
        for _ in 0..1 + self.random.below(4) {
            let largest = [10, 100, 1500][self.random.below(3) as usize];
            let length = self.random.below(largest) as usize;
            self.history.push(self.random.bytes(length));
        }
        self.epochs.resize(self.history.len(), self.epoch);
        let payloads: Vec<&[u8]> = self.history[before as usize..].iter().map(Vec::as_slice).collect();
        let outcome = log.append(&payloads);
        match &outcome {
            Ok(last) => assert_eq!(last.0 as usize, self.history.len(), "seed {}", self.seed),
            // The power failed or the log is poisoned: the group was not acknowledged, parts of it may survive.
            Err(Error::Poisoned { .. }) => {}
            Err(_) => {
                self.history.truncate(before as usize);
                self.epochs.truncate(before as usize);
            }
        }
        outcome.map(drop)
    }

    fn wait_durable(&mut self, log: &Log) -> Result<(), Error> {
        let (durable, appended) = (log.durable().0, log.appended().0);
        let position = durable + self.random.below(appended - durable + 1);
        log.wait_durable(Position(position))?;
        assert!(log.durable().0 >= position);
        self.acknowledge(log.durable().0);
        Ok(())
    }

    fn acknowledge(&mut self, durable: u64) {
        self.coverage.records_acknowledged += durable - self.durable;
        self.durable = durable;
    }

    fn trim(&mut self, log: &Log) -> Result<(), Error> {
        let before = self.random.below(log.appended().0 + 2);
        self.kept_from = self.kept_from.max(before.min(log.durable().0));
        self.coverage.trims += 1;
        log.trim(Position(before))
    }

    fn begin_epoch(&mut self, log: &Log) -> Result<(), Error> {
        let epoch = self.epoch + 1 + self.random.below(2);
        log.begin_epoch(epoch)?;
        assert!(matches!(log.begin_epoch(0), Err(Error::StaleEpoch { .. })), "seed {}", self.seed);
        assert_eq!(newest_epoch(log), epoch, "seed {}", self.seed);
        self.epoch = epoch;
        self.coverage.epochs += 1;
        Ok(())
    }

    fn cut_behind(&mut self, log: &Log) -> Result<(), Error> {
        let (first, appended) = (log.first().0, log.appended().0);
        let last = first - 1 + self.random.below(appended + 2 - first);
        // Whether the cut ends or not, what is behind it need not survive.
        self.durable = self.durable.min(last);
        self.kept_from = self.kept_from.min(last + 1);
        log.cut_behind(Position(last))?;
        assert!(log.appended().0 == last && log.durable().0 <= last, "seed {}", self.seed);
        self.coverage.cuts += 1;
        self.coverage.records_cut += appended - last;
        self.history.truncate(last as usize);
        self.epochs.truncate(last as usize);
        self.epoch = newest_epoch(log);
        Ok(())
    }

    fn read_some(&mut self, log: &Log) -> Result<(), Error> {
        let from = log.first().0 + self.random.below(log.appended().0 + 1);
        for record in log.read(Position(from)).take(5) {
            let (position, payload) = record?;
            assert_eq!(payload, self.history[position.0 as usize - 1], "seed {}", self.seed);
        }
        Ok(())
    }

    fn crash(&mut self, log: Option<Log>) {
        let appended = log.as_ref().map(|log| log.appended().0);
        drop(log);
        self.coverage.crashes += 1;
        let killed = self.random.chance(1, 8);
        self.disk = if killed { self.disk.kill_process() } else { self.disk.crash(self.random.next_u64()) };
        let log = self.open().unwrap_or_else(|error| panic!("seed {}: {error}", self.seed));
        self.check(&log, "after the crash");
        if let Some(appended) = appended.filter(|_| killed) {
            assert!(log.appended().0 >= appended, "seed {}: a killed process lost records", self.seed);
        }
        let last = log.appended().0;
        self.coverage.records_lost += self.history.len() as u64 - last;
        self.history.truncate(last as usize);
        self.epochs.truncate(last as usize);
        self.acknowledge(last);
    }

    fn check(&self, log: &Log, when: &str) {
        let (seed, first, last) = (self.seed, log.first().0, log.appended().0);
        assert!(last >= self.durable, "seed {seed}: {when}: ends at {last}, {} was durable", self.durable);
        assert!(last as usize <= self.history.len(), "seed {seed}: {when}: ends at {last}, more than was appended");
        assert!(first <= self.kept_from, "seed {seed}: {when}: begins at {first}, {} must be kept", self.kept_from);
        assert_eq!(log.durable().0, last, "seed {seed}: {when}");
        let mut expect = first;
        for record in log.read(Position(first)) {
            // The power may fail during this very check.
            let Ok((position, payload)) = record else { return };
            assert_eq!(position.0, expect, "seed {seed}: {when}");
            assert!(payload == self.history[expect as usize - 1], "seed {seed}: {when}: record {expect} differs");
            let epoch = self.epochs[expect as usize - 1];
            assert_eq!(log.epoch_at(position), Some(epoch), "seed {seed}: {when}: epoch of record {expect}");
            expect += 1;
        }
        assert_eq!(expect, last + 1, "seed {seed}: {when}: records are missing");
    }
}

fn newest_epoch(log: &Log) -> u64 {
    log.epochs().begins().last().map_or(0, |(epoch, _)| *epoch)
}
