//! Memory of large values, before they are read.
//!
//! Only an engine knows how large a value is that is not in memory yet, and only the statement that reads it knows how long it may wait.
//! So a statement sets up its thread ([`for_statement`]), and the fractal tree, before it loads a large value, reserves memory for it and for
//! the copies that the statement makes ([`before_value`]). Other engines learn the size by reading the value; records of theirs are reserved
//! before they are copied.
//!
//! A thread that waits here holds no other large reservation of its statement but that of its message, which is not in the way of others that
//! wait, so that two of them do not wait for each other: once a batch
//! has taken the reservation ([`take`]), the statement's further values do not wait, and the batch ends at the first that it has no memory for.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::time::Duration;

use super::{Budget, Class, Reservation};
use crate::aside;

/// A value that waits for memory.
pub const LARGE_BYTES_MIN: usize = 1 << 20;

/// A value that is read has a copy in the engine, one in the statement, and one in its batch.
pub const READ_COPIES: usize = 3;

/// A value that is read to be changed has, besides one in the engine and one in the statement, the changed value and its copies in the
/// transaction and in the memtable; the image that a retry of findAndModify returns has as many. Few of them exist at a time.
pub const WRITE_COPIES: usize = 8;

/// Maximum wait of a large value for memory: longer than slow clients may keep it while others wait, and than several writes take that go
/// one after the other.
const PATIENCE: Duration = Duration::from_secs(60);

struct Statement {
    reservation: Reservation,
    copies: usize,
    /// Reserved for the message that the statement came with.
    message: usize,
    may_wait: fn() -> bool,
    /// False once the reservation was taken, or a wait for it has timed out.
    waits: bool,
}

thread_local! {
    static STATEMENT: RefCell<Option<Statement>> = const { RefCell::new(None) };
    static MESSAGE: Cell<usize> = const { Cell::new(0) };
    /// Living pins of this thread, in builds that check them.
    static PINS: Cell<usize> = const { Cell::new(0) };
}

/// A mark that the thread uses what others may have to free before memory is released, like a version of a tree with its memtables.
/// Builds with debug assertions check that a thread with one does not wait for memory.
#[derive(Debug)]
pub struct Pin {
    thread: PhantomData<*const ()>,
}

impl Pin {
    #[inline]
    pub fn new() -> Pin {
        if cfg!(debug_assertions) {
            PINS.set(PINS.get() + 1);
        }
        Pin { thread: PhantomData }
    }
}

impl Default for Pin {
    fn default() -> Pin {
        Pin::new()
    }
}

impl Drop for Pin {
    #[inline]
    fn drop(&mut self) {
        if cfg!(debug_assertions) {
            PINS.set(PINS.get() - 1);
        }
    }
}

/// Does the work of a message, for which its connection has reserved this many bytes.
pub fn for_message<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            MESSAGE.set(0);
        }
    }
    MESSAGE.set(bytes);
    let _end = End;
    work()
}

/// Does the work of a statement, which has as many copies of a large value and waits for their memory while `may_wait`. Within another
/// one's work, this is part of it.
pub fn for_statement<T>(budget: &'static Budget, copies: usize, may_wait: fn() -> bool, work: impl FnOnce() -> T) -> T {
    struct End(bool);
    impl Drop for End {
        fn drop(&mut self) {
            if self.0 {
                STATEMENT.take();
            }
        }
    }
    let is_outer = STATEMENT.with_borrow_mut(|statement| {
        let is_outer = statement.is_none();
        statement.get_or_insert_with(|| Statement {
            reservation: budget.reservation(Class::Batch),
            copies,
            message: MESSAGE.get(),
            may_wait,
            waits: true,
        });
        is_outer
    });
    let _end = End(is_outer);
    work()
}

/// Waits until there is memory for a value of this many bytes, which is about to be read for the statement of this thread. Without it
/// after a while, or where the statement is to end, the value is read all the same: the caller's checks find out.
///
/// Requires: the thread has no [`Pin`].
#[inline]
pub fn before_value(bytes: usize) {
    debug_assert_eq!(PINS.get(), 0, "a thread that waits for memory pins none");
    if must_wait(bytes) {
        reserve(bytes);
    }
}

/// Returns false if the statement of this thread is to end. Other work may wait.
pub fn may_wait() -> bool {
    // not borrowed while it is called
    let may_wait = STATEMENT.with_borrow(|statement| statement.as_ref().map(|it| it.may_wait));
    may_wait.is_none_or(|may_wait| may_wait())
}

/// Returns true if [`before_value`] would reserve memory, for which it may wait.
#[inline]
pub fn must_wait(bytes: usize) -> bool {
    bytes >= LARGE_BYTES_MIN && STATEMENT.with_borrow(|statement| statement.as_ref().is_some_and(|it| it.lacks(bytes)))
}

impl Statement {
    /// Returns the memory for a value. More than there can be waits for all others.
    fn needed(&self, bytes: usize) -> usize {
        self.copies.saturating_mul(bytes)
    }

    fn lacks(&self, bytes: usize) -> bool {
        self.waits && self.reservation.bytes() < self.needed(bytes)
    }
}

#[cold]
fn reserve(bytes: usize) {
    // not borrowed while it waits
    let Some(mut statement) = STATEMENT.take() else { return };
    let needed = statement.needed(bytes);
    statement.reservation.shrink_to(0);
    let Statement { reservation, message, may_wait, waits, .. } = &mut statement;
    *waits = aside::wait(|| reservation.wait_for_all_while(needed, *message, PATIENCE, *may_wait));
    STATEMENT.set(Some(statement));
}

