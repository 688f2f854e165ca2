//! Statements of retryable writes that a router runs in transactions of its own. The shard that decides about such a transaction remembers, with the same
//! record, what the statement has done; so a retry finds it, and a transaction that is not committed leaves nothing.
//!
//! The retry begins its transaction on all shards, in the same session: that ends what is left of the transaction before, unless it is decided.

use arbor_bson::{Doc, DocBuf, ValueRef};
use arbor_protocol::log::now_ms;
use arbor_query::{Executed, FindAndModifyOutcome, StatementJournal};
use arbor_session::Intent;

use super::from_bytes;
use super::statements::Statements;
use crate::call::Call;
use crate::{Error, Result};

const FIND_AND_MODIFY: &str = "findAndModify";

/// `_shardsvrStatement`: says what a statement has done, or, with `done`, that the open transaction does it.
pub(crate) fn statement(call: &mut Call<'_>) -> Result<()> {
    call.only(&["session", "number", "statement", "done", "new"])?;
    let session = match call.required("session")? {
        ValueRef::Binary { bytes, .. } => from_bytes(bytes),
        _ => None,
    };
    let session = session.ok_or_else(|| Error::bad_value("session must be the 48 bytes of one"))?;
    let (number, statement) = match (call.required("number")?, call.required("statement")?) {
        (ValueRef::Int64(number), ValueRef::Int32(statement)) => (number, statement),
        _ => return Err(Error::bad_value("number must be a long, and statement an int")),
    };
    let done = call.optional("done").map(|value| call.field("done").document(value)).transpose()?;
    let interrupted = || call.interrupt.check().is_err();
    let out = match call.server.sessions.check_out(session, number, Intent::Write, now_ms(), &interrupted) {
        // another transaction number of this session would not help
        Err(error @ arbor_session::Error::WriteTooOld { .. }) => {
            call.reply.append("tooOld", error.to_string().as_str());
            return Ok(());
        }
        out => out?,
    };
    let post_image = matches!(call.optional("new"), Some(ValueRef::Bool(true)));
    let statements = Statements { journal: out.journal(), post_image };
    match done {
        None => {
            if let Some(executed) = statements.executed(statement)? {
                call.reply.append("done", &described(&executed));
            }
        }
        Some(done) => {
            let executed = read(done).ok_or_else(|| Error::bad_value("done is no outcome of an update"))?;
            call.scope().write(|txn| statements.record(txn, &[(statement, &executed)]))?;
        }
    }
    Ok(())
}

fn described(executed: &Executed) -> DocBuf {
    let (kind, n, upserted) = match executed {
        Executed::Inserted => ("insert", 1, None),
        Executed::Deleted(n) => ("delete", *n, None),
        Executed::Updated { matched, upserted, .. } => ("update", *matched, upserted.as_ref()),
        Executed::FoundAndModified(outcome) => (FIND_AND_MODIFY, outcome.n, outcome.upserted.as_ref()),
    };
    let mut doc = DocBuf::new().with("kind", kind).with("n", n as i64);
    if let Some(id) = upserted {
        doc.append("upserted", id);
    }
    match executed {
        Executed::Updated { modified, .. } => drop(doc.append("nModified", *modified as i64)),
        Executed::FoundAndModified(outcome) => {
            doc.append("updatedExisting", outcome.updated_existing);
            if let Some(value) = &outcome.value {
                doc.append("value", value);
            }
        }
        Executed::Inserted | Executed::Deleted(_) => {}
    }
    doc
}

/// Reads what [`described`] returns of an update.
fn read(done: Doc<'_>) -> Option<Executed> {
    let count = |name| match done.get(name) {
        Some(ValueRef::Int64(n)) => u64::try_from(n).ok(),
        _ => None,
    };
    let upserted = done.get("upserted").map(ValueRef::to_value);
    match done.get("kind")? {
        ValueRef::String("update") => {
            Some(Executed::Updated { matched: count("n")?, modified: count("nModified")?, upserted })
        }
        ValueRef::String(FIND_AND_MODIFY) => {
            let value = match done.get("value") {
                Some(ValueRef::Document(value)) => Some(value.to_buf()),
                _ => None,
            };
            let updated_existing = matches!(done.get("updatedExisting"), Some(ValueRef::Bool(true)));
            let outcome = FindAndModifyOutcome { value, n: count("n")?, updated_existing, upserted };
            Some(Executed::FoundAndModified(Box::new(outcome)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arbor_bson::Value;
    use arbor_notation::doc;

    #[test]
    fn outcomes_of_updates_are_read_as_they_were_described() {
        let found = FindAndModifyOutcome {
            value: Some(doc("{_id: 1, a: 2}")),
            n: 1,
            updated_existing: false,
            upserted: Some(Value::Int32(1)),
        };
        for executed in [
            Executed::Updated { matched: 1, modified: 0, upserted: None },
            Executed::Updated { matched: 0, modified: 0, upserted: Some(Value::Int32(7)) },
            Executed::FoundAndModified(Box::new(found)),
        ] {
            let again = read(described(&executed).as_doc()).unwrap();
            assert_eq!(format!("{again:?}"), format!("{executed:?}"));
        }
        assert!(read(described(&Executed::Deleted(1)).as_doc()).is_none());
    }
}
