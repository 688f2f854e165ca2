//! Signals of the process as calls.

use tokio::signal::unix::{SignalKind, signal};

use crate::{Error, Result};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM or SIGINT: stop cleanly.
    Terminate(&'static str),
    /// SIGUSR1: reopen the log file.
    Rotate,
}

/// Takes over the process's signals: calls `on_signal` for each from a thread of its own. They are taken over when this
/// returns.
pub fn watch_signals(on_signal: impl Fn(Signal) + Send + 'static) -> Result<()> {
    let failed = |source| Error::Runtime { source };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(failed)?;
    let streams = runtime.block_on(async {
        Ok((signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?, signal(SignalKind::user_defined1())?))
    });
    let (mut terminate, mut interrupt, mut rotate) = streams.map_err(failed)?;
    let watch = async move {
        loop {
            tokio::select! {
                _ = terminate.recv() => on_signal(Signal::Terminate("SIGTERM")),
                _ = interrupt.recv() => on_signal(Signal::Terminate("SIGINT")),
                _ = rotate.recv() => on_signal(Signal::Rotate),
            }
        }
    };
    let thread = std::thread::Builder::new().name("arbor-signal".to_owned());
    thread.spawn(move || runtime.block_on(watch)).map_err(failed)?;
    Ok(())
}
