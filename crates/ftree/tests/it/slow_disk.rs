//! A disk of a limited rate, or one that stalls now and then: writers go as fast as it does, no call is slowed for
//! longer than is promised, and what waits in memory stays within bounds.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use arbor_base::TreeId;
use arbor_disk::{Disk, FaultyDisk, File, Lock, OpenMode, Result};
use arbor_engine::{Batch, Engine, Op, TreeOptions};
use arbor_ftree::{Codec, Forest, Options, TreeSettings, check};

const TREE: TreeId = TreeId(1);
const MEMTABLE: u64 = 128 << 10;
const MEMORY: u64 = 8 << 20;
/// A group in a memtable, about.
const GROUP: u64 = 12 << 10;
/// `pace::SLEEP_MAX`.
const SLEEP_MAX: Duration = Duration::from_millis(50);

/// One device: its calls take turns.
#[derive(Debug)]
struct Device {
    bytes_per_second: u64,
    /// It stalls for 300 ms each time this many bytes went through.
    freeze_every: u64,
    turn: Mutex<u64>,
    busy_us: AtomicU64,
}

impl Device {
    fn transfer(&self, bytes: u64) {
        let mut done = self.turn.lock().unwrap();
        let before = *done;
        *done += bytes;
        let mut time = Duration::from_secs_f64(bytes as f64 / self.bytes_per_second as f64);
        if before / self.freeze_every != *done / self.freeze_every {
            time += Duration::from_millis(300);
        }
        std::thread::sleep(time);
        self.busy_us.fetch_add(time.as_micros() as u64, Ordering::Relaxed);
    }
}

#[derive(Clone, Debug)]
struct SlowDisk {
    inner: FaultyDisk,
    device: Arc<Device>,
}

#[derive(Debug)]
struct SlowFile {
    inner: Box<dyn File>,
    device: Arc<Device>,
}

impl Disk for SlowDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Box<dyn File>> {
        Ok(Box::new(SlowFile { inner: self.inner.open(path, mode)?, device: self.device.clone() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.inner.remove(path)
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.inner.list(dir)
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        self.inner.exists(path)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.inner.sync_dir(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        self.inner.create_dir_all(dir)
    }

    fn free_bytes(&self, dir: &Path) -> Result<u64> {
        self.inner.free_bytes(dir)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn Lock>> {
        self.inner.lock(path)
    }
}

impl File for SlowFile {
    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.device.transfer(buffer.len() as u64);
        self.inner.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.device.transfer(bytes.len() as u64);
        self.inner.write_at(bytes, offset)
    }

    fn len(&self) -> Result<u64> {
        self.inner.len()
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.inner.set_len(len)
    }

    fn sync_data(&self) -> Result<()> {
        self.inner.sync_data()
    }

    fn allocate(&self, offset: u64, len: u64) -> Result<()> {
        self.inner.allocate(offset, len)
    }

    fn punch_hole(&self, offset: u64, len: u64) -> Result<()> {
        self.inner.punch_hole(offset, len)
    }
}

fn options(disk: Arc<dyn Disk>) -> Options {
    Options {
        memtable_bytes: MEMTABLE,
        threads: 2,
        checkpoint_bytes: 1 << 20,
        checkpoint_interval_ms: 0,
        tree: TreeSettings { codec: Codec::None, leaf_bytes: 64 << 10, run_bytes: 8 << 10, ..TreeSettings::default() },
        ..Options::new(disk, MEMORY)
    }
}

fn batch(forest: &Forest, dice: &mut u64) -> Batch {
    let ops = (0..10).map(|_| {
        *dice = dice.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        Op::Put { tree: TREE, key: dice.to_be_bytes().to_vec(), value: vec![*dice as u8; 1000] }
    });
    Batch { position: forest.applied().next(), ops: ops.collect() }
}

struct Outcome {
    rows_per_second: f64,
    /// The part of the time that the device worked.
    busy: f64,
}

fn statistic(forest: &Forest, name: &str) -> u64 {
    let stats = forest.stats().unwrap();
    stats.counters.iter().find(|(other, _)| *other == name).map(|(_, count)| *count).unwrap()
}

/// Writes for some seconds. Bounds are of what the engine asks for: a busy machine may make any call longer.
fn write(seconds: f64, bytes_per_second: u64, freeze_every: u64) -> Outcome {
    let device = Device { bytes_per_second, freeze_every, turn: Mutex::default(), busy_us: AtomicU64::new(0) };
    let disk = SlowDisk { inner: FaultyDisk::new(), device: Arc::new(device) };
    let forest = Forest::open(Path::new("/data"), options(Arc::new(disk.clone()))).unwrap();
    let create = Op::CreateTree { tree: TREE, options: TreeOptions::default() };
    forest.apply(&[Batch { position: forest.applied().next(), ops: vec![create] }]).unwrap();
    let (begin, mut dice, mut calls, mut slept) = (Instant::now(), 1, 0, 0);
    let busy_before = disk.device.busy_us.load(Ordering::Relaxed);
    while begin.elapsed().as_secs_f64() < seconds {
        let next = batch(&forest, &mut dice);
        forest.wait_for_room();
        forest.apply(&[next]).unwrap();
        calls += 1;
        let sleep = statistic(&forest, "pacing sleep us")
            - std::mem::replace(&mut slept, statistic(&forest, "pacing sleep us"));
        assert!(sleep <= SLEEP_MAX.as_micros() as u64, "a call slept for {sleep} us");
        let memtables = statistic(&forest, "memtable bytes");
        assert!(memtables <= 2 * 4 * MEMTABLE + GROUP, "{memtables} bytes in memtables after {calls} calls");
        let pinned = statistic(&forest, "cache pinned bytes");
        assert!(pinned <= MEMORY, "{pinned} bytes cannot be evicted after {calls} calls");
        let beyond = statistic(&forest, "bytes beyond buffers");
        assert!(beyond <= 2 * 8 * MEMTABLE, "{beyond} bytes wait for flushes after {calls} calls");
    }
    let took = begin.elapsed().as_secs_f64();
    let busy = (disk.device.busy_us.load(Ordering::Relaxed) - busy_before) as f64 / 1e6 / took;
    forest.checkpoint().unwrap();
    drop(forest);
    let report = check::verify(Path::new("/data"), &options(Arc::new(disk.inner.clone()))).unwrap();
    assert!(report.is_clean(), "{report:?}");
    Outcome { rows_per_second: calls as f64 * 10.0 / took, busy }
}

#[test]
fn the_rate_follows_the_disk() {
    let slow = write(2.5, 2 << 20, u64::MAX);
    let fast = write(2.5, 8 << 20, u64::MAX);
    let ratio = fast.rows_per_second / slow.rows_per_second;
    // Four times would be it, but for what fits in memory at first and for the processors of a busy machine.
    assert!(ratio > 1.2, "{} and {} rows a second", slow.rows_per_second, fast.rows_per_second);
    assert!(slow.busy > 0.5, "the device worked for {} of the time", slow.busy);
}

#[test]
fn a_disk_that_stalls_now_and_then() {
    let outcome = write(2.5, 8 << 20, 4 << 20);
    assert!(outcome.rows_per_second > 100.0, "{} rows a second", outcome.rows_per_second);
}
