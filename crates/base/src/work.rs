//! The work of the statement that this thread runs, for the slow query log and the profiler. Counted where it is done, without a
//! parameter through every call; a statement runs on one thread.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use parking_lot::Mutex;

/// Counts of one statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Entries of indexes that were examined.
    pub keys_examined: u64,
    /// Documents that were examined.
    pub documents_examined: u64,
    /// Collections that were scanned whole.
    pub collection_scans: u64,
    /// Rows were sorted in memory.
    pub sorted: bool,
    /// Temporary files that sorts, groups and the like wrote.
    pub spills: u64,
    /// Reads of files by this thread, for what no cache held.
    pub reads: u64,
    pub read_bytes: u64,
    pub read_micros: u64,
    /// Entries of indexes that were added.
    pub keys_inserted: u64,
    /// Entries of indexes that were removed.
    pub keys_deleted: u64,
    /// Times that the statement began again because of another write.
    pub write_conflicts: u64,
}

thread_local!(static WORK: Cell<Work> = const { Cell::new(
    Work {
        keys_examined: 0, documents_examined: 0, collection_scans: 0, sorted: false, spills: 0, reads: 0, read_bytes: 0,
        read_micros: 0, keys_inserted: 0, keys_deleted: 0, write_conflicts: 0,
    }
) });

/// The work of a statement that is still running, for other threads. Statements that end soon leave it empty.
#[derive(Default)]
pub struct Running(Mutex<Shown>);

/// Work of a running statement, as far as it has shown it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    pub work: Work,
    /// See `planSummary` of the profiler.
    pub plan: Option<String>,
    /// The thread, and its CPU time at the beginning of the statement.
    thread: Option<(u32, u64)>,
}

thread_local! {
    static RUNNING: RefCell<Option<Arc<Running>>> = const { RefCell::new(None) };
    static CPU_BEGUN: Cell<u64> = const { Cell::new(0) };
    static THREAD: Option<u32> = thread_id();
}

/// Returns the system's number of this thread.
fn thread_id() -> Option<u32> {
    std::fs::read_link("/proc/thread-self").ok()?.file_name()?.to_str()?.parse().ok()
}

impl Running {
    /// Returns what the statement has shown. None: nothing so far.
    pub fn shown(&self) -> Option<Shown> {
        let shown = self.0.lock();
        (*shown != Shown::default()).then(|| shown.clone())
    }
}

impl Shown {
    /// Returns the CPU time that the statement has taken, in nanoseconds, as the scheduler counted it last.
    pub fn cpu_nanos(&self) -> Option<u64> {
        let (thread, begun) = self.thread?;
        let statistics = std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()?;
        let nanos: u64 = statistics.split_whitespace().next()?.parse().ok()?;
        Some(nanos.saturating_sub(begun))
    }
}

/// Begins the count of a statement, which is shown to other threads in `running`. The thread has taken `cpu_begun` nanoseconds so far.
pub fn begin(running: &Arc<Running>, cpu_begun: u64) {
    WORK.with(|work| work.set(Work::default()));
    CPU_BEGUN.set(cpu_begun);
    RUNNING.with_borrow_mut(|own| match own {
        Some(own) if Arc::ptr_eq(own, running) => {}
        _ => *own = Some(running.clone()),
    });
    let mut shown = running.0.lock();
    if *shown != Shown::default() {
        *shown = Shown::default();
    }
}

/// Shows other threads what a plan has examined in addition to what was noted. `plan` makes the line of the plan, once.
pub fn show(keys_examined: u64, documents_examined: u64, plan: impl FnOnce() -> Option<String>) {
    let mut work = done();
    work.keys_examined += keys_examined;
    work.documents_examined += documents_examined;
    RUNNING.with_borrow(|running| {
        let Some(running) = running else { return };
        let mut shown = running.0.lock();
        shown.work = work;
        if shown.plan.is_none() {
            shown.plan = plan();
            shown.thread = THREAD.with(|thread| thread.map(|thread| (thread, CPU_BEGUN.get())));
        }
    });
}

/// Returns what this thread did since it began.
pub fn done() -> Work {
    WORK.with(Cell::get)
}

/// Adds to what this thread does.
pub fn note(change: impl FnOnce(&mut Work)) {
    WORK.with(|cell| {
        let mut work = cell.get();
        change(&mut work);
        cell.set(work);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_counts_its_own_statement() {
        let running = Arc::new(Running::default());
        begin(&running, 0);
        assert_eq!(running.shown(), None);
        note(|work| work.keys_examined += 2);
        note(|work| work.sorted = true);
        assert_eq!(done(), Work { keys_examined: 2, sorted: true, ..Work::default() });
        std::thread::spawn(|| assert_eq!(done(), Work::default())).join().unwrap();
        show(3, 1, || Some("COLLSCAN".to_owned()));
        let shown = running.shown().unwrap();
        assert_eq!(shown.work, Work { keys_examined: 5, documents_examined: 1, sorted: true, ..Work::default() });
        assert_eq!(shown.plan.as_deref(), Some("COLLSCAN"));
        assert!(shown.thread.is_none() || shown.cpu_nanos() > Some(0));
        begin(&running, 0);
        assert_eq!((done(), running.shown()), (Work::default(), None));
    }
}
