//! Signals of the process as calls.

use tokio::signal::unix::{SignalKind, signal};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM, SIGINT or SIGHUP of a terminal that went away: stop cleanly.
    Terminate(&'static str),
    /// SIGUSR1: reopen the log file.
    Rotate,
}

/// Calls `on_signal` for each signal until the runtime ends. Must run inside the runtime.
pub(crate) async fn watch(on_signal: impl Fn(Signal)) {
    let streams =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()), signal(SignalKind::user_defined1()));
    let (Ok(mut terminate), Ok(mut interrupt), Ok(mut rotate)) = streams else { return };
    loop {
        tokio::select! {
            _ = terminate.recv() => on_signal(Signal::Terminate("SIGTERM")),
            _ = interrupt.recv() => on_signal(Signal::Terminate("SIGINT")),
            _ = rotate.recv() => on_signal(Signal::Rotate),
        }
    }
}
