//! Signals of the process as calls, with mongod's meanings.

use std::task::Poll;

use tokio::signal::unix::{Signal as Unix, SignalKind, signal};

use crate::{Error, Result};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM or SIGINT: stop cleanly, or at once when that has begun.
    Terminate(&'static str),
    /// SIGHUP: stop cleanly. A closing terminal sends it along with others, so it never forces a stop that has begun.
    HangUp,
    /// SIGUSR1: begin a new log file.
    Rotate,
    /// SIGUSR2: log what runs, as mongod logs its threads.
    LogOperations,
}

/// Takes over the process's signals: calls `on_signal` for each from a thread of its own. They are taken over when this
/// returns. SIGHUP stays ignored in a process that was started so (`nohup`).
pub fn watch_signals(on_signal: impl Fn(Signal) + Send + Sync + 'static) -> Result<()> {
    let failed = |source| Error::Runtime { source };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(failed)?;
    let mut watched = vec![
        (SignalKind::terminate(), Signal::Terminate("SIGTERM")),
        (SignalKind::interrupt(), Signal::Terminate("SIGINT")),
        (SignalKind::user_defined1(), Signal::Rotate),
        (SignalKind::user_defined2(), Signal::LogOperations),
    ];
    if !is_hang_up_ignored() {
        watched.push((SignalKind::hangup(), Signal::HangUp));
    }
    let streams = runtime.block_on(async {
        let stream = |(kind, meaning)| signal(kind).map(|stream| (stream, meaning));
        watched.into_iter().map(stream).collect::<std::io::Result<Vec<_>>>()
    });
    let mut streams = streams.map_err(failed)?;
    let watch = async move {
        loop {
            let next = std::future::poll_fn(|context| {
                let ready = |(stream, meaning): &mut (_, Signal)| {
                    Unix::poll_recv(stream, context).is_ready().then_some(*meaning)
                };
                streams.iter_mut().find_map(ready).map_or(Poll::Pending, Poll::Ready)
            });
            on_signal(next.await);
        }
    };
    let thread = std::thread::Builder::new().name("arbor-signal".to_owned());
    thread.spawn(move || runtime.block_on(watch)).map_err(failed)?;
    Ok(())
}

/// `SigIgn` of `/proc/self/status` is a mask in hexadecimal; bit 0 is signal 1, SIGHUP.
fn is_hang_up_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}
