//! Ctrl-C: the run ends early and keeps what was measured.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A flag that a signal sets, shared by everything that waits.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

/// How soon a wait notices.
const SLICE: Duration = Duration::from_millis(50);

impl Interrupt {
    /// Set by SIGINT and SIGTERM. A second signal ends the process at once.
    pub fn by_signals() -> std::io::Result<Interrupt> {
        let interrupt = Interrupt::default();
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register_conditional_shutdown(signal, 130, interrupt.0.clone())?;
            signal_hook::flag::register(signal, interrupt.0.clone())?;
        }
        Ok(interrupt)
    }

    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Sleeps until `until`, or less if interrupted. True when the time has come.
    pub fn sleep_until(&self, until: Instant) -> bool {
        loop {
            let now = Instant::now();
            if now >= until {
                return true;
            }
            if self.is_set() {
                return false;
            }
            std::thread::sleep((until - now).min(SLICE));
        }
    }
}
