//! Helpers of the three write commands: limits, and errors of single statements.

use arbor_bson::{ArrayBuf, Code};
use arbor_query::WriteError;

use crate::call::Call;
use crate::{Error, Result};

/// `maxWriteBatchSize`.
pub(crate) const STATEMENTS_MAX: usize = 100_000;

/// There are neither too few nor too many, and each has a number when it is to be remembered.
pub(crate) fn check_count(call: &Call<'_>, statements: usize) -> Result<()> {
    check_length(statements)?;
    match call.session {
        Some(session) => session.numbers().check_count(statements),
        None => Ok(()),
    }
}

pub(crate) fn check_length(statements: usize) -> Result<()> {
    if (1..=STATEMENTS_MAX).contains(&statements) {
        return Ok(());
    }
    let text = format!("Write batch sizes must be between 1 and {STATEMENTS_MAX}. Got {statements} operations.");
    Err(Error::new(Code::INVALID_LENGTH, text))
}

/// Returns true for an interruption, a store that closes, a member that no longer leads and a transaction that cannot continue. These are not errors of a
/// statement: they fail the command.
pub(crate) fn is_fatal(error: &Error) -> bool {
    matches!(
        error.code,
        Code::MAX_TIME_MS_EXPIRED
            | Code::INTERRUPTED
            | Code::SHUTDOWN_IN_PROGRESS
            | Code::NOT_WRITABLE_PRIMARY
            | Code::INTERRUPTED_DUE_TO_REPL_STATE_CHANGE
            | Code::WRITE_CONFLICT
            | Code::TEMPORARILY_UNAVAILABLE
            | Code::SNAPSHOT_UNAVAILABLE
            | Code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION
    )
}

/// Appends `writeErrors`, which the client of an unacknowledged write does not want.
pub(crate) fn append_errors(call: &mut Call<'_>, errors: Vec<WriteError>) -> Result<()> {
    let mut array = ArrayBuf::new();
    for WriteError { index, error } in errors {
        let error = call.server.with_namespace(Error::from(error));
        if is_fatal(&error) {
            return Err(error);
        }
        array.push(&error.to_write_error(index));
    }
    if !array.is_empty() && !call.generic.write_concern.unacknowledged {
        call.reply.append("writeErrors", &array);
    }
    Ok(())
}
