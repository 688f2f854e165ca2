//! The phases, in order.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arbor_base::TreeId;
use arbor_engine::{Batch, Engine, Op, Snapshot, TreeOptions};
use rand::RngExt;

use super::measure::{Clock, Tally};
use super::rows::{key, missing_key, random, scattered, value};
use super::{KvEngine, KvOptions, Measured};
use crate::observe::disk_use;
use crate::{Error, Result};

const ASCENDING: TreeId = TreeId(11);
const SCATTERED: TreeId = TreeId(12);
const SCAN_ROWS: u64 = 100;
/// As under a server at `--syncdelay 60`, shorter because phases are.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(10);

pub(super) fn heading(options: &KvOptions) -> String {
    format!(
        "{} rows, keys of 8 bytes, values of {} (half zeros), batches of {}, seed {}",
        options.rows, options.value_bytes, options.batch, options.seed
    )
}

type Report<'r> = &'r mut dyn FnMut(&str, &Measured);

struct Bench<'b> {
    options: &'b KvOptions,
    engine: Arc<dyn Engine>,
    folder: &'b Path,
    report: Report<'b>,
}

pub(super) fn run_all(options: &KvOptions, engine: KvEngine, folder: &Path, report: Report<'_>) -> Result<()> {
    let open = || (engine.open)(folder).map_err(Error::Engine);
    let mut bench = Bench { options, engine: open()?, folder, report };
    bench.create(&[ASCENDING, SCATTERED])?;
    let rows = options.rows;
    bench.write("load-seq", ASCENDING, rows, |n, _| n)?;
    bench.write("load-rand", SCATTERED, rows, move |n, _| scattered(n, rows))?;
    bench.write("overwrite", SCATTERED, options.reads, move |_, below| below(rows))?;
    bench.read_modify_write()?;
    for threads in options.threads.clone() {
        bench.read(&format!("get x{threads}"), threads, |snapshot, n| get(snapshot, &key(n)))?;
    }
    bench.read("get-missing", 1, |snapshot, n| get(snapshot, &missing_key(n)))?;
    bench.read("scan-100", 1, |snapshot, n| scan(snapshot, SCATTERED, &key(n), SCAN_ROWS))?;
    bench.once("scan-full", |engine| scan(&*engine.snapshot()?, SCATTERED, &[], u64::MAX))?;
    bench.delete_range()?;
    bench.once("checkpoint", |engine| engine.checkpoint().map(|_| 1))?;
    let Bench { engine: running, report, .. } = bench;
    drop(running);
    let clock = Clock::start()?;
    let mut tally = Tally::new(clock.begun);
    let reopened = open()?;
    tally.call(|| Ok(1))?;
    drop(reopened);
    report("reopen", &clock.stop(tally, disk_use(folder).actual_bytes)?);
    Ok(())
}

fn get(snapshot: &dyn Snapshot, key: &[u8]) -> arbor_engine::Result<u64> {
    std::hint::black_box(snapshot.get(SCATTERED, key)?);
    Ok(1)
}

/// Reads up to `limit` rows from a key on and answers how many there were.
fn scan(snapshot: &dyn Snapshot, tree: TreeId, from: &[u8], limit: u64) -> arbor_engine::Result<u64> {
    let mut cursor = snapshot.cursor(tree)?;
    let (mut rows, mut bytes) = (0, 0);
    let mut stands = cursor.seek(from)?;
    while stands && rows < limit {
        bytes += cursor.value().len();
        rows += 1;
        stands = cursor.next()?;
    }
    std::hint::black_box(bytes);
    Ok(rows)
}

fn apply(engine: &dyn Engine, ops: Vec<Op>) -> arbor_engine::Result<()> {
    engine.apply(&[Batch { position: engine.applied().next(), ops }])
}

