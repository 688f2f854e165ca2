//! Wakes a background thread.

use std::time::Instant;

use parking_lot::{Condvar, Mutex};

/// The requests to a thread (`W`), and the way to wake it.
#[derive(Debug, Default)]
pub struct Alarm<W> {
    requested: Mutex<W>,
    changed: Condvar,
}

impl<W> Alarm<W> {
    /// Changes the requests and wakes the thread.
    pub fn change(&self, change: impl FnOnce(&mut W)) {
        change(&mut self.requested.lock());
        self.changed.notify_one();
    }

    /// Waits until something is requested, or for the deadline, and takes it.
    pub fn wait<T>(&self, until: Option<Instant>, idle: impl Fn(&W) -> bool, take: impl FnOnce(&mut W) -> T) -> T {
        let mut requested = self.requested.lock();
        let mut is_idle = |requested: &mut W| idle(requested);
        match until {
            None => self.changed.wait_while(&mut requested, &mut is_idle),
            Some(until) => drop(self.changed.wait_while_until(&mut requested, &mut is_idle, until)),
        }
        take(&mut requested)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_wait_ends_with_a_request_or_with_the_time() {
        let alarm = Alarm::<u32>::default();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| alarm.wait(None, |requested| *requested == 0, std::mem::take));
            alarm.change(|requested| *requested = 7);
            assert_eq!(waiting.join().unwrap(), 7);
        });
        let soon = Instant::now() + Duration::from_millis(1);
        assert_eq!(alarm.wait(Some(soon), |requested| *requested == 0, std::mem::take), 0);
        assert!(Instant::now() >= soon);
        alarm.change(|requested| *requested = 8);
        assert_eq!(alarm.wait(Some(soon), |requested| *requested == 0, std::mem::take), 8);
    }
}
