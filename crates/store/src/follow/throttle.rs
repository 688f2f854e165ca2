//! The throttle of a long copy.

use std::time::Duration;

use arbor_base::ThreadThrottle;

/// The copy may take this share of all processors away from other work.
const FLOOR: f64 = 0.06;
/// And more while this part of them is idle.
const IDLE: f64 = 0.2;
const _: () = assert!(0.0 < FLOOR && FLOOR < IDLE);
/// Longest sleep at once, so that an aborted switch ends soon.
const SLEEP_MAX: Duration = Duration::from_millis(100);
/// Rests below it are left to later ones.
const SLEEP_MIN: Duration = Duration::from_millis(2);
const _: () = assert!(SLEEP_MIN.as_millis() < SLEEP_MAX.as_millis());

/// The throttle of one thread: it counts that thread's time on a processor.
pub(crate) struct Throttle {
    throttle: ThreadThrottle,
}

impl Throttle {
    pub(crate) fn new() -> Throttle {
        Throttle { throttle: ThreadThrottle::new(FLOOR, IDLE) }
    }

    /// Raises the floor, for a copy that does not gain on the writers.
    pub(crate) fn press_on(&mut self) {
        self.throttle.press_on();
    }

    /// Sleeps until the thread has used no more than its share. To be called often.
    pub(crate) fn pause(&mut self) {
        let rest = self.throttle.rest();
        if rest > SLEEP_MIN {
            std::thread::sleep(rest.min(SLEEP_MAX));
        }
    }
}
