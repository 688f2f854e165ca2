//! Places whose values are read without writing to memory that other readers use: hazard pointers.
//!
//! A reader writes the address into a slot of its own thread and checks that the place still has it; a thread that takes a value
//! out of a place then goes through all slots. A slot that has the address is emptied, and what it protected gets a count of the
//! [`Arc`] instead, so nothing waits for a reader. A value that goes into an empty place asks no other thread.
//!
//! **Invariants**
//! - H1: a slot is written before the place is read again, and a place is emptied before the slots are read, both in the one order of
//!   `SeqCst` operations. So a reader that finds the address in the place still is seen, or sees that the place has changed.
//! - H2: each address that is written into a slot is removed once: by its writer, or by the thread that took the value out, which adds a count for
//!   that writer. A writer that does not find its address any more owns a count. Which of several writes of one address a slot
//!   lost makes no difference: there are as many counts as writers without one.
//! - H3: a reader that writes an outdated address may protect another value there for a moment, of another type even. It reads
//!   nothing of it, and releases a count that it got by [`Counted::release`] of that value.
//!
//! PERF: `arc_swap` asks more of each thread, and also for each value that goes into an empty place: YCSB E with 64 clients
//! spent 38 % of the server's CPU on that (2026-11-27).

#![allow(unsafe_code, reason = "readers follow a pointer that another thread may take away (H1 to H3)")]

#[cfg(all(test, loom))]
#[path = "hazard_model.rs"]
mod model;

use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::Ordering::SeqCst;

#[cfg(all(test, loom))]
use self::model::{Arc, AtomicPtr, AtomicUsize, CLAIM, CLAIMED, LINES, LINES_USED, SLOTS, WITHOUT_SLOT};
#[cfg(not(all(test, loom)))]
use self::shared::{Arc, AtomicPtr, AtomicUsize, CLAIM, CLAIMED, LINES, LINES_USED, SLOTS, WITHOUT_SLOT};

/// State of all threads, and its primitives. The model has its own.
#[cfg(not(all(test, loom)))]
mod shared {
    pub(super) use std::sync::Arc;
    pub(super) use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize};

    use parking_lot::Mutex;

    use super::{Claim, Line};

    /// Slots of a thread: one cache line. A read takes two or three at a time.
    pub(super) const SLOTS: usize = 8;
    /// Further threads use the lock.
    const THREADS: usize = 1024;

    pub(super) static LINES: [Line; THREADS] = [const { Line([const { AtomicUsize::new(0) }; SLOTS]) }; THREADS];
    pub(super) static CLAIMED: [AtomicBool; THREADS] = [const { AtomicBool::new(false) }; THREADS];
    /// No line from here on was ever claimed.
    pub(super) static LINES_USED: AtomicUsize = AtomicUsize::new(0);
    /// Held by readers without a slot while they take a count.
    pub(super) static WITHOUT_SLOT: Mutex<()> = Mutex::new(());

    thread_local!(pub(super) static CLAIM: Claim = Claim::new());
}

/// Addresses that one thread reads, or zeros.
#[repr(align(64))]
struct Line([AtomicUsize; SLOTS]);

/// A line of this thread.
struct Claim(Option<usize>);

impl Claim {
    fn new() -> Claim {
        let number = CLAIMED.iter().position(|claimed| !claimed.swap(true, SeqCst));
        if let Some(number) = number {
            LINES_USED.fetch_max(number + 1, SeqCst);
        }
        Claim(number)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // Guards on other threads may have slots in it still: those are not free for the next thread.
        if let Some(claimed) = self.0.and_then(|number| CLAIMED.get(number)) {
            let before = claimed.swap(false, SeqCst);
            debug_assert!(before, "a line has one thread");
        }
    }
}

/// Returns a slot of this thread that is free.
#[inline]
fn free_slot() -> Option<&'static AtomicUsize> {
    let line = CLAIM.try_with(|claim| claim.0).ok().flatten().and_then(|number| LINES.get(number))?;
    line.0.iter().find(|slot| slot.load(SeqCst) == 0)
}

/// A value with the function that releases one count of it, whatever its type. The function comes first, so the address leads to it.
#[repr(C)]
pub(super) struct Counted<T> {
    release: unsafe fn(usize),
    value: T,
}

impl<T> Counted<T> {
    pub(super) fn new(value: T) -> Arc<Counted<T>> {
        /// Requires: the address came from `Arc::into_raw` of this type, and the caller owns a count.
        unsafe fn release<T>(address: usize) {
            // SAFETY: as required.
            drop(unsafe { Arc::from_raw(address as *const Counted<T>) });
        }
        Arc::new(Counted { release: release::<T>, value })
    }
}

impl<T> Deref for Counted<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.value
    }
}

