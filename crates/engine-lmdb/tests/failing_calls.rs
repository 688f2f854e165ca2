//! Every call that writes, syncs or renames fails once, in turn, over a scripted scenario: an error or success, never a
//! panic, and the engine reopens at a prefix at or after the last checkpoint that returned.
//!
//! A binary of its own: the functions below take the place of those of libc for the whole process, so that LMDB (linked
//! statically) and std call them.
#![allow(unsafe_code, reason = "system calls are replaced by ones that fail")]

use std::cell::Cell;
use std::path::Path;

use arbor_base::{Position, TreeId};
use arbor_engine::model::ModelEngine;
use arbor_engine::{Batch, Engine, Error, Op, Result, TreeOptions};
use arbor_engine_contract::{Scratch, assert_same, rows_of};
use arbor_engine_lmdb::{LmdbEngine, LmdbOptions};
use libc::{c_char, c_int, c_long, c_void, iovec, off_t, size_t, ssize_t};

#[derive(Clone, Copy, Debug)]
enum Fault {
    /// The n-th call fails.
    Once(c_int),
    /// All calls from the n-th on fail, until the disk is repaired.
    From(c_int),
}

thread_local! {
    /// Calls still to go until the fault; `None`: calls are not counted.
    static COUNTDOWN: Cell<Option<u64>> = const { Cell::new(None) };
    static FAULT: Cell<Fault> = const { Cell::new(Fault::Once(0)) };
}

/// Counts a call; true if it must fail, with errno set.
fn fails() -> bool {
    let Some(left) = COUNTDOWN.get() else { return false };
    COUNTDOWN.set(Some(left.saturating_sub(1)));
    let errno = match FAULT.get() {
        Fault::Once(errno) if left == 1 => errno,
        Fault::From(errno) if left <= 1 => errno,
        _ => return false,
    };
    if left == 1 && matches!(FAULT.get(), Fault::Once(_)) {
        // Far enough never to fire again, and seen by the driver.
        COUNTDOWN.set(Some(0));
    }
    // SAFETY: errno belongs to the thread.
    unsafe { *libc::__errno_location() = errno };
    true
}

fn answer(result: c_long) -> c_long {
    result
}

// SAFETY (of all): the signatures are libc's, the arguments are handed on as they came.
#[unsafe(no_mangle)]
extern "C" fn pwrite(fd: c_int, bytes: *const c_void, count: size_t, offset: off_t) -> ssize_t {
    if fails() {
        return -1;
    }
    answer(unsafe { libc::syscall(libc::SYS_pwrite64, fd, bytes, count, offset) }) as ssize_t
}

#[unsafe(no_mangle)]
extern "C" fn pwrite64(fd: c_int, bytes: *const c_void, count: size_t, offset: off_t) -> ssize_t {
    pwrite(fd, bytes, count, offset)
}

#[unsafe(no_mangle)]
extern "C" fn write(fd: c_int, bytes: *const c_void, count: size_t) -> ssize_t {
    if fd > 2 && fails() {
        return -1;
    }
    answer(unsafe { libc::syscall(libc::SYS_write, fd, bytes, count) }) as ssize_t
}

#[unsafe(no_mangle)]
extern "C" fn writev(fd: c_int, vectors: *const iovec, count: c_int) -> ssize_t {
    if fd > 2 && fails() {
        return -1;
    }
    answer(unsafe { libc::syscall(libc::SYS_writev, fd, vectors, count) }) as ssize_t
}

#[unsafe(no_mangle)]
extern "C" fn fdatasync(fd: c_int) -> c_int {
    if fails() {
        return -1;
    }
    answer(unsafe { libc::syscall(libc::SYS_fdatasync, fd) }) as c_int
}

#[unsafe(no_mangle)]
extern "C" fn fsync(fd: c_int) -> c_int {
    if fails() {
        return -1;
    }
    answer(unsafe { libc::syscall(libc::SYS_fsync, fd) }) as c_int
}

#[unsafe(no_mangle)]
extern "C" fn ftruncate(fd: c_int, length: off_t) -> c_int {
    if fails() {
        return -1;
    }
    answer(unsafe { libc::syscall(libc::SYS_ftruncate, fd, length) }) as c_int
}

#[unsafe(no_mangle)]
extern "C" fn ftruncate64(fd: c_int, length: off_t) -> c_int {
    ftruncate(fd, length)
}

