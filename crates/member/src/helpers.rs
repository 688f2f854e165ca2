//! Threads for what takes long: applying, the coordinator, changes of role.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use arbor_base::Position;
use arbor_bson::ObjectId;
use arbor_repl::isr::{Input, ReadOutcome};
use arbor_repl::{Agreement, Coordinator, Epoch, Replaced, Version};
use arbor_txn::{Error, Pending, Transactions};

use crate::driver::config_of;
use crate::event::Event;
use crate::shown::{Server, Shared};

/// An application is tried again after this time when there was no space, or when it was too early.
const APPLY_RETRY: Duration = Duration::from_millis(200);
/// A change by another member shows at the latest after this time, where no message says it.
const HINT: Duration = Duration::from_millis(500);

/// An agreement and its version, as a coordinator has it.
type Found = Option<(Version, Agreement)>;

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

/// Runs the work of a thread without which the member is none: `failed` gets the reason when it panics.
pub(crate) fn guard(name: &str, work: impl FnOnce(), failed: impl FnOnce(&str)) {
    let Err(panic) = catch_unwind(AssertUnwindSafe(work)) else { return };
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    failed(&format!("the thread {name} panicked: {}", text.unwrap_or("without a text")));
}

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

/// Errors: it is the agreement of another set, which has the same name and another coordinator.
fn of_set(found: Found, set_id: Option<ObjectId>) -> Result<Found, String> {
    let other = found.as_ref().and_then(|(_, agreement)| config_of(agreement)?.settings.set_id);
    match (set_id, other) {
        (Some(own), Some(other)) if own != other => Err(format!(
            "it has the agreement of another replica set of this name (replicaSetId {other}; this member's set is {own}): give this member the endpoints of its set"
        )),
        _ => Ok(found),
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
    (coordinator, set_id): (&dyn Coordinator, Option<ObjectId>),
    work: &Receiver<Request>,
    events: &Sender<Event>,
    (shared, server): (&Shared, &dyn Server),
) {
    let answered = || shared.coordinator_at.store(shared.now(), Ordering::Relaxed);
    let mut is_this_sets = false;
    loop {
        let input = match work.recv_timeout(HINT) {
            Ok(Request::Read(ticket)) => {
                let found = coordinator.read().map_err(|error| error.to_string());
                let (outcome, error) = match found.and_then(|found| of_set(found, set_id)) {
                    Ok(Some((version, agreement))) => (ReadOutcome::Found(version, agreement), None),
                    Ok(None) => (ReadOutcome::Empty, Some("it has no agreement of this set".to_owned())),
                    Err(error) => (ReadOutcome::Failed, Some(error)),
                };
                is_this_sets |= error.is_none();
                let before = std::mem::replace(&mut *shared.coordinator_error.lock(), error.clone());
                if let Some(error) = error.filter(|_| before.is_none()) {
                    server.coordinator_fails(&error);
                }
                if outcome != ReadOutcome::Failed {
                    answered();
                }
                Input::Read { ticket, outcome }
            }
            Ok(Request::Replace { ticket, expected, next }) => {
                assert!(is_this_sets, "a request follows a read: the version that it expects is this set's");
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

#[cfg(test)]
mod tests {
    use arbor_repl::coordinator::contract;

    use super::*;

    #[test]
    fn a_panic_of_a_thread_is_a_failure_of_the_member() {
        let reason = |work: fn()| {
            let mut reason = None;
            guard("arbor-member", work, |text| reason = Some(text.to_owned()));
            reason
        };
        assert_eq!(reason(|| {}), None);
        let panicked = reason(|| panic!("R1: {}", 1)).unwrap_or_default();
        assert_eq!(panicked, "the thread arbor-member panicked: R1: 1");
        assert_eq!(reason(|| panic!("R2")).unwrap_or_default(), "the thread arbor-member panicked: R2");
    }

    #[test]
    fn the_agreement_of_another_set_is_refused() {
        let (own, other) = (ObjectId([1; 12]), ObjectId([2; 12]));
        let of = |set_id: Option<ObjectId>| {
            let mut config = arbor_repl::SetConfig::of_one("rs0", "a:27017".to_owned());
            config.settings.set_id = set_id;
            let config = config.to_doc(1).as_bytes().to_vec();
            Some((Version(1), Agreement { config, ..contract::agreement(1) }))
        };
        for accepted in [None, of(None), of(Some(own))] {
            assert_eq!(of_set(accepted.clone(), Some(own)), Ok(accepted));
        }
        assert_eq!(of_set(of(Some(other)), None), Ok(of(Some(other))));
        let refused = of_set(of(Some(other)), Some(own)).unwrap_err();
        assert!(
            refused.contains("another replica set of this name") && refused.contains(&own.to_string()),
            "{refused}"
        );
    }
}
