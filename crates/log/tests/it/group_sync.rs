//! The group fsync seen from outside: appends continue while a sync runs, and one sync serves many waiters.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use arbor_base::Position;
use arbor_disk::{Disk, FaultyDisk, File, Lock, OpenMode, Result};
use arbor_log::{Log, LogOptions};

/// Holds every sync of a segment, when its work is done, until the gate is opened.
#[derive(Debug, Default)]
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct GateState {
    closed: bool,
    waiting: u64,
    passed: u64,
}

impl Gate {
    fn set_closed(&self, closed: bool) {
        self.state.lock().unwrap().closed = closed;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.waiting += 1;
        self.changed.notify_all();
        let mut state = self.changed.wait_while(state, |state| state.closed).unwrap();
        state.waiting -= 1;
        state.passed += 1;
    }

    fn wait_for_a_sync(&self) {
        drop(self.changed.wait_while(self.state.lock().unwrap(), |state| state.waiting == 0).unwrap());
    }

    fn passed(&self) -> u64 {
        self.state.lock().unwrap().passed
    }
}

#[derive(Clone, Debug, Default)]
struct GatedDisk {
    disk: FaultyDisk,
    gate: Arc<Gate>,
}

#[derive(Debug)]
struct GatedFile {
    file: Box<dyn File>,
    gate: Arc<Gate>,
}

impl Disk for GatedDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Box<dyn File>> {
        Ok(Box::new(GatedFile { file: self.disk.open(path, mode)?, gate: self.gate.clone() }))
    }
    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.disk.rename(from, to)
    }
    fn remove(&self, path: &Path) -> Result<()> {
        self.disk.remove(path)
    }
    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.disk.list(dir)
    }
    fn exists(&self, path: &Path) -> Result<bool> {
        self.disk.exists(path)
    }
    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.disk.sync_dir(dir)
    }
    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        self.disk.create_dir_all(dir)
    }
    fn free_bytes(&self, dir: &Path) -> Result<u64> {
        self.disk.free_bytes(dir)
    }
    fn lock(&self, path: &Path) -> Result<Box<dyn Lock>> {
        self.disk.lock(path)
    }
}

impl File for GatedFile {
    fn path(&self) -> &Path {
        self.file.path()
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.file.read_at(buffer, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.file.write_at(bytes, offset)
    }
    fn len(&self) -> Result<u64> {
        self.file.len()
    }
    fn set_len(&self, len: u64) -> Result<()> {
        self.file.set_len(len)
    }
    fn sync_data(&self) -> Result<()> {
        self.file.sync_data()?;
        if self.path().extension().is_some_and(|extension| extension == "log") {
            self.gate.pass();
        }
        Ok(())
    }
    fn allocate(&self, offset: u64, len: u64) -> Result<()> {
        self.file.allocate(offset, len)
    }
    fn punch_hole(&self, offset: u64, len: u64) -> Result<()> {
        self.file.punch_hole(offset, len)
    }
}

#[test]
fn appends_go_on_while_a_sync_runs_and_the_next_sync_serves_all_who_came_meanwhile() {
    let disk = GatedDisk::default();
    let options = LogOptions { commit_interval: Duration::MAX, ..LogOptions::default() };
    let log = &Log::open(Arc::new(disk.clone()), Path::new("/log"), options).unwrap();
    let first = log.append(&[b"first"]).unwrap();
    let before = disk.gate.passed();
    disk.gate.set_closed(true);
    std::thread::scope(|scope| {
        scope.spawn(move || log.wait_durable(first).unwrap());
        disk.gate.wait_for_a_sync();
        for n in 2..=20 {
            let position = log.append(&[b"meanwhile"]).unwrap();
            assert_eq!((position, log.durable()), (Position(n), Position(0)));
            scope.spawn(move || log.wait_durable(position).unwrap());
        }
        assert_eq!(log.read(Position(1)).count(), 20, "readers see what is not durable yet");
        disk.gate.set_closed(false);
    });
    assert_eq!(log.durable(), Position(20));
    assert_eq!(disk.gate.passed() - before, 2, "one sync for the first, one for all others");
}

#[test]
fn bytes_written_while_their_segment_is_synced_wait_for_the_next_sync() {
    let disk = GatedDisk::default();
    let options = LogOptions { segment_bytes: 100, commit_interval: Duration::MAX, ..LogOptions::default() };
    let log = &Log::open(Arc::new(disk.clone()), Path::new("/log"), options.clone()).unwrap();
    log.append(&[b"covered"]).unwrap();
    disk.gate.set_closed(true);
    std::thread::scope(|scope| {
        scope.spawn(move || log.wait_durable(Position(1)).unwrap());
        disk.gate.wait_for_a_sync();
        assert_eq!(log.stats().segments, 1);
        log.append(&[&[7; 600]]).unwrap();
        log.append(&[b"in the next segment"]).unwrap();
        assert_eq!(log.stats().segments, 2);
        disk.gate.set_closed(false);
    });
    assert_eq!(log.durable(), Position(1));
    log.wait_durable(Position(3)).unwrap();
    for seed in 0..50 {
        let image = Log::open(Arc::new(disk.disk.crash(seed)), Path::new("/log"), options.clone()).unwrap();
        assert_eq!(image.appended(), Position(3));
    }
}

/// A waiter whose record another thread's sync has made durable read the history before the listener knew, and missed the record.
#[test]
fn a_waiter_returns_when_the_listener_knows() {
    let log = Arc::new(Log::open(Arc::new(FaultyDisk::new()), Path::new("log"), LogOptions::default()).unwrap());
    let known = Arc::new(AtomicU64::new(0));
    let slowly = known.clone();
    log.on_sync(Arc::new(move |durable| {
        std::thread::sleep(Duration::from_millis(50));
        slowly.fetch_max(durable.0, Ordering::AcqRel);
        false
    }));
    for position in 1..=5 {
        log.append(&[b"x"]).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    log.wait_durable(Position(position)).unwrap();
                    assert!(known.load(Ordering::Acquire) >= position, "the listener does not know {position} yet");
                });
            }
        });
    }
}
