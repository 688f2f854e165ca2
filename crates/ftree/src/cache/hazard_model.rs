//! Loom's model of the hazard pointers: two lines of two slots, so that a reader may find none.
//! `RUSTFLAGS="--cfg loom" cargo test -p arbor-ftree --release --lib loom_`
//!
//! Loom orders `SeqCst` operations as `AcqRel` ones. What H1 needs of their one order is that a write of a slot or a place comes before a
//! later read of its thread. Here a fence between the two gives that, if both are `SeqCst`, and no weaker write came in between.
//!
//! Weakened one at a time (2026-11-28), it fails with `Release` where a reader writes its slot, `Acquire` where it reads the place again
//! and where the number of used lines is read, `AcqRel` where a place is emptied, and `Relaxed` where slots are read, left and emptied,
//! where a line is claimed, and where a reader without a slot reads the place. It does not fail with `Acquire` where slots are read,
//! or with `Relaxed` where the number of used lines grows and a line is given up: the fences order those, too. Nor does it without the
//! lock of readers without a slot: loom does not try an `Arc`'s increment before and after a decrement.

use std::array::from_fn;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool as Mark, Ordering};

use loom::cell::UnsafeCell;
use loom::sync::atomic::{self, fence};
use loom::sync::{Mutex, MutexGuard};
use loom::thread::{AccessError, JoinHandle};

pub(super) use loom::sync::Arc;

use super::{Claim, Counted, Line, Place};

pub(super) const SLOTS: usize = 2;
const THREADS: usize = 3;

loom::lazy_static! {
    pub(super) static ref LINES: [Line; THREADS] = from_fn(|_| Line(from_fn(|_| AtomicUsize::new(0))));
    pub(super) static ref CLAIMED: [AtomicBool; THREADS] = from_fn(|_| AtomicBool(atomic::AtomicBool::new(false)));
    pub(super) static ref LINES_USED: AtomicUsize = AtomicUsize::new(0);
    pub(super) static ref WITHOUT_SLOT: Lock = Lock(Mutex::new(()));
}

loom::thread_local! {
    static OWN: RefCell<Option<Claim>> = RefCell::default();
    /// The last write was `SeqCst`, and no fence came since.
    static HAS_WRITTEN: Cell<bool> = Cell::new(false);
}

/// Line of the thread that asks.
pub(super) struct OwnClaim;

pub(super) static CLAIM: OwnClaim = OwnClaim;

impl OwnClaim {
    pub(super) fn try_with<R>(&self, read: impl FnOnce(&Claim) -> R) -> Result<R, AccessError> {
        OWN.try_with(|own| read(own.borrow_mut().get_or_insert_with(Claim::new)))
    }
}

fn before_read(order: Ordering) {
    if order == Ordering::SeqCst && HAS_WRITTEN.with(|has| has.replace(false)) {
        fence(order);
    }
}

fn after_write(order: Ordering) {
    HAS_WRITTEN.with(|has| has.set(order == Ordering::SeqCst));
}

pub(super) struct Lock(Mutex<()>);

impl Lock {
    pub(super) fn lock(&self) -> MutexGuard<'_, ()> {
        self.0.lock().expect("a panic ends the model")
    }
}

pub(super) struct AtomicBool(atomic::AtomicBool);

impl AtomicBool {
    pub(super) fn swap(&self, new: bool, order: Ordering) -> bool {
        self.0.swap(new, order)
    }
}

pub(super) struct AtomicUsize(atomic::AtomicUsize);

impl AtomicUsize {
    pub(super) fn new(value: usize) -> AtomicUsize {
        AtomicUsize(atomic::AtomicUsize::new(value))
    }

    pub(super) fn load(&self, order: Ordering) -> usize {
        before_read(order);
        self.0.load(order)
    }

    pub(super) fn store(&self, value: usize, order: Ordering) {
        self.0.store(value, order);
        after_write(order);
    }

    pub(super) fn fetch_max(&self, value: usize, order: Ordering) -> usize {
        self.0.fetch_max(value, order)
    }

    pub(super) fn compare_exchange(
        &self,
        current: usize,
        new: usize,
        order: Ordering,
        failure: Ordering,
    ) -> Result<usize, usize> {
        let outcome = self.0.compare_exchange(current, new, order, failure);
        after_write(order);
        outcome
    }
}

pub(super) struct AtomicPtr<T>(atomic::AtomicPtr<T>);

impl<T> AtomicPtr<T> {
    pub(super) fn new(value: *mut T) -> AtomicPtr<T> {
        AtomicPtr(atomic::AtomicPtr::new(value))
    }

    pub(super) fn load(&self, order: Ordering) -> *mut T {
        before_read(order);
        self.0.load(order)
    }

    pub(super) fn swap(&self, new: *mut T, order: Ordering) -> *mut T {
        let before = self.0.swap(new, order);
        after_write(order);
        before
    }

