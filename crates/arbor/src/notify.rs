//! Notices to systemd (`Type=notify`): the server listens, the server stops, the server lives.
//!
//! Without `NOTIFY_SOCKET` in the environment nothing is sent. A notice that cannot be sent is no reason to stop: systemd then waits for it.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

/// Sends `READY=1`: clients may connect.
pub(crate) fn ready() {
    send("READY=1");
}

/// Sends `STOPPING=1`, before the last checkpoint.
pub(crate) fn stopping() {
    send("STOPPING=1");
}

/// Sends `WATCHDOG=1` in half of the interval that systemd asks for.
#[derive(Debug)]
pub(crate) struct Watchdog {
    /// `None`: it was not asked for.
    interval: Option<Duration>,
    last: Instant,
}

impl Watchdog {
    pub(crate) fn from_environment() -> Watchdog {
        let variable = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
        let is_for_other = variable("WATCHDOG_PID").is_some_and(|process| process != u64::from(std::process::id()));
        let micros = variable("WATCHDOG_USEC").filter(|micros| *micros > 0 && !is_for_other);
        Watchdog { interval: micros.map(|micros| Duration::from_micros(micros / 2)), last: Instant::now() }
    }

    /// Sends the notice if it is due. The caller is alive when it calls.
    pub(crate) fn tick(&mut self) {
        if self.interval.is_some_and(|interval| self.last.elapsed() >= interval) {
            self.last = Instant::now();
            send("WATCHDOG=1");
        }
    }
}

fn send(state: &str) {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let address = match name.as_bytes().split_first() {
        Some((b'@', rest)) => SocketAddr::from_abstract_name(rest),
        _ => SocketAddr::from_pathname(&name),
    };
    let Ok(address) = address else { return };
    let _ = UnixDatagram::unbound().and_then(|socket| socket.send_to_addr(state.as_bytes(), &address));
}
