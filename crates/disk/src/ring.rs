//! Reads for which no thread waits: `io_uring`, one pair of queues for each processor that reads.
//!
//! [`start`] makes them, if the kernel has it and allows it. [`File::read_later`](crate::File::read_later) then adds a read to the
//! submission queue of the processor; when the first of those that were added is awaited, all are handed to the kernel with one
//! system call. When reads are complete the descriptor [`Rings::event`] becomes readable, and [`Rings::reap`] wakes the tasks that
//! await them. The kernel completes a read on the thread that submitted it, when that is in the kernel or wakes up there: threads
//! that submit should not block for long.
//!
//! **Invariants**
//! - R1: a buffer and its file live until the kernel has completed the read: they are in `slots` until then, also when the task
//!   that awaited it is gone.
//! - R2: at most [`READS_MAX`] reads of a ring are under way, which both of its queues have room for, so neither overflows.
//! - R3: only the holder of `state` touches the queues in memory.
//!
//! Lock order: `state` and the lock of an outcome are never held together.
//!
//! PERF: threads that submit to one ring wait for a lock of the kernel: docs/performance.md, "Reads without threads".

use std::fs;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};

use io_uring::{IoUring, Probe, opcode, types};
use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};
use rustix::thread::sched_getcpu;

use crate::Buffer;

/// Reads under way at once in each ring; further ones are not begun.
const READS_MAX: usize = 256;

static RINGS: OnceLock<Option<Rings>> = OnceLock::new();

/// Makes the rings of the process, for this many processors. Returns none if the kernel refuses: it is too old, or a
/// sandbox forbids it.
///
/// Requires: the caller calls [`Rings::reap`] from now on, or no read is ever complete.
pub fn start(threads: usize) -> Option<&'static Rings> {
    RINGS.get_or_init(|| Rings::new(threads).ok()).as_ref()
}

/// Returns the ring of the processor that this thread runs on, if there are rings: threads that run at once do not wait for the lock that the
/// kernel takes for a ring.
pub(crate) fn of_processor() -> Option<&'static Ring> {
    let rings = &RINGS.get()?.as_ref()?.rings;
    rings.get(sched_getcpu() % rings.len())
}

/// Reads under way in all rings.
pub struct Rings {
    rings: Box<[Ring]>,
    /// Counts completions; readable when there are some.
    event: OwnedFd,
}

/// Reads under way that were added on one processor, or on several where there are more of them than rings.
pub(crate) struct Ring {
    ring: IoUring,
    state: Mutex<State>,
}

struct State {
    /// R1. By the number that the kernel returns with the completion.
    slots: Vec<Option<Read>>,
    free: Vec<usize>,
}

/// One read under way.
struct Read {
    /// Keeps the descriptor open: the kernel looks it up when the read is submitted.
    _file: Arc<fs::File>,
    buffer: Buffer,
    /// The part of the buffer that was requested; what is read may end behind it.
    requested: Range<usize>,
    outcome: Arc<Outcome>,
}

#[derive(Default)]
struct Outcome {
    state: Mutex<OutcomeState>,
}

#[derive(Default)]
struct OutcomeState {
    is_complete: bool,
    /// None: it failed, the file is shorter, or the bytes were taken.
    bytes: Option<Buffer>,
    waker: Option<Waker>,
}

/// A read that begins when it is awaited, or another one of its ring is. Resolves to the bytes; to none if they could not be read:
/// `read_at` returns the reason.
pub struct ReadLater {
    outcome: Arc<Outcome>,
    /// The ring that it was added to, until it is awaited.
    added_to: Option<&'static Ring>,
}

impl Rings {
    fn new(threads: usize) -> io::Result<Rings> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let first = Ring::new(&event)?;
        // older kernels count the memory of rings as locked: as many as they allow
        let others = (1..threads).map_while(|_| Ring::new(&event).ok());
        Ok(Rings { rings: std::iter::once(first).chain(others).collect(), event })
    }

    /// Returns what becomes readable when reads are complete. It counts them, and need not be read by those that watch for edges.
    pub fn event(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// Takes completed reads and wakes the tasks that await them.
    pub fn reap(&self) {
        self.rings.iter().for_each(Ring::reap);
    }
}

impl Ring {
    fn new(event: &OwnedFd) -> io::Result<Ring> {
        // Linux 5.19: completions do not interrupt the thread that submitted, but wait until it enters the kernel
        let ring = IoUring::builder().setup_coop_taskrun().build(READS_MAX as u32);
        let ring = ring.or_else(|_| IoUring::new(READS_MAX as u32))?;
        let parameters = ring.params();
        let has_room = parameters.sq_entries() as usize >= READS_MAX && parameters.cq_entries() as usize >= READS_MAX;
        assert!(has_room, "R2: the kernel makes queues of the length that it was asked for");
        // Linux 5.6: reads into plain buffers
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        if !probe.is_supported(opcode::Read::CODE) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        ring.submitter().register_eventfd(event.as_raw_fd())?;
        let slots = (0..READS_MAX).map(|_| None).collect();
        let state = State { slots, free: (0..READS_MAX).collect() };
        Ok(Ring { ring, state: Mutex::new(state) })
    }

