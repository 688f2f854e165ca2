//! Error labels: what a driver may do about an error.

use arbor_bson::{Code, Doc};

pub const TRANSIENT: &str = "TransientTransactionError";
pub const RETRYABLE: &str = "RetryableWriteError";

/// The server could not do it, and it or another one may do it later.
const TRY_LATER: &[Code] = &[
    Code::HOST_UNREACHABLE,
    Code::HOST_NOT_FOUND,
    Code::NETWORK_TIMEOUT,
    Code::SHUTDOWN_IN_PROGRESS,
    Code::PRIMARY_STEPPED_DOWN,
    Code::EXCEEDED_TIME_LIMIT,
    Code::SOCKET_EXCEPTION,
    Code::NOT_WRITABLE_PRIMARY,
    Code::INTERRUPTED_AT_SHUTDOWN,
    Code::INTERRUPTED_DUE_TO_REPL_STATE_CHANGE,
    Code::NOT_PRIMARY_NO_SECONDARY_OK,
    Code::NOT_PRIMARY_OR_SECONDARY,
];

/// Errors of a transaction that cannot continue, but may succeed on a newer snapshot.
const LOST_RACE: &[Code] = &[
    Code::LOCK_TIMEOUT,
    Code::WRITE_CONFLICT,
    Code::SNAPSHOT_UNAVAILABLE,
    Code::PREPARED_TRANSACTION_IN_PROGRESS,
    Code::SNAPSHOT_TOO_OLD,
    Code::MIGRATION_CONFLICT,
    Code::TEMPORARILY_UNAVAILABLE,
];

/// The labels of an error of a command with this body.
pub fn of(code: Code, body: Doc<'_>) -> Vec<String> {
    let in_transaction = body.get("autocommit").is_some();
    let is_numbered = body.get("txnNumber").is_some();
    let ends = matches!(body.first(), Some(("commitTransaction" | "abortTransaction", _)));
    let mut labels = Vec::new();
    if in_transaction && is_transient(code, ends) {
        labels.push(TRANSIENT.to_owned());
    }
    if is_numbered && (!in_transaction || ends) && TRY_LATER.contains(&code) {
        labels.push(RETRYABLE.to_owned());
    }
    labels
}

/// The labels of an error of the write concern of a command with this body: the write itself is done.
pub fn of_write_concern(code: Code, body: Doc<'_>) -> Vec<String> {
    of(code, body).into_iter().filter(|label| label != TRANSIENT).collect()
}

fn is_transient(code: Code, ends: bool) -> bool {
    LOST_RACE.contains(&code) || code == Code::NO_SUCH_TRANSACTION || (!ends && TRY_LATER.contains(&code))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arbor_notation::doc;

    #[test]
    fn labels_by_what_the_request_is_part_of() {
        let write = "{ insert: 'c', txnNumber: Long(1) }";
        let inside = "{ insert: 'c', txnNumber: Long(1), autocommit: false }";
        let commit = "{ commitTransaction: 1, txnNumber: Long(1), autocommit: false }";
        for (body, code, expect) in [
            (write, Code::NOT_WRITABLE_PRIMARY, &[RETRYABLE][..]),
            (write, Code::DUPLICATE_KEY, &[]),
            (write, Code::WRITE_CONFLICT, &[]),
            (inside, Code::WRITE_CONFLICT, &[TRANSIENT]),
            (inside, Code::NO_SUCH_TRANSACTION, &[TRANSIENT]),
            (inside, Code::NOT_WRITABLE_PRIMARY, &[TRANSIENT]),
            (inside, Code::DUPLICATE_KEY, &[]),
            (inside, Code::TRANSACTION_COMMITTED, &[]),
            (commit, Code::NO_SUCH_TRANSACTION, &[TRANSIENT]),
            (commit, Code::WRITE_CONFLICT, &[TRANSIENT]),
            (commit, Code::NOT_WRITABLE_PRIMARY, &[RETRYABLE]),
            ("{ insert: 'c' }", Code::NOT_WRITABLE_PRIMARY, &[]),
        ] {
            assert_eq!(of(code, doc(body).as_doc()), expect, "{body} {code:?}");
        }
        assert_eq!(of_write_concern(Code::NOT_WRITABLE_PRIMARY, doc(write).as_doc()), [RETRYABLE]);
        assert!(of_write_concern(Code::NOT_WRITABLE_PRIMARY, doc(inside).as_doc()).is_empty());
    }
}