#[unsafe(no_mangle)]
extern "C" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    if fails() {
        return -1;
    }
    answer(unsafe { libc::syscall(libc::SYS_rename, from, to) }) as c_int
}

#[unsafe(no_mangle)]
extern "C" fn unlink(path: *const c_char) -> c_int {
    if fails() {
        return -1;
    }
    answer(unsafe { libc::syscall(libc::SYS_unlink, path) }) as c_int
}

const BULK: TreeId = TreeId(3);

fn bulk_rows() -> Vec<(Vec<u8>, Vec<u8>)> {
    (0..3000u32).map(|n| (n.to_be_bytes().to_vec(), vec![n as u8; 50])).collect()
}

/// The scenario on one directory.
struct Run<'d> {
    dir: &'d Path,
    engine: Option<LmdbEngine>,
    /// Every batch that was handed to the engine.
    batches: Vec<Batch>,
    /// Last checkpoint that returned.
    durable: Position,
    bulk_loaded: bool,
    bulk_durable: bool,
}

enum Step {
    Open,
    Apply(Vec<Vec<Op>>),
    Checkpoint,
    BulkLoad,
    Sweep,
}

fn put(tree: u64, key: impl AsRef<[u8]>, value: Vec<u8>) -> Op {
    Op::Put { tree: TreeId(tree), key: key.as_ref().to_vec(), value }
}

fn create(tree: u64) -> Op {
    Op::CreateTree { tree: TreeId(tree), options: TreeOptions::default() }
}

fn scenario() -> Vec<Step> {
    let puts = |tree: u64, range: std::ops::Range<u32>, length: usize| -> Vec<Op> {
        range.map(|n| put(tree, n.to_be_bytes(), vec![n as u8; length])).collect()
    };
    let delete = |n: u32| Op::Delete { tree: TreeId(1), key: n.to_be_bytes().to_vec() };
    let range = Op::DeleteRange { tree: TreeId(1), from: vec![0, 0, 0, 20], to: Some(vec![0, 0, 0, 90]) };
    vec![
        Step::Open,
        Step::Apply(vec![vec![create(1), create(2)], puts(1, 0..40, 100)]),
        Step::Checkpoint,
        Step::Apply(vec![puts(1, 40..120, 60), vec![put(2, "large", vec![7; 20_000])], (0..9).map(delete).collect()]),
        Step::Apply(vec![vec![put(2, vec![b'x'; 1700], vec![1; 10]), put(2, vec![b'x'; 1701], vec![2; 10])]]),
        Step::Apply(vec![vec![range]]),
        Step::Checkpoint,
        Step::Open,
        Step::Apply(vec![vec![create(BULK.0)]]),
        Step::BulkLoad,
        Step::Checkpoint,
        Step::Apply(vec![vec![Op::DropTree { tree: TreeId(1) }, put(2, "a", vec![3; 3000])]]),
        Step::Sweep,
        Step::Apply(vec![puts(2, 0..150, 80)]),
        Step::Checkpoint,
        Step::Open,
        Step::Apply(vec![vec![Op::DropTree { tree: TreeId(2) }, create(1)], puts(1, 0..9, 5000)]),
    ]
}

