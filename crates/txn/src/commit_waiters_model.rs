//! Loom's model of waiting: in every order, no waiter misses a position that is reached.
//! `RUSTFLAGS="--cfg loom" cargo test -p arbor-txn --release --lib loom_`

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use arbor_base::Position;

use super::CommitWaiters;

struct Noted(AtomicBool);

impl Wake for Noted {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Does the same as `PositionReached::poll`; returns whether it waits, and whether it asks for a sync.
fn poll(waiters: &CommitWaiters, position: Position, number: &mut Option<u64>, waker: &Waker) -> (bool, bool) {
    if waiters.frontier() >= position || !waiters.register(position, number, waker) {
        return (false, false);
    }
    let asks = waiters.wake_reached();
    (waiters.frontier() < position, asks)
}

/// `syncs`: one ends at any moment, asked for or not.
fn check(syncs: bool) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let waiters = Arc::new(CommitWaiters::new(Position(0), Position(0)));
        let (leads, synced) = (waiters.clone(), waiters.clone());
        let leader = loom::thread::spawn(move || leads.publish(Position(1)));
        let syncer = loom::thread::spawn(move || syncs && synced.synced(Position(1)));
        let noted = Arc::new(Noted(AtomicBool::new(false)));
        let (waits, asks) = poll(&waiters, Position(1), &mut None, &Waker::from(noted.clone()));
        let asked = [leader.join().unwrap(), syncer.join().unwrap(), asks].contains(&true);
        if asked {
            assert!(!waiters.synced(Position(1)), "everything is there");
        }
        assert!(!waits || noted.0.load(Ordering::SeqCst), "it sleeps, asked: {asked}");
    });
}

/// H2: a committer registers, then asks whether its term has ended; who ends a term interrupts after that. It never sleeps through it.
#[test]
fn loom_a_waiter_races_with_an_interruption() {
    loom::model(|| {
        let waiters = Arc::new(CommitWaiters::new(Position(0), Position(0)));
        let ended = Arc::new(loom::sync::atomic::AtomicBool::new(false));
        let (interrupts, ends) = (waiters.clone(), ended.clone());
        let ender = loom::thread::spawn(move || {
            ends.store(true, loom::sync::atomic::Ordering::Release);
            interrupts.interrupt();
        });
        let noted = Arc::new(Noted(AtomicBool::new(false)));
        let (waits, _) = poll(&waiters, Position(1), &mut None, &Waker::from(noted.clone()));
        let stops = ended.load(loom::sync::atomic::Ordering::Acquire);
        ender.join().unwrap();
        assert!(!waits || stops || noted.0.load(Ordering::SeqCst), "it sleeps");
    });
}

#[test]
fn loom_a_waiter_has_the_log_synced() {
    check(false);
}

#[test]
fn loom_a_waiter_races_with_a_sync() {
    check(true);
}
