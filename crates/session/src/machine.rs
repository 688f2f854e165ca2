//! The transaction number of a session and what became of it.
//!
//! ```text
//!   Statements(n)  <── a retryable write with a higher number
//!   InProgress(n)  <── startTransaction with a higher number
//!        ├── commit ──> Committed(n)
//!        └── abort, error, kill, lifetime, a higher number ──> Aborted(n)
//! ```
//!
//! M1: the number never falls. M2: what was committed or aborted stays so.

use arbor_base::Intent;
use arbor_bson::SessionId;

use crate::{Error, Result};

/// The state that an accepted request finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Goes,
    /// The request is a commit of a transaction that is committed already.
    WasCommitted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Statements,
    InProgress,
    Committed,
    Aborted,
}

impl Phase {
    fn name(self) -> &'static str {
        match self {
            Phase::Statements => "TxnState::ExecutedRetryableWrite",
            Phase::InProgress => "TxnState::InProgress",
            Phase::Committed => "TxnState::Committed",
            Phase::Aborted => "TxnState::AbortedWithoutPrepare",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Machine {
    /// -1: there was none yet.
    pub number: i64,
    pub phase: Phase,
}

impl Default for Machine {
    fn default() -> Machine {
        Machine { number: -1, phase: Phase::Statements }
    }
}

impl Machine {
    /// Ensures on an error: nothing has changed. A transaction of a lower number is over afterwards.
    pub(crate) fn take(&mut self, session: SessionId, number: i64, intent: Intent) -> Result<Outcome> {
        match intent {
            Intent::Write => self.write(session, number),
            Intent::Begin => self.begin(session, number),
            Intent::Continue | Intent::Commit | Intent::Abort => self.go_on(number, intent),
        }
    }

    fn write(&mut self, session: SessionId, number: i64) -> Result<Outcome> {
        if number < self.number {
            return Err(Error::WriteTooOld { session, number, newer: self.number });
        }
        if number == self.number && self.phase != Phase::Statements {
            return Err(Error::NoAutocommit);
        }
        *self = Machine { number, phase: Phase::Statements };
        Ok(Outcome::Goes)
    }

    fn begin(&mut self, session: SessionId, number: i64) -> Result<Outcome> {
        if number < self.number {
            return Err(Error::TransactionTooOld { session, number, newer: self.number });
        }
        if number == self.number {
            return Err(Error::AlreadyStarted { number, state: self.phase.name() });
        }
        *self = Machine { number, phase: Phase::InProgress };
        Ok(Outcome::Goes)
    }

    fn go_on(&self, number: i64, intent: Intent) -> Result<Outcome> {
        if number != self.number || self.phase == Phase::Statements {
            return Err(Error::NotInProgress { number, active: self.number });
        }
        match self.phase {
            Phase::Committed if intent == Intent::Commit => Ok(Outcome::WasCommitted),
            Phase::Committed => Err(Error::Committed { number }),
            Phase::Aborted => Err(Error::Aborted { number }),
            Phase::InProgress | Phase::Statements => Ok(Outcome::Goes),
        }
    }

    /// A transaction that was in progress ends.
    pub(crate) fn end(&mut self, phase: Phase) {
        if self.phase == Phase::InProgress {
            self.phase = phase;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Intent::*;
    use uuid::Uuid;

    const SESSION: SessionId = SessionId { id: Uuid::from_u128(7), user: [0; 32] };

    fn take(machine: &mut Machine, number: i64, intent: Intent) -> std::result::Result<Outcome, i32> {
        let before = *machine;
        let outcome = machine.take(SESSION, number, intent);
        assert!(machine.number >= before.number, "M1");
        assert!(outcome.is_ok() || *machine == before, "an error changed something");
        outcome.map_err(|error| error.code().unwrap().0)
    }

    #[test]
    fn every_intent_in_every_phase() {
        let at = |phase| Machine { number: 5, phase };
        let goes = Ok(Outcome::Goes);
        for (phase, intent, lower, same, higher) in [
            (Phase::Statements, Write, Err(225), goes, goes),
            (Phase::Statements, Begin, Err(225), Err(50911), goes),
            (Phase::Statements, Continue, Err(251), Err(251), Err(251)),
            (Phase::Statements, Commit, Err(251), Err(251), Err(251)),
            (Phase::Statements, Abort, Err(251), Err(251), Err(251)),
            (Phase::InProgress, Write, Err(225), Err(72), goes),
            (Phase::InProgress, Begin, Err(225), Err(50911), goes),
            (Phase::InProgress, Continue, Err(251), goes, Err(251)),
            (Phase::InProgress, Commit, Err(251), goes, Err(251)),
            (Phase::InProgress, Abort, Err(251), goes, Err(251)),
            (Phase::Committed, Write, Err(225), Err(72), goes),
            (Phase::Committed, Begin, Err(225), Err(50911), goes),
            (Phase::Committed, Continue, Err(251), Err(256), Err(251)),
            (Phase::Committed, Commit, Err(251), Ok(Outcome::WasCommitted), Err(251)),
            (Phase::Committed, Abort, Err(251), Err(256), Err(251)),
            (Phase::Aborted, Write, Err(225), Err(72), goes),
            (Phase::Aborted, Begin, Err(225), Err(50911), goes),
            (Phase::Aborted, Continue, Err(251), Err(251), Err(251)),
            (Phase::Aborted, Commit, Err(251), Err(251), Err(251)),
            (Phase::Aborted, Abort, Err(251), Err(251), Err(251)),
        ] {
            for (number, expect) in [(4, lower), (5, same), (6, higher)] {
                assert_eq!(take(&mut at(phase), number, intent), expect, "{phase:?} {intent:?} {number}");
            }
        }
    }

    #[test]
    fn texts() {
        let text =
            |phase, number, intent| Machine { number: 5, phase }.take(SESSION, number, intent).unwrap_err().to_string();
        for (phase, number, intent, expect) in [
            (
                Phase::Statements,
                6,
                Continue,
                "Given transaction number 6 does not match any in-progress transactions. The active transaction number is 5",
            ),
            (Phase::Aborted, 5, Continue, "Transaction with { txnNumber: 5 } has been aborted."),
            (Phase::Committed, 5, Abort, "Transaction with { txnNumber: 5 } has been committed."),
            (
                Phase::InProgress,
                4,
                Begin,
                "Cannot start transaction with { txnNumber: 4 } on session 00000000-0000-0000-0000-000000000007 - \
                 0000000000000000 because a newer transaction with txnNumberAndRetryCounter { txnNumber: 5, \
                 txnRetryCounter: 0 } has already started on this session.",
            ),
        ] {
            assert_eq!(text(phase, number, intent), expect);
        }
    }

    #[test]
    fn what_is_over_stays_so() {
        let mut machine = Machine::default();
        assert_eq!(take(&mut machine, 0, Continue), Err(251));
        take(&mut machine, 0, Begin).unwrap();
        machine.end(Phase::Committed);
        machine.end(Phase::Aborted);
        assert_eq!(machine.phase, Phase::Committed);
    }
}
