//! Threads that have other work than to wait for a device.
//!
//! A network worker runs requests that are served from memory. When one of them has to read from a disk after all, the worker's
//! other connections would wait for it, and the disk would have one read per worker at most.

use std::cell::Cell;

/// Hands the thread's other work to another thread, then calls the function, which may wait.
pub type HandOver = fn(&mut dyn FnMut());

thread_local!(static HAND_OVER: Cell<Option<HandOver>> = const { Cell::new(None) });

/// Calls a function; what it passes to [`wait`] is called by `hand_over`, the first time only.
pub fn with_other_work<T>(hand_over: HandOver, function: impl FnOnce() -> T) -> T {
    struct Restore(Option<HandOver>);
    impl Drop for Restore {
        fn drop(&mut self) {
            HAND_OVER.set(self.0);
        }
    }
    let _restore = Restore(HAND_OVER.replace(Some(hand_over)));
    function()
}

/// Returns true if others wait for this thread, so that it is worth trying not to wait.
pub fn has_other_work() -> bool {
    HAND_OVER.get().is_some()
}

/// Calls a function that may wait for a device.
pub fn wait<T>(function: impl FnOnce() -> T) -> T {
    let Some(hand_over) = HAND_OVER.take() else { return function() };
    let (mut function, mut value) = (Some(function), None);
    hand_over(&mut || value = function.take().map(|function| function()));
    value.expect("a hand-over calls the function")
}

#[cfg(test)]
mod tests {
    use super::*;

    thread_local!(static HANDED: Cell<u32> = const { Cell::new(0) });

    fn hand_over(function: &mut dyn FnMut()) {
        HANDED.set(HANDED.get() + 1);
        function();
    }

    #[test]
    fn other_work_is_handed_over_once_and_only_where_there_is_some() {
        assert_eq!((wait(|| 1), HANDED.get(), has_other_work()), (1, 0, false));
        with_other_work(hand_over, || {
            assert!(has_other_work());
            assert_eq!((wait(|| 2), HANDED.get(), has_other_work()), (2, 1, false));
            assert_eq!((wait(|| 3), HANDED.get()), (3, 1));
        });
        assert!(!has_other_work());
        let panicked = std::panic::catch_unwind(|| with_other_work(hand_over, || std::panic::panic_any(())));
        assert!(panicked.is_err() && !has_other_work(), "a panic ends it too");
    }
}
