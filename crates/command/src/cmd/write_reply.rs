//! What the three write commands share: limits, and errors of single statements.

use arbor_bson::ArrayBuf;
use arbor_lang::Code;
use arbor_query::WriteError;

use crate::call::Call;
use crate::{Error, Result};

/// `maxWriteBatchSize`.
pub const STATEMENTS_MAX: usize = 100_000;

pub fn check_count(statements: usize) -> Result<()> {
    if (1..=STATEMENTS_MAX).contains(&statements) {
        return Ok(());
    }
    let text = format!("Write batch sizes must be between 1 and {STATEMENTS_MAX}. Got {statements} operations.");
    Err(Error::new(Code::INVALID_LENGTH, text))
}

/// An interruption and a store that closes are no fault of a statement: they fail the command.
pub fn is_fatal(error: &Error) -> bool {
    matches!(error.code, Code::MAX_TIME_MS_EXPIRED | Code::INTERRUPTED | Code::SHUTDOWN_IN_PROGRESS)
}

/// Appends `writeErrors`.
pub fn append_errors(call: &mut Call<'_>, errors: Vec<WriteError>) -> Result<()> {
    let mut array = ArrayBuf::new();
    for WriteError { index, error } in errors {
        let error = call.server.with_namespace(Error::from(error));
        if is_fatal(&error) {
            return Err(error);
        }
        array.push(&error.to_write_error(index));
    }
    if !array.is_empty() {
        call.reply.append("writeErrors", &array);
    }
    Ok(())
}
