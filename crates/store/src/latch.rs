//! The latch of one collection: statements that write hold it shared, changes of its catalogue entry exclusively.
//!
//! Guards own what they guard, so that they can be kept in a statement or a transaction and moved between threads.
//! A waiting exclusive holder keeps new shared ones out; so a thread must not take it shared twice.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
pub struct Latch {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    shared: usize,
    exclusive: bool,
    exclusive_waiting: usize,
}

#[derive(Debug)]
pub struct SharedGuard(Arc<Latch>);

#[derive(Debug)]
pub struct ExclusiveGuard(Arc<Latch>);

impl Latch {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    pub fn read(self: &Arc<Latch>) -> SharedGuard {
        let mut state = self.lock();
        while state.exclusive || state.exclusive_waiting > 0 {
            state = self.wait(state);
        }
        state.shared += 1;
        SharedGuard(self.clone())
    }

    pub fn write(self: &Arc<Latch>) -> ExclusiveGuard {
        let mut state = self.lock();
        state.exclusive_waiting += 1;
        while state.exclusive || state.shared > 0 {
            state = self.wait(state);
        }
        state.exclusive_waiting -= 1;
        state.exclusive = true;
        ExclusiveGuard(self.clone())
    }
}

impl Drop for SharedGuard {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.shared -= 1;
        if state.shared == 0 && state.exclusive_waiting > 0 {
            self.0.changed.notify_all();
        }
    }
}

impl Drop for ExclusiveGuard {
    fn drop(&mut self) {
        self.0.lock().exclusive = false;
        self.0.changed.notify_all();
    }
}
