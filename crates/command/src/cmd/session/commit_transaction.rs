//! `commitTransaction`, `abortTransaction` and TokuMX's `rollbackTransaction`. What is done with the transaction is done when
//! the session takes it back, see [`InSession::leave`](crate::session::InSession::leave).

use arbor_bson::Code;

use crate::call::Call;
use crate::{Error, Result};

pub(crate) fn commit(call: &mut Call<'_>) -> Result<()> {
    end(call, "transaction committed")
}

pub(crate) fn abort(call: &mut Call<'_>) -> Result<()> {
    end(call, "transaction aborted")
}

pub(crate) fn roll_back(call: &mut Call<'_>) -> Result<()> {
    if call.connection.bound.is_none() {
        return Err(not_inside(call));
    }
    end(call, "transaction rolled back")
}

fn end(call: &mut Call<'_>, bound_answer: &str) -> Result<()> {
    if call.connection.bound.take().is_some() {
        call.reply.append("status", bound_answer);
        return Ok(());
    }
    call.only(&["recoveryToken", "participants"])?;
    if call.db != "admin" {
        let text = format!("{} may only be run against the admin database.", call.info.name);
        return Err(Error::new(Code::UNAUTHORIZED, text));
    }
    if call.session.is_none() {
        return Err(not_inside(call));
    }
    Ok(())
}

fn not_inside(call: &Call<'_>) -> Error {
    Error::new(Code::COMMAND_FAILED, format!("{} must be run within a transaction", call.info.name))
}
