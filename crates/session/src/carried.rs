//! Statements that go to another server together with the documents that they changed, so that a retry there is recognized.

use std::ops::ControlFlow;

use arbor_base::Intent;
use arbor_oplog::SessionId;
use arbor_txn::{Durability, Transaction};

use crate::registry::Sessions;
use crate::row::Ended;
use crate::{Error, Result, rows};

/// The statements of a session's last retryable write, with their answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carried {
    pub session: SessionId,
    pub number: i64,
    pub statements: Vec<(i32, Vec<u8>)>,
}

impl<T> Sessions<T> {
    /// Returns what a session is to carry. None: its last transaction number was no retryable write.
    pub fn carried(&self, session: SessionId) -> Result<Option<Carried>> {
        let view = self.transactions().read()?;
        let Some(row) = rows::read(&view, session)?.filter(|row| row.ended == Ended::Statements) else {
            return Ok(None);
        };
        let number = row.number;
        let statements = rows::statements(&view, session, row)?.all();
        Ok(Some(Carried { session, number, statements }))
    }

    /// Returns the sessions that have written since `wall`, milliseconds since 1970.
    pub fn written_since(&self, wall: i64) -> Result<Vec<SessionId>> {
        let mut found = Vec::new();
        rows::each(&self.transactions().read()?, None, |session, row| {
            if row.wall >= wall && row.ended == Ended::Statements {
                found.push(session);
            }
            ControlFlow::Continue(())
        })?;
        Ok(found)
    }

    /// Records statements that another server has done. A session that has gone on to a greater number does not need them.
    pub fn take_over(&self, carried: &Carried, wall: i64, interrupted: &dyn Fn() -> bool) -> Result<()> {
        let out = match self.check_out(carried.session, carried.number, Intent::Write, wall, interrupted) {
            Ok(out) => out,
            Err(error @ (Error::Interrupted | Error::Txn(_) | Error::Damaged(_))) => return Err(error),
            Err(_) => return Ok(()),
        };
        let journal = out.journal();
        let mut new = Vec::new();
        for (statement, answer) in &carried.statements {
            if journal.executed(*statement)?.is_none() {
                new.push((*statement, answer.as_slice()));
            }
        }
        let record = |txn: &mut Transaction| {
            txn.hide();
            journal.record(txn, new.iter().copied())
        };
        self.transactions().retry(Durability::Applied, record)?;
        Ok(())
    }
}