/// Removes the address from a slot, or releases the count that replaced it.
///
/// Requires: the caller wrote the address there and has not removed it yet.
#[inline]
fn leave(slot: &AtomicUsize, address: usize) {
    if slot.compare_exchange(address, 0, SeqCst, SeqCst).is_err() {
        // SAFETY: by H2 a count of the value at this address is the caller's; every value of a place begins with its release (H3).
        unsafe { (*(address as *const unsafe fn(usize)))(address) }
    }
}

/// Empty, or has a value. Eight bytes when empty.
pub(super) struct Place<T> {
    /// From `Arc::into_raw`, with one count.
    address: AtomicPtr<Counted<T>>,
    owns: PhantomData<Arc<Counted<T>>>,
}

/// A value that is being read. It stays valid when the place is emptied meanwhile.
pub(super) struct Reading<T> {
    value: NonNull<Counted<T>>,
    /// None: it has a count.
    slot: Option<&'static AtomicUsize>,
    owns: PhantomData<Arc<Counted<T>>>,
}

// SAFETY: like `Arc`, it gives shared access to the value, and the last one drops it.
unsafe impl<T: Send + Sync> Send for Reading<T> {}
// SAFETY: as above; a shared `Reading` gives shared access only.
unsafe impl<T: Send + Sync> Sync for Reading<T> {}

impl<T> Default for Place<T> {
    fn default() -> Place<T> {
        Place { address: AtomicPtr::new(null_mut()), owns: PhantomData }
    }
}

impl<T> Place<T> {
    #[inline]
    pub(super) fn read(&self) -> Option<Reading<T>> {
        loop {
            let value = NonNull::new(self.address.load(SeqCst))?;
            let Some(slot) = free_slot() else { return self.read_with_count() };
            let address = value.as_ptr() as usize;
            debug_assert_eq!(slot.load(SeqCst), 0, "only its thread writes addresses into a slot");
            slot.store(address, SeqCst);
            if self.address.load(SeqCst) == value.as_ptr() {
                return Some(Reading { value, slot: Some(slot), owns: PhantomData });
            }
            leave(slot, address);
        }
    }

    #[cold]
    fn read_with_count(&self) -> Option<Reading<T>> {
        let _locked = WITHOUT_SLOT.lock();
        let value = NonNull::new(self.address.load(SeqCst))?;
        // SAFETY: a thread that takes the value out of the place waits for this lock before it gives up the place's count.
        unsafe { Arc::increment_strong_count(value.as_ptr()) };
        Some(Reading { value, slot: None, owns: PhantomData })
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.address.load(SeqCst).is_null()
    }

    /// Puts a value in. True: the place was empty.
    pub(super) fn put(&self, value: Arc<Counted<T>>) -> bool {
        let before = self.address.swap(Arc::into_raw(value).cast_mut(), SeqCst);
        // SAFETY: the swap took it out of the place.
        unsafe { retire(before) };
        before.is_null()
    }

    /// Empties the place if it still has this value.
    pub(super) fn remove(&self, read: &Reading<T>) -> bool {
        let removed = self.address.compare_exchange(read.value.as_ptr(), null_mut(), SeqCst, SeqCst);
        // SAFETY: the exchange took it out of the place.
        removed.is_ok_and(|before| {
            unsafe { retire(before) };
            true
        })
    }
}

impl<T> Drop for Place<T> {
    fn drop(&mut self) {
        // SAFETY: nothing else has this place any more; values that are read outlive it.
        unsafe { retire(self.address.load(SeqCst)) }
    }
}

/// Gives up the count of a place, once all who read the value have counts of their own.
///
/// Requires: null, or an address that the caller has just taken out of a place, before the slots are read (H1).
unsafe fn retire<T>(value: *mut Counted<T>) {
    if value.is_null() {
        return;
    }
    // SAFETY: the count of the place is the caller's.
    let value = unsafe { Arc::from_raw(value) };
    // Readers that loaded the address under the lock have their counts then.
    drop(WITHOUT_SLOT.lock());
    let address = Arc::as_ptr(&value) as usize;
    debug_assert!(address.is_multiple_of(align_of::<usize>()), "the address of a value with a function is aligned");
    for slot in LINES.iter().take(LINES_USED.load(SeqCst)).flat_map(|line| &line.0) {
        if slot.load(SeqCst) == address {
            let count = value.clone();
            if slot.compare_exchange(address, 0, SeqCst, SeqCst).is_ok() {
                // It is the reader's now (H2).
                std::mem::forget(count);
            }
        }
    }
}

impl<T> Reading<T> {
    /// For holding on to the value: takes no slot.
    pub(super) fn settled(mut self) -> Reading<T> {
        if let Some(slot) = self.slot.take() {
            // SAFETY: the slot protects the value until it is left.
            unsafe { Arc::increment_strong_count(self.value.as_ptr()) };
            leave(slot, self.value.as_ptr() as usize);
        }
        self
    }

