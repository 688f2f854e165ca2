//! The latch of one collection: statements that write hold it shared, changes of its catalogue entry exclusively.
//!
//! Guards own what they guard, so that they can be kept in a statement or a transaction and moved between threads.
//! A waiting exclusive holder keeps new shared ones out; so a thread must not take it shared twice.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

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

    /// Gives up after `patience`, so that shared lockers do not wait long for another long holder.
    pub fn write_within(self: &Arc<Latch>, patience: Duration) -> Option<ExclusiveGuard> {
        let until = Instant::now() + patience;
        let mut state = self.lock();
        state.exclusive_waiting += 1;
        while state.exclusive || state.shared > 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                state.exclusive_waiting -= 1;
                self.changed.notify_all();
                return None;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.exclusive_waiting -= 1;
        state.exclusive = true;
        Some(ExclusiveGuard(self.clone()))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_in_vain_lets_the_others_through() {
        let latch: Arc<Latch> = Arc::default();
        let shared = latch.read();
        assert!(latch.write_within(Duration::from_millis(1)).is_none());
        drop(latch.read());
        let (own, held) = (latch.clone(), Duration::from_secs(60));
        let waiting = std::thread::spawn(move || own.write_within(held).is_some());
        while latch.lock().exclusive_waiting == 0 {
            std::thread::yield_now();
        }
        drop(shared);
        assert!(waiting.join().unwrap());
        drop(latch.read());
    }
}