/// Takes what was reserved for values, to account for them from now on. None: nothing was.
pub fn take() -> Option<Reservation> {
    STATEMENT.with_borrow_mut(|statement| {
        let statement = statement.as_mut().filter(|statement| statement.reservation.bytes() > 0)?;
        statement.waits = false;
        let empty = statement.reservation.budget().reservation(Class::Batch);
        Some(std::mem::replace(&mut statement.reservation, empty))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::time::Instant;

    use super::*;

    const MIB: usize = 1 << 20;

    /// Room for reservations of 100 MB.
    fn budget() -> &'static Budget {
        let budget = Box::leak(Box::new(Budget::unlimited()));
        budget.set_limit(100 * MIB as u64 + super::super::APART_MIN);
        budget
    }

    fn read_in(budget: &'static Budget, work: impl FnOnce()) {
        for_statement(budget, READ_COPIES, || true, work);
    }

    #[test]
    fn a_value_waits_until_the_statement_before_it_has_ended() {
        static HAS_FIRST: AtomicBool = AtomicBool::new(false);
        let budget = budget();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                read_in(budget, || {
                    before_value(20 * MIB);
                    before_value(10 * MIB);
                    assert_eq!(budget.reserved(), 60 * MIB as u64, "what there is suffices for a smaller one");
                    HAS_FIRST.store(true, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_millis(50));
                    HAS_FIRST.store(false, Ordering::SeqCst);
                });
            });
            while !HAS_FIRST.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            read_in(budget, || {
                before_value(MIB - 1);
                before_value(10 * MIB);
                assert!(HAS_FIRST.load(Ordering::SeqCst), "there is room for both");
                before_value(20 * MIB);
                assert!(!HAS_FIRST.load(Ordering::SeqCst), "there is not");
            });
        });
        assert_eq!(budget.reserved(), 0);
    }

    #[test]
    fn a_value_larger_than_the_room_waits_to_be_alone() {
        let budget = budget();
        read_in(budget, || {
            before_value(80 * MIB);
            assert_eq!(budget.reserved(), 240 * MIB as u64);
        });
        let mut other = budget.reservation(Class::Reply);
        other.cover(MIB);
        for_statement(
            budget,
            READ_COPIES,
            || false,
            || {
                before_value(80 * MIB);
                assert_eq!(budget.reserved(), MIB as u64, "the statement has ended");
                let begun = Instant::now();
                before_value(20 * MIB);
                assert!(budget.reserved() == MIB as u64 && begun.elapsed() < PATIENCE, "it does not wait twice");
            },
        );
        drop(other);
        // less room than was known when the reservation was asked for
        let mut own = budget.reservation(Class::Batch);
        budget.observe(super::super::Sample { resident: 60 * MIB as u64, ..Default::default() });
        assert!(!own.try_cover_all(100 * MIB) && own.wait_for_all_while(100 * MIB, 0, PATIENCE, || false));
    }

    #[test]
    fn the_message_of_a_statement_is_not_in_its_way() {
        let budget = budget();
        let mut message = budget.reservation(Class::Message);
        message.cover(46 * MIB);
        let begun = Instant::now();
        for_message(message.bytes(), || {
            read_in(budget, || {
                before_value(80 * MIB);
                assert_eq!(budget.reserved(), (46 + 240) * MIB as u64);
            });
        });
        assert!(begun.elapsed() < PATIENCE);
        assert_eq!(MESSAGE.get(), 0);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic = "pins none"]
    fn a_thread_that_pins_memory_does_not_wait_for_memory() {
        drop(Pin::new());
        before_value(1);
        let _pin = Pin::new();
        before_value(1);
    }

    #[test]
    fn statements_with_messages_do_not_wait_for_each_other() {
        let budget = budget();
        let begun = Instant::now();
        let messages = [(); 3].map(|()| {
            let mut message = budget.reservation(Class::Message);
            message.cover(16 * MIB);
            message
        });
        let at_once = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for message in messages {
                scope.spawn(|| {
                    let message = message;
                    for_message(message.bytes(), || {
                        read_in(budget, || {
                            before_value(80 * MIB);
                            assert_eq!(at_once.fetch_add(1, Ordering::SeqCst), 0, "each is alone");
                            assert!(budget.reserved() >= 256 * MIB as u64, "with its memory");
                            std::thread::sleep(Duration::from_millis(20));
                            at_once.fetch_sub(1, Ordering::SeqCst);
                        });
                    });
                });
            }
        });
        assert!(begun.elapsed() < PATIENCE && budget.reserved() == 0);
        assert_eq!(budget.waiting.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn a_statement_whose_batch_took_the_reservation_does_not_wait_again() {
        let budget = budget();
        let mut batch = budget.reservation(Class::Batch);
        read_in(budget, || {
            assert!(take().is_none());
            read_in(budget, || before_value(30 * MIB));
            batch.absorb(take().unwrap());
            assert_eq!((batch.bytes(), budget.reserved()), (90 * MIB, 90 * MIB as u64));
            let begun = Instant::now();
            before_value(30 * MIB);
            assert!(take().is_none() && begun.elapsed() < PATIENCE);
        });
        assert_eq!(budget.reserved(), 90 * MIB as u64, "the batch holds it");
        drop(batch);
        before_value(30 * MIB);
        assert_eq!(budget.reserved(), 0, "work of no statement is not held up");
    }
}