    /// A value that is in no place yet, or was put there just now.
    pub(super) fn of(value: Arc<Counted<T>>) -> Reading<T> {
        let value = NonNull::new(Arc::into_raw(value).cast_mut()).expect("an `Arc` is not null");
        Reading { value, slot: None, owns: PhantomData }
    }
}

impl<T> Deref for Reading<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the slot or the count keeps it.
        unsafe { &self.value.as_ref().value }
    }
}

impl<T> Drop for Reading<T> {
    #[inline]
    fn drop(&mut self) {
        let address = self.value.as_ptr();
        match self.slot {
            Some(slot) => leave(slot, address as usize),
            // SAFETY: the count is this one's.
            None => drop(unsafe { Arc::from_raw(address) }),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use arbor_base::Random;

    /// Says when it is dropped, and is wrong from then on.
    struct Checked<'c> {
        number: AtomicUsize,
        living: &'c AtomicUsize,
    }

    impl Checked<'_> {
        fn new(number: usize, living: &AtomicUsize) -> Checked<'_> {
            living.fetch_add(1, SeqCst);
            Checked { number: AtomicUsize::new(number), living }
        }
    }

    impl Drop for Checked<'_> {
        fn drop(&mut self) {
            self.number.store(usize::MAX, SeqCst);
            self.living.fetch_sub(1, SeqCst);
        }
    }

    #[test]
    fn what_is_read_outlives_its_place() {
        let living = AtomicUsize::new(0);
        let place = Place::default();
        assert!(place.read().is_none() && place.is_empty());
        assert!(place.put(Counted::new(Checked::new(1, &living))));
        let (first, again) = (place.read().unwrap(), place.read().unwrap().settled());
        assert!(!place.put(Counted::new(Checked::new(2, &living))), "it had a value");
        assert_eq!((first.number.load(SeqCst), again.number.load(SeqCst), living.load(SeqCst)), (1, 1, 2));
        assert!(!place.remove(&first), "it has another value");
        drop(first);
        assert_eq!(living.load(SeqCst), 2);
        drop(again);
        assert_eq!(living.load(SeqCst), 1);
        let many: Vec<_> = (0..3 * SLOTS).map(|_| place.read().unwrap()).collect();
        drop(place);
        assert!(many.iter().all(|read| read.number.load(SeqCst) == 2), "more than there are slots");
        std::thread::scope(|scope| _ = scope.spawn(move || drop(many)));
        assert_eq!(living.load(SeqCst), 0);
    }

    /// Values of two types, so that one address belongs to the one and then to the other.
    #[test]
    fn readers_see_living_values_and_each_is_dropped_once() {
        let living = AtomicUsize::new(0);
        let rounds = match cfg!(debug_assertions) {
            _ if cfg!(miri) => 300,
            true => 100_000,
            false => 2_000_000,
        };
        {
            let plain: Vec<Place<Checked<'_>>> = (0..4).map(|_| Place::default()).collect();
            let paired: Vec<Place<(Checked<'_>, u8)>> = (0..4).map(|_| Place::default()).collect();
            std::thread::scope(|scope| {
                for seed in 0..6 {
                    let (plain, paired, living) = (&plain, &paired, &living);
                    scope.spawn(move || {
                        let mut random = Random::new(seed);
                        let mut kept: Vec<(usize, Reading<Checked<'_>>)> = Vec::new();
                        for _ in 0..rounds {
                            let at = random.below(4) as usize;
                            match random.below(8) {
                                0 => _ = plain[at].put(Counted::new(Checked::new(at, living))),
                                1 => _ = paired[at].put(Counted::new((Checked::new(10 + at, living), 0))),
                                2 => _ = plain[at].read().map(|read| plain[at].remove(&read)),
                                3 => _ = paired[at].read().map(|read| paired[at].remove(&read)),
                                4 => kept.extend(plain[at].read().map(|read| (at, read))),
                                5 => kept.extend(plain[at].read().map(|read| (at, read.settled()))),
                                6 => _ = plain[at].read().map(|read| assert_eq!(read.number.load(SeqCst), at)),
                                _ => _ = paired[at].read().map(|read| assert_eq!(read.0.number.load(SeqCst), 10 + at)),
                            }
                            if kept.len() > SLOTS + 2 {
                                let (at, read) = kept.swap_remove(random.below(kept.len() as u64) as usize);
                                assert_eq!(read.number.load(SeqCst), at);
                            }
                        }
                    });
                }
            });
        }
        assert_eq!(living.load(SeqCst), 0, "each value was dropped once");
    }
}