    /// Adds a read of a whole buffer, of which a part is requested. None: as many are under way as may be.
    pub(crate) fn read(
        &'static self,
        file: &Arc<fs::File>,
        offset: u64,
        mut buffer: Buffer,
        requested: Range<usize>,
    ) -> Option<ReadLater> {
        let bytes = u32::try_from(buffer.len()).ok()?;
        let outcome = Arc::<Outcome>::default();
        let mut state = self.state.lock();
        let at = state.free.pop()?;
        let read = opcode::Read::new(types::Fd(file.as_raw_fd()), buffer.as_mut_ptr(), bytes);
        let entry = read.offset(offset).build().user_data(at as u64);
        let slot = state.slots.get_mut(at).expect("R2: a free number is one of a slot");
        debug_assert!(slot.is_none(), "a free slot holds no read");
        *slot = Some(Read { _file: file.clone(), buffer, requested, outcome: outcome.clone() });
        // SAFETY: the lock makes this the only use of the submission queue (R3). The memory of the buffer, which moving the vector
        // does not move, and the descriptor stay valid until the read is complete (R1).
        let pushed = unsafe { self.ring.submission_shared().push(&entry) };
        assert!(pushed.is_ok(), "R2: the submission queue has room for all reads");
        Some(ReadLater { outcome, added_to: Some(self) })
    }

    /// Hands the reads that were added since the last call to the kernel. Errors: it takes none now; a later call has them as well.
    fn submit(&self) -> io::Result<()> {
        while self.has_added() {
            let taken = self.ring.submit()?;
            if taken == 0 && self.has_added() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
        }
        // what the page cache has is complete
        self.reap();
        Ok(())
    }

    fn has_added(&self) -> bool {
        let _state = self.state.lock();
        // SAFETY: the lock makes this the only use of the submission queue (R3).
        !unsafe { self.ring.submission_shared() }.is_empty()
    }

    fn reap(&self) {
        let mut completed = Vec::new();
        {
            let mut state = self.state.lock();
            // SAFETY: the lock makes this the only use of the completion queue (R3).
            let completions = unsafe { self.ring.completion_shared() };
            for entry in completions {
                let at = entry.user_data() as usize;
                let read =
                    state.slots.get_mut(at).and_then(Option::take).expect("R1: a read is kept until it is complete");
                state.free.push(at);
                completed.push((read, entry.result()));
            }
        }
        for (read, result) in completed {
            let Read { buffer, requested, outcome, .. } = read;
            let is_whole = usize::try_from(result).is_ok_and(|read| read >= requested.end);
            outcome.complete(is_whole.then(|| buffer.narrowed(requested)));
        }
    }
}

impl ReadLater {
    /// A read that is complete.
    pub(crate) fn complete(bytes: Option<Buffer>) -> ReadLater {
        let outcome = Arc::<Outcome>::default();
        outcome.complete(bytes);
        ReadLater { outcome, added_to: None }
    }
}