impl Bench<'_> {
    fn create(&self, trees: &[TreeId]) -> Result<()> {
        let ops = trees.iter().map(|tree| Op::CreateTree { tree: *tree, options: TreeOptions::default() }).collect();
        apply(&*self.engine, ops).map_err(|error| Error::Engine(error.to_string()))
    }

    fn finish(&mut self, name: &str, clock: Clock, tally: Tally) -> Result<()> {
        let measured = clock.stop(tally, disk_use(self.folder).actual_bytes)?;
        (self.report)(name, &measured);
        Ok(())
    }

    /// One call, which answers how many operations it was.
    fn once(&mut self, name: &str, call: impl FnOnce(&dyn Engine) -> arbor_engine::Result<u64>) -> Result<()> {
        let clock = Clock::start()?;
        let mut tally = Tally::new(clock.begun);
        tally.call(|| call(&*self.engine))?;
        self.finish(name, clock, tally)
    }

    /// `count` puts in batches; `pick` chooses the n-th row, with a source of random numbers below a bound.
    fn write(
        &mut self,
        name: &str,
        tree: TreeId,
        count: u64,
        pick: impl Fn(u64, &mut dyn FnMut(u64) -> u64) -> u64,
    ) -> Result<()> {
        let (bytes, mut random) = (self.options.value_bytes, random(self.options.seed));
        self.batches(name, count, |_, n| {
            let row = pick(n, &mut |bound| random.random_range(0..bound));
            Ok(Op::Put { tree, key: key(row).to_vec(), value: value(&mut random, bytes) })
        })
    }

    fn read_modify_write(&mut self) -> Result<()> {
        let (rows, mut random) = (self.options.rows, random(self.options.seed + 1));
        self.batches("rmw", self.options.reads, |engine, _| {
            let key = key(random.random_range(0..rows)).to_vec();
            let mut value =
                engine.snapshot()?.get(SCATTERED, &key)?.map(|value| value.into_owned()).unwrap_or_default();
            if let Some(first) = value.first_mut() {
                *first = first.wrapping_add(1);
            }
            Ok(Op::Put { tree: SCATTERED, key, value })
        })
    }

    fn batches(
        &mut self,
        name: &str,
        count: u64,
        mut op: impl FnMut(&dyn Engine, u64) -> arbor_engine::Result<Op>,
    ) -> Result<()> {
        let clock = Clock::start()?;
        let mut tally = Tally::new(clock.begun);
        let engine = self.engine.clone();
        with_checkpoints(&*engine, || {
            let mut next = 0;
            while next < count {
                let end = (next + self.options.batch).min(count);
                tally.call(|| {
                    let ops = (next..end).map(|n| op(&*engine, n)).collect::<arbor_engine::Result<_>>()?;
                    apply(&*engine, ops)?;
                    Ok(end - next)
                })?;
                next = end;
            }
            Ok(())
        })?;
        self.finish(name, clock, tally)
    }

    /// `reads` calls at random rows, shared by the threads; a snapshot each, as a point query has.
    fn read(
        &mut self,
        name: &str,
        threads: usize,
        call: impl Fn(&dyn Snapshot, u64) -> arbor_engine::Result<u64> + Sync,
    ) -> Result<()> {
        let clock = Clock::start()?;
        let (engine, options, begun) = (&*self.engine, self.options, clock.begun);
        let one = |thread: usize| {
            let (mut tally, mut random) = (Tally::new(begun), random(options.seed + 100 + thread as u64));
            for _ in 0..options.reads / threads as u64 {
                let row = random.random_range(0..options.rows);
                tally.call(|| call(&*engine.snapshot()?, row))?;
            }
            Ok(tally)
        };
        let tallies: Vec<Result<Tally>> = std::thread::scope(|scope| {
            let one = &one;
            let running: Vec<_> = (0..threads).map(|thread| scope.spawn(move || one(thread))).collect();
            running.into_iter().map(|thread| thread.join().unwrap_or(Err(Error::Panicked))).collect()
        });
        let mut sum = Tally::new(begun);
        for tally in tallies {
            sum.add(tally?);
        }
        self.finish(name, clock, sum)
    }

    fn delete_range(&mut self) -> Result<()> {
        let tenth = self.options.rows / 10;
        let (from, to) = (key(tenth * 4).to_vec(), Some(key(tenth * 5).to_vec()));
        self.once("delete-range", |engine| {
            apply(engine, vec![Op::DeleteRange { tree: SCATTERED, from, to }])?;
            Ok(tenth)
        })
    }
}

/// Runs `work` beside a thread that makes checkpoints.
fn with_checkpoints(engine: &dyn Engine, work: impl FnOnce() -> Result<()>) -> Result<()> {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let checkpoints = scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                std::thread::park_timeout(CHECKPOINT_INTERVAL);
                if !done.load(Ordering::Acquire) {
                    engine.checkpoint().map_err(|error| Error::Engine(error.to_string()))?;
                }
            }
            Ok(())
        });
        let outcome = work();
        done.store(true, Ordering::Release);
        checkpoints.thread().unpark();
        outcome.and(checkpoints.join().unwrap_or(Err(Error::Panicked)))
    })
}
