//! Ctrl-C: the run ends early and keeps what was measured.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::target::process::{abandon, kill_all};

/// A flag that a signal sets, shared by everything that waits.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

/// Interval at which a wait checks for an interrupt.
const SLICE: Duration = Duration::from_millis(50);
/// Signals closer together are one: a terminal and `timeout` may both pass it on.
const AGAIN: Duration = Duration::from_millis(500);
/// Time in which what was measured is written before servers whose files are removed anyway are killed.
const GRACE: Duration = Duration::from_secs(1);

impl Interrupt {
    /// Set by SIGINT and SIGTERM, which also end the servers that we started, after a moment. Another signal while the run winds up
    /// ends them and us at once.
    pub fn by_signals() -> std::io::Result<Interrupt> {
        let interrupt = Interrupt::default();
        let flag = interrupt.clone();
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            let mut first: Option<Instant> = None;
            for _ in signals.forever() {
                flag.set();
                if first.is_none() {
                    std::thread::spawn(|| {
                        std::thread::sleep(GRACE);
                        abandon();
                    });
                }
                if first.get_or_insert_with(Instant::now).elapsed() > AGAIN {
                    kill_all();
                    std::process::exit(130);
                }
            }
        })?;
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
