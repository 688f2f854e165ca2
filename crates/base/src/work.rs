//! The work of the statement that this thread runs, for the slow query log and the profiler. Counted where it is done, without a
//! parameter through every call; a statement runs on one thread.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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
pub struct Running {
    keys_examined: AtomicU64,
    documents_examined: AtomicU64,
    /// See `planSummary` of the profiler.
    plan: Mutex<Option<String>>,
}

thread_local!(static RUNNING: RefCell<Option<Arc<Running>>> = const { RefCell::new(None) });

impl Running {
    fn clear(&self) {
        self.keys_examined.store(0, Ordering::Relaxed);
        self.documents_examined.store(0, Ordering::Relaxed);
        *self.plan.lock() = None;
    }

    /// Returns keys and documents examined so far.
    pub fn examined(&self) -> (u64, u64) {
        (self.keys_examined.load(Ordering::Relaxed), self.documents_examined.load(Ordering::Relaxed))
    }

    pub fn plan(&self) -> Option<String> {
        self.plan.lock().clone()
    }
}

/// Begins the count of a statement, which is shown to other threads in `running`.
pub fn begin(running: &Arc<Running>) {
    WORK.with(|work| work.set(Work::default()));
    RUNNING.with_borrow_mut(|own| match own {
        Some(own) if Arc::ptr_eq(own, running) => {}
        _ => *own = Some(running.clone()),
    });
    if running.examined() != (0, 0) || running.plan.lock().is_some() {
        running.clear();
    }
}

/// Shows other threads what a plan has examined in addition to what was noted. `plan` makes the line of the plan, once.
pub fn show(keys_examined: u64, documents_examined: u64, plan: impl FnOnce() -> Option<String>) {
    let noted = done();
    RUNNING.with_borrow(|running| {
        let Some(running) = running else { return };
        running.keys_examined.store(noted.keys_examined + keys_examined, Ordering::Relaxed);
        running.documents_examined.store(noted.documents_examined + documents_examined, Ordering::Relaxed);
        let mut known = running.plan.lock();
        if known.is_none() {
            *known = plan();
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
        begin(&running);
        note(|work| work.keys_examined += 2);
        note(|work| work.sorted = true);
        assert_eq!(done(), Work { keys_examined: 2, sorted: true, ..Work::default() });
        std::thread::spawn(|| assert_eq!(done(), Work::default())).join().unwrap();
        show(3, 1, || Some("COLLSCAN".to_owned()));
        assert_eq!((running.examined(), running.plan()), ((5, 1), Some("COLLSCAN".to_owned())));
        begin(&running);
        assert_eq!((done(), running.examined(), running.plan()), (Work::default(), (0, 0), None));
    }
}
