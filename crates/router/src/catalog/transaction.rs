//! Changes of several documents of the config servers at once, with majority.
//!
//! T1: a transaction that was left open, as by a router that has ended, is in the way of no other one: on `config`, the config servers find
//! conflicts at the commit alone, so the first commit wins. T2: one that was aborted is repeated here, and in no other place. Clients of
//! the commands that change the cluster do not know of it, and never get its errors. T3: each begins with the locks of its names, which shows
//! that they are still held: a router that was paused for longer than a lock lives writes nothing over what another one did meanwhile. T4: an
//! operation that ends may end in the middle of a commit: its statement then ends the transaction (`Guard::end_begun`), and reads what was decided.

use std::time::Duration;

use arbor_bson::{Code, DocBuf, ValueRef};
use arbor_command::{Error, Result};
use arbor_protocol::labels::{self, TRANSIENT};
use arbor_query::Interrupt;
use uuid::Uuid;

use super::Catalog;
use super::documents::lsid;
use crate::fields;
use crate::lock::{Guard, lock_is_lost};
use crate::shard::is_lost;

/// Longest time of a transaction, or another write, with all repetitions and searches for the primary.
const REPEATED_MAX: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_millis(2);

/// Repeats work on the config servers as long as it fails with errors after which it may succeed. The work has the time that is left.
pub(super) fn repeated<T>(
    interrupt: &Interrupt,
    is_passing: impl Fn(&Error) -> bool,
    mut work: impl FnMut(&Interrupt) -> Result<T>,
) -> Result<T> {
    let limited = interrupt.clone().within(REPEATED_MAX);
    let mut last = None;
    loop {
        let error = match work(&limited) {
            Err(error) if is_passing(&error) => error,
            // the time of the repetitions is over, not that of the operation
            Err(error) if error.code == Code::MAX_TIME_MS_EXPIRED && interrupt.check().is_ok() => {
                return Err(last.unwrap_or_else(no_reply));
            }
            outcome => return outcome,
        };
        interrupt.check()?;
        if limited.check().is_err() {
            return Err(error);
        }
        last = Some(error);
        std::thread::sleep(PAUSE);
    }
}

fn no_reply() -> Error {
    Error::new(Code::HOST_UNREACHABLE, "the config servers did not reply in time")
}