impl Run<'_> {
    fn engine(&self) -> &LmdbEngine {
        self.engine.as_ref().unwrap()
    }

    fn do_step(&mut self, step: &Step) -> Result<()> {
        match step {
            Step::Open => {
                self.engine = None;
                self.engine = Some(open(self.dir)?);
                let applied = self.engine().applied();
                assert!(applied >= self.durable, "{applied} {}", self.durable);
                // As recovery does: the log gives the engine what it lost.
                let lost: Vec<Batch> = self.batches.iter().filter(|b| b.position > applied).cloned().collect();
                self.engine().apply(&lost)
            }
            Step::Apply(groups) => {
                // A step that is tried again finds its batches made.
                let applied = self.engine().applied().0;
                let made = |n: usize| Position(applied + 1 + n as u64);
                let batch = |(n, ops): (usize, &Vec<Op>)| Batch { position: made(n), ops: ops.clone() };
                let batches: Vec<Batch> = groups.iter().enumerate().map(batch).collect();
                self.batches.retain(|batch| batch.position.0 <= applied);
                self.batches.extend(batches.iter().cloned());
                self.engine().apply(&batches)
            }
            Step::Checkpoint => {
                self.durable = self.engine().checkpoint()?;
                assert_eq!(self.durable, self.engine().applied());
                self.bulk_durable = self.bulk_loaded;
                Ok(())
            }
            Step::BulkLoad => {
                self.engine().bulk_load(BULK, &mut bulk_rows().into_iter())?;
                self.bulk_loaded = true;
                Ok(())
            }
            Step::Sweep => self.engine().sweep(),
        }
    }

    /// The state is that of the batches that it names.
    fn check(&self, engine: &LmdbEngine) {
        let applied = engine.applied();
        assert!(applied >= self.durable, "{applied} {}", self.durable);
        let model = ModelEngine::new();
        for batch in self.batches.iter().filter(|batch| batch.position <= applied) {
            model.apply(std::slice::from_ref(batch)).unwrap();
        }
        assert_eq!(model.applied(), applied);
        let bulk = rows_of(&*engine.snapshot().unwrap(), BULK);
        match bulk.map(|rows| rows.len()) {
            Some(0) => assert!(!self.bulk_durable),
            Some(rows) => {
                assert_eq!(rows, 3000);
                model.bulk_load(BULK, &mut bulk_rows().into_iter()).unwrap();
            }
            None => {}
        }
        assert_same(&model, engine, 0..4);
    }
}

fn open(dir: &Path) -> Result<LmdbEngine> {
    let options = LmdbOptions { map_bytes: 1 << 30, readers_max: 64, background: false, ..LmdbOptions::default() };
    LmdbEngine::open(dir, options)
}

/// Runs the scenario with a fault at the n-th call. Returns true if there was such a call.
fn run(fault: Fault, n: u64) -> bool {
    let scratch = Scratch::in_memory();
    let mut run = Run {
        dir: scratch.path(),
        engine: None,
        batches: Vec::new(),
        durable: Position::ZERO,
        bulk_loaded: false,
        bulk_durable: false,
    };
    FAULT.set(fault);
    COUNTDOWN.set(Some(n));
    for (number, step) in scenario().iter().enumerate() {
        let Err(error) = run.do_step(step) else { continue };
        let what = format!("{fault:?} at call {n}, step {number}: {error}");
        if let Some(engine) = &run.engine {
            // Reads continue in the state of before, also when LMDB could not write its meta page and gave up.
            assert!(engine.snapshot().is_ok(), "{what}, then no snapshot");
            run.check(engine);
        }
        if !continues(&mut run, step, &error, &what) {
            break;
        }
    }
    let fired = COUNTDOWN.replace(None).is_none_or(|left| left == 0);
    run.engine = None;
    let engine = open(run.dir).unwrap_or_else(|error| panic!("{fault:?} at call {n}: reopen: {error}"));
    run.check(&engine);
    engine.apply(&[Batch { position: engine.applied().next(), ops: vec![create(9), put(9, "a", vec![1])] }]).unwrap();
    engine.checkpoint().unwrap();
    fired
}

/// Returns true if the scenario continues after the error.
fn continues(run: &mut Run<'_>, step: &Step, error: &Error, what: &str) -> bool {
    // The disk is well again.
    if matches!(FAULT.get(), Fault::From(_)) {
        COUNTDOWN.set(None);
    }
    match error {
        Error::OutOfSpace { .. } => {}
        _ if run.engine.is_none() => {}
        _ => {
            let next = run.engine().apply(&[Batch { position: Position(1000), ops: vec![] }]);
            assert!(matches!(next, Err(Error::Poisoned { .. })), "{what}; a write after it: {next:?}");
            return false;
        }
    }
    match run.do_step(step) {
        Ok(()) => true,
        // The disk was full when LMDB wrote its meta page.
        Err(Error::Poisoned { .. }) => false,
        Err(again) => panic!("{what}; again: {again}"),
    }
}

fn every_call(fault: impl Fn(u64) -> Fault) {
    let calls = (1..).take_while(|&n| run(fault(n), n)).count();
    assert!(calls > 60, "only {calls} calls were seen");
}

#[test]
fn each_call_fails_once_with_eio() {
    every_call(|_| Fault::Once(libc::EIO));
}

#[test]
fn each_call_fails_once_with_enospc() {
    every_call(|_| Fault::Once(libc::ENOSPC));
}

#[test]
fn the_disk_fills_up_and_is_freed() {
    every_call(|_| Fault::From(libc::ENOSPC));
}