    pub(super) fn compare_exchange(
        &self,
        current: *mut T,
        new: *mut T,
        order: Ordering,
        failure: Ordering,
    ) -> Result<*mut T, *mut T> {
        let outcome = self.0.compare_exchange(current, new, order, failure);
        after_write(order);
        outcome
    }
}

/// A value whose drop must come after all of its reads. Loom checks that, and that each is dropped.
struct Watched(UnsafeCell<u32>);

// SAFETY: loom checks all accesses.
unsafe impl Sync for Watched {}

impl Watched {
    fn new(number: u32) -> Arc<Counted<Watched>> {
        Counted::new(Watched(UnsafeCell::new(number)))
    }

    fn number(&self) -> u32 {
        // SAFETY: loom checks that no write is at the same time.
        self.0.with(|number| unsafe { *number })
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // SAFETY: loom checks that nothing else is at the same time.
        self.0.with_mut(|number| unsafe { *number = u32::MAX });
    }
}

type Shared = Arc<Place<Watched>>;

fn place(number: u32) -> Shared {
    let place = Place::default();
    assert!(place.put(Watched::new(number)));
    Arc::new(place)
}

fn check(scenario: impl Fn() + Send + Sync + 'static) {
    loom::model::Builder::new().check(scenario);
}

/// Runs a thread that gives up its line before it is joined: loom drops what is local to a thread later, when its statics may be gone.
fn spawn<R: 'static>(place: &Shared, work: impl FnOnce(&Place<Watched>) -> R + 'static) -> JoinHandle<R> {
    let place = place.clone();
    loom::thread::spawn(move || {
        let result = work(&place);
        drop(OWN.with(RefCell::take));
        result
    })
}

fn remove(place: &Place<Watched>) -> bool {
    place.read().is_some_and(|read| place.remove(&read) && read.number() == 1)
}

#[test]
fn loom_a_value_that_is_read_outlives_its_replacement() {
    check(|| {
        let place = place(1);
        let reader = spawn(&place, |place| place.read().unwrap().number());
        assert!(!place.put(Watched::new(2)));
        assert!([1, 2].contains(&reader.join().unwrap()));
    });
}

#[test]
fn loom_a_value_that_is_read_outlives_its_removal() {
    check(|| {
        let place = place(1);
        let reader = spawn(&place, |place| place.read().map(|read| read.settled().number()));
        let remover = spawn(&place, remove);
        assert!(reader.join().unwrap().is_none_or(|number| number == 1));
        assert!(remover.join().unwrap() && place.is_empty());
    });
}

#[test]
fn loom_two_remove_what_both_read() {
    check(|| {
        let place = place(1);
        let (one, other) = (spawn(&place, remove), spawn(&place, remove));
        assert!(one.join().unwrap() != other.join().unwrap() && place.is_empty(), "one of the two has removed it");
    });
}

/// The reader's slots are taken, so that it takes a count.
#[test]
fn loom_a_reader_without_a_slot() {
    check(|| {
        let (place, other) = (place(1), place(3));
        let reader = spawn(&place, move |place| {
            let taken: [_; SLOTS] = from_fn(|_| other.read());
            let number = place.read().unwrap().number();
            drop(taken);
            number
        });
        assert!(!place.put(Watched::new(2)));
        assert!([1, 2].contains(&reader.join().unwrap()));
    });
}

/// A thread ends while a guard is in one of its slots. Another one that gets the line leaves that slot alone.
#[test]
fn loom_a_line_of_a_thread_that_has_ended() {
    check(|| {
        let place = place(1);
        let first = spawn(&place, |place| place.read().unwrap());
        let second = spawn(&place, |place| place.read().unwrap().number());
        assert_eq!(second.join().unwrap(), 1);
        let left = first.join().unwrap();
        assert!(!place.put(Watched::new(2)));
        assert_eq!(left.number(), 1);
    });
}

/// The reader writes the address of a value that is gone, where a value of another type is by now (H3).
#[test]
fn loom_an_address_belongs_to_another_value_meanwhile() {
    static WAS_REUSED: Mark = Mark::new(false);
    check(|| {
        let (place, other) = (place(1), Place::<Box<Watched>>::default());
        let reader = spawn(&place, |place| place.read().map(|read| read.number()));
        let replacer = spawn(&place, move |place| {
            let before = place.read().map(|read| read.value.as_ptr() as usize);
            assert!(remove(place));
            other.put(Counted::new(Box::new(Watched(UnsafeCell::new(2)))));
            let read = other.read().unwrap();
            if before == Some(read.value.as_ptr() as usize) {
                WAS_REUSED.store(true, Ordering::Relaxed);
            }
            assert!(other.remove(&read) && read.number() == 2);
        });
        replacer.join().unwrap();
        assert!(reader.join().unwrap().is_none_or(|number| number == 1));
    });
    assert!(WAS_REUSED.load(Ordering::Relaxed), "the allocator gave the address to the other value");
}