impl Catalog {
    /// Runs commands on `config` as one transaction of the holder of locks. Each update is of a document that is known to be there.
    ///
    /// Errors: LockBusy where another router has taken a lock away; ConflictingOperationInProgress where a document is not there, or others
    /// change the documents again and again.
    pub(crate) fn transaction<const N: usize>(
        &self,
        held: [&Guard<'_>; N],
        commands: &[DocBuf],
        interrupt: &Interrupt,
    ) -> Result<()> {
        const { assert!(N > 0, "nothing of the cluster is changed without a lock") };
        assert!(
            held.iter().any(|guard| guard.is_of_zones()) || !commands.iter().any(is_of_zones),
            "ranges of zones are changed with the lock of all of them alone"
        );
        repeated(interrupt, is_aborted, |limited| self.try_transaction(held, commands, limited)).map_err(for_client)
    }

    fn try_transaction<const N: usize>(
        &self,
        held: [&Guard<'_>; N],
        commands: &[DocBuf],
        interrupt: &Interrupt,
    ) -> Result<()> {
        let session = lsid(Uuid::new_v4());
        let part = |command: DocBuf| command.with("lsid", &session).with("txnNumber", 1i64).with("autocommit", false);
        let renewals = held.map(Guard::renewal);
        for (at, command) in renewals.iter().chain(commands).enumerate() {
            let mut command = part(command.clone());
            if at == 0 {
                command.append("startTransaction", true);
            }
            let ran = self.run("config", &command, interrupt);
            let reply = ran.map_err(|error| of_statement(error, &command))?;
            if command.get("updates").is_some() && fields::int(reply.as_doc(), "n") == 0 {
                // where it fails, the transaction ends by its age
                let _ = self.config.call("admin", &part(DocBuf::new().with("abortTransaction", 1i32)), interrupt);
                return Err(if at < N { lock_is_lost() } else { changed_meanwhile() });
            }
        }
        let concern = DocBuf::new().with("w", "majority");
        let commit = part(DocBuf::new().with("commitTransaction", 1i32)).with("writeConcern", &concern);
        // a member that has begun to lead knows whether it was committed
        repeated(interrupt, is_lost, |limited| self.run("admin", &commit, limited)).map(drop)
    }
}

/// Returns true for writes of `config.tags`.
fn is_of_zones(command: &DocBuf) -> bool {
    matches!(command.as_doc().first(), Some((_, ValueRef::String("tags"))))
}

/// Returns the error of a statement with its labels, which one of the connection does not have.
fn of_statement(mut error: Error, command: &DocBuf) -> Error {
    let own = labels::of(error.code, command.as_doc());
    error.labels.extend(own);
    error
}

fn changed_meanwhile() -> Error {
    Error::new(Code::CONFLICTING_OPERATION_IN_PROGRESS, "the cluster was changed meanwhile")
}

/// Returns true if the transaction has been aborted, and may succeed if it is repeated.
fn is_aborted(error: &Error) -> bool {
    error.code == Code::WRITE_CONFLICT || error.labels.iter().any(|label| label == TRANSIENT)
}

/// Returns the error of a transaction for a client that has none.
fn for_client(mut error: Error) -> Error {
    if error.code == Code::WRITE_CONFLICT {
        return changed_meanwhile();
    }
    error.labels.retain(|label| label != TRANSIENT);
    error
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::shard::error_of;
    use arbor_notation::doc;

    #[test]
    fn only_what_was_aborted_is_repeated() {
        let of = |text: &str| is_aborted(&error_of(doc(text).as_doc()));
        assert!(of("{ok: 0, code: 112, errmsg: 'conflict'}"));
        assert!(of("{ok: 0, code: 246, errmsg: 'an index was built', errorLabels: ['TransientTransactionError']}"));
        assert!(!of("{ok: 0, code: 91, errmsg: 'shutdown', errorLabels: ['RetryableWriteError']}"));
        assert!(!of("{ok: 0, code: 11000, errmsg: 'duplicate'}"));
    }

    #[test]
    fn what_had_no_reply_is_repeated_unless_it_was_the_commit() {
        let lost = || Error::new(Code::HOST_UNREACHABLE, "the connection ended");
        let of = |command: &str| is_aborted(&of_statement(lost(), &doc(command)));
        assert!(of("{update: 'chunks', txnNumber: Long(1), autocommit: false}"));
        assert!(!of("{commitTransaction: 1, txnNumber: Long(1), autocommit: false}"));
    }

    #[test]
    fn one_deadline_is_that_of_all_repetitions() {
        let (conflict, lost) =
            (|| Error::new(Code::WRITE_CONFLICT, "conflict"), || Error::new(Code::HOST_UNREACHABLE, "lost"));
        let calls = Cell::new(0);
        let outcome = repeated(&Interrupt::never(), is_aborted, |limited| {
            assert!(limited.remaining().is_some_and(|left| left <= REPEATED_MAX));
            calls.set(calls.get() + 1);
            if calls.get() < 3 { Err(conflict()) } else { Ok(()) }
        });
        assert!(outcome.is_ok() && calls.get() == 3);
        // the last request takes all the time that is left
        let outcome: Result<()> = repeated(&Interrupt::never(), is_lost, |_| match calls.replace(0) {
            3 => Err(lost()),
            _ => Err(arbor_query::Error::TimeExpired.into()),
        });
        assert_eq!(outcome.unwrap_err().message, "lost");
        let outcome: Result<()> =
            repeated(&Interrupt::never(), is_lost, |_| Err(arbor_query::Error::TimeExpired.into()));
        assert_eq!(outcome.unwrap_err().code, Code::HOST_UNREACHABLE);
        // that of the operation is over
        let over = Interrupt::never().within(Duration::ZERO);
        let outcome: Result<()> = repeated(&over, is_aborted, |_| Err(conflict()));
        assert_eq!(outcome.unwrap_err().code, Code::MAX_TIME_MS_EXPIRED);
    }

    #[test]
    fn clients_get_no_error_of_a_transaction() {
        let of = |text: &str| for_client(error_of(doc(text).as_doc()));
        let transient = "errorLabels: ['TransientTransactionError']";
        let conflict = of(&format!("{{ok: 0, code: 112, errmsg: 'conflict', {transient}}}"));
        assert_eq!((conflict.code, conflict.labels.len()), (Code::CONFLICTING_OPERATION_IN_PROGRESS, 0));
        let over = of(&format!("{{ok: 0, code: 251, errmsg: 'is over', {transient}}}"));
        assert_eq!((over.code, over.labels.len()), (Code::NO_SUCH_TRANSACTION, 0));
        assert!(!is_aborted(&conflict) && !is_aborted(&over), "the caller sees that it was not done");
    }
}