impl Outcome {
    fn complete(&self, bytes: Option<Buffer>) {
        let mut state = self.state.lock();
        (state.is_complete, state.bytes) = (true, bytes);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Future for ReadLater {
    type Output = Option<Buffer>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Buffer>> {
        if self.added_to.take().is_some_and(|ring| ring.submit().is_err()) {
            return Poll::Ready(None);
        }
        let mut state = self.outcome.state.lock();
        if state.is_complete {
            return Poll::Ready(state.bytes.take());
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::task::Context;

    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    use super::*;
    use crate::{Disk, OpenMode, RealDisk};

    fn poll_once(read: &mut ReadLater) -> Poll<Option<Buffer>> {
        Pin::new(read).poll(&mut Context::from_waker(Waker::noop()))
    }

    /// Completes all reads that were submitted.
    fn wait(rings: &Rings, read: &mut ReadLater) -> Option<Buffer> {
        loop {
            if let Poll::Ready(bytes) = poll_once(read) {
                return bytes;
            }
            let event = rings.event();
            poll(&mut [PollFd::new(&event, PollFlags::IN)], None).unwrap();
            rings.reap();
        }
    }

    fn free(ring: &Ring) -> usize {
        ring.state.lock().free.len()
    }

    /// Processors that the tests may run on.
    fn processors() -> Vec<usize> {
        let allowed = sched_getaffinity(None).unwrap();
        (0..CpuSet::MAX_CPU).filter(|processor| allowed.is_set(*processor)).collect()
    }

    /// Keeps this thread on one processor, so that it has one ring.
    fn stay_on(processor: usize) {
        let mut only = CpuSet::new();
        only.set(processor);
        sched_setaffinity(None, &only).unwrap();
        assert_eq!(sched_getcpu(), processor);
    }

    /// One test: the rings are those of the process.
    #[test]
    fn reads_give_what_the_file_has_and_the_ring_is_reused() {
        let processors = processors();
        stay_on(processors[0]);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let bytes: Vec<u8> = (0..64 * 4096u32).map(|at| (at / 7) as u8).collect();
        let file = RealDisk.open(&path, OpenMode::Create).unwrap();
        file.write_at(&bytes, 0).unwrap();
        assert!(file.read_later(0, 10).is_none(), "no ring was started");
        let Some(rings) = start(2) else { return println!("this kernel has no io_uring, or forbids it") };
        let ring = of_processor().unwrap();
        for round in 0..20 {
            let ranges = (0..100usize).map(|at| (at * 1237 + round, 1 + at * 31));
            let mut reads: Vec<_> =
                ranges.map(|(from, len)| (from, len, file.read_later(from as u64, len).unwrap())).collect();
            // tasks that are gone before their read begins, and before it is complete
            reads.drain(10..20);
            assert!(ring.has_added());
            let _gone = poll_once(&mut reads[15].2);
            assert!(!ring.has_added(), "one task that awaits its read submits all");
            reads.drain(10..20);
            for (from, len, read) in &mut reads {
                assert!(wait(rings, read).unwrap()[..] == bytes[*from..*from + *len], "{len} bytes at {from}");
            }
        }
        let mut beyond = file.read_later(64 * 4096 - 5, 10).unwrap();
        assert_eq!(wait(rings, &mut beyond).as_deref(), None, "fewer bytes than requested");
        while free(ring) < READS_MAX {
            rings.reap();
        }
        let other = || {
            let other = processors.iter().find(|other| (*other - processors[0]) % 2 == 1);
            stay_on(*other.unwrap_or(&processors[0]));
            let mut read = file.read_later(4096, 4096).unwrap();
            assert_eq!(ring.has_added(), other.is_none(), "another processor has another ring");
            wait(rings, &mut read)
        };
        let read = std::thread::scope(|scope| scope.spawn(other).join()).unwrap();
        assert!(read.unwrap()[..] == bytes[4096..8192]);
        let mut all: Vec<_> = std::iter::from_fn(|| file.read_later(0, 4096)).take(2 * READS_MAX).collect();
        assert_eq!((all.len(), free(ring)), (READS_MAX, 0), "R2");
        drop(file);
        std::fs::remove_file(&path).unwrap();
        assert!(all.iter_mut().all(|read| wait(rings, read).unwrap()[..] == bytes[..4096]), "R1: the file stays open");
        assert_eq!(free(ring), READS_MAX);
        let path = dir.path().join("g");
        std::fs::write(&path, &bytes[..3 * 4096]).unwrap();
        let Some(direct) = RealDisk.open_direct(&path, OpenMode::ReadWrite).unwrap() else {
            return println!("this file system has no direct I/O");
        };
        for (from, len) in [(0, 4096), (100, 5000), (4095, 2), (8192, 4096)] {
            let mut read = direct.read_later(from as u64, len).unwrap();
            assert!(wait(rings, &mut read).unwrap()[..] == bytes[from..from + len], "{len} bytes at {from}, direct");
        }
        direct.set_len(2 * 4096 + 512).unwrap();
        let mut last = direct.read_later(8000, 700).unwrap();
        assert!(wait(rings, &mut last).unwrap()[..] == bytes[8000..8700], "up to the end of the file");
        let mut beyond = direct.read_later(8000, 1000).unwrap();
        assert_eq!(wait(rings, &mut beyond).as_deref(), None, "fewer bytes than requested");
    }

    #[test]
    fn a_task_is_woken_once_its_read_is_complete() {
        struct Count(std::sync::atomic::AtomicU32);
        impl std::task::Wake for Count {
            fn wake(self: Arc<Count>) {
                self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            }
        }
        let outcome = Arc::<Outcome>::default();
        let mut read = ReadLater { outcome: outcome.clone(), added_to: None };
        let count = Arc::new(Count(0.into()));
        let waker = count.clone().into();
        assert!(Pin::new(&mut read).poll(&mut Context::from_waker(&waker)).is_pending());
        outcome.complete(Some(vec![7].into()));
        assert_eq!(count.0.load(std::sync::atomic::Ordering::SeqCst), 1);
        assert!(matches!(poll_once(&mut read), Poll::Ready(Some(bytes)) if bytes[..] == [7]));
    }
}
