//! Threads for what takes long: applying, the coordinator, changes of role.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use arbor_base::Position;
use arbor_repl::isr::{Input, ReadOutcome};
use arbor_repl::{Agreement, Coordinator, Epoch, Replaced, Version};
use arbor_txn::{Error, Pending, Transactions};

use crate::event::Event;
use crate::shown::{Server, Shared};

/// An application is tried again after this time when there was no space, or when it was too early.
const APPLY_RETRY: Duration = Duration::from_millis(200);
/// A change by another member shows at the latest after this time, where no message says it.
const HINT: Duration = Duration::from_millis(500);

pub(crate) enum Request {
    Read(u64),
    Replace { ticket: u64, expected: Option<Version>, next: Box<Agreement> },
}

pub(crate) enum Role {
    /// The epoch's empty record, and the epoch from which clients may write.
    Serve(Epoch, Arc<Mutex<Option<Pending>>>),
    Retire,
}

use parking_lot::Mutex;

/// Applies what is committed, up to the newest position that came; on a delayed member what is old enough of it.
pub(crate) fn apply(transactions: &Transactions, work: &Receiver<Position>, events: &Sender<Event>, shared: &Shared) {
    let (mut target, mut fits, mut is_early) = (Position::ZERO, true, false);
    loop {
        let waits = is_early || !fits;
        let next = if waits { work.recv_timeout(APPLY_RETRY).or_else(keep(target)).ok() } else { work.recv().ok() };
        let Some(next) = next else { return };
        target = work.try_iter().fold(target.max(next), Position::max);
        let delay = Duration::from_secs(shared.delay.load(Ordering::Relaxed));
        let outcome = match delay.is_zero() {
            true => transactions.set_matched_commit_point(target),
            false => transactions.set_matched_commit_point_delayed(target, delay),
        };
        is_early = !delay.is_zero() && matches!(outcome, Ok(reached) if reached < target);
        let now_fits = !matches!(outcome, Err(Error::OutOfSpace { .. }));
        if let Err(error) = outcome
            && now_fits
        {
            let _stopped = events.send(Event::Failed(format!("cannot apply what the set has committed: {error}")));
            return;
        }
        if now_fits != fits {
            fits = now_fits;
            let _stopped = events.send(Event::Fit(fits));
        }
    }
}

fn keep(target: Position) -> impl Fn(RecvTimeoutError) -> Result<Position, RecvTimeoutError> {
    move |error| match error {
        RecvTimeoutError::Timeout => Ok(target),
        RecvTimeoutError::Disconnected => Err(error),
    }
}

/// Carries out requests to the coordinator, one at a time, and hints at changes that others made.
pub(crate) fn coordinate(
    coordinator: &dyn Coordinator,
    work: &Receiver<Request>,
    events: &Sender<Event>,
    shared: &Shared,
) {
    let answered = || shared.coordinator_at.store(shared.now(), Ordering::Relaxed);
    loop {
        let input = match work.recv_timeout(HINT) {
            Ok(Request::Read(ticket)) => {
                let outcome = match coordinator.read() {
                    Ok(Some((version, agreement))) => ReadOutcome::Found(version, agreement),
                    Ok(None) => ReadOutcome::Empty,
                    Err(_) => ReadOutcome::Failed,
                };
                if outcome != ReadOutcome::Failed {
                    answered();
                }
                Input::Read { ticket, outcome }
            }
            Ok(Request::Replace { ticket, expected, next }) => {
                // An error says that nothing was done; the state machine asks again by reading.
                let outcome = coordinator.replace(expected, &next).unwrap_or(Replaced::Unknown);
                if outcome != Replaced::Unknown {
                    answered();
                }
                Input::Replaced { ticket, outcome }
            }
            Err(RecvTimeoutError::Timeout) => {
                let seen = shared.status.load().known.as_ref().map(|(version, _)| *version);
                if !coordinator.changed(seen) {
                    continue;
                }
                Input::Hint
            }
            Err(RecvTimeoutError::Disconnected) => return,
        };
        if events.send(Event::Coordinator(Box::new(input))).is_err() {
            return;
        }
    }
}

/// Has the server follow the changes of role, in their order.
pub(crate) fn change_roles(server: &dyn Server, transactions: &Transactions, work: &Receiver<Role>) {
    while let Ok(role) = work.recv() {
        match role {
            Role::Retire => server.retired(),
            Role::Serve(epoch, pending) => {
                let begun = pending.lock().take().is_none_or(|pending| pending.wait(None).is_ok());
                if begun && transactions.is_leading() {
                    server.leads(epoch);
                }
            }
        }
    }
}
