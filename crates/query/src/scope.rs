//! What a statement runs in: where its reads come from, and where its writes go.

use std::ops::Deref;

use arbor_lang::Code;
use arbor_txn::{Durability, Transaction};

use crate::{Database, Error, Executed, Result, StatementJournal};

/// Given to every statement in the place of the database, which it stands for.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    database: &'a Database,
    retries: Option<Retries<'a>>,
}

/// Statements that a client may send again.
#[derive(Clone, Copy)]
struct Retries<'a> {
    journal: &'a dyn StatementJournal,
    numbers: StatementNumbers<'a>,
}

/// How the statements of a command are numbered (`stmtId`, `stmtIds`).
#[derive(Clone, Copy, Debug)]
pub enum StatementNumbers<'a> {
    /// The first one has this number, each further one the next.
    From(i32),
    Listed(&'a [i32]),
}

impl StatementNumbers<'_> {
    /// None: the list is too short.
    fn number(self, index: usize) -> Option<i32> {
        match self {
            StatementNumbers::From(first) => Some(first.saturating_add(index as i32)),
            StatementNumbers::Listed(numbers) => numbers.get(index).copied(),
        }
    }

    /// Those of the statements from `first` on.
    pub fn behind(self, first: usize) -> Self {
        match self {
            StatementNumbers::From(number) => StatementNumbers::From(number.saturating_add(first as i32)),
            StatementNumbers::Listed(numbers) => StatementNumbers::Listed(numbers.get(first..).unwrap_or_default()),
        }
    }
}

impl<'a> Scope<'a> {
    /// Every statement is its own transaction.
    pub fn of(database: &'a Database) -> Scope<'a> {
        Scope { database, retries: None }
    }

    /// Statements that the journal knows are answered and not run; what the others do is recorded there, in the transaction
    /// that does it. They are numbered from 0 on.
    pub fn retryable(self, journal: &'a dyn StatementJournal) -> Scope<'a> {
        Scope { retries: Some(Retries { journal, numbers: StatementNumbers::From(0) }), ..self }
    }

    /// The statements have these numbers. Without effect when they are not retryable.
    pub fn numbered(self, numbers: StatementNumbers<'a>) -> Scope<'a> {
        Scope { retries: self.retries.map(|retries| Retries { numbers, ..retries }), ..self }
    }

    /// The statements are those of the command from `first` on.
    pub fn from_statement(self, first: usize) -> Scope<'a> {
        Scope {
            retries: self.retries.map(|retries| Retries { numbers: retries.numbers.behind(first), ..retries }),
            ..self
        }
    }

    /// Does the work in one transaction, which may take several attempts.
    pub(crate) fn write<T>(&self, work: impl FnMut(&mut Transaction) -> Result<T>) -> Result<T> {
        Ok(self.transactions.retry(Durability::Applied, work)?.0)
    }

    /// What the statement did when it was sent before. None: it is to be run.
    pub(crate) fn executed(&self, statement: usize) -> Result<Option<Executed>> {
        match self.retries {
            Some(retries) => retries.journal.executed(retries.number(statement)?),
            None => Ok(None),
        }
    }

    pub(crate) fn is_retryable(&self) -> bool {
        self.retries.is_some()
    }

    /// Which of the first `count` statements are not to be run again.
    pub(crate) fn executed_among(&self, count: usize) -> Result<Vec<usize>> {
        let mut known = Vec::new();
        for statement in 0..if self.retries.is_some() { count } else { 0 } {
            if self.executed(statement)?.is_some() {
                known.push(statement);
            }
        }
        Ok(known)
    }

    /// The changes that follow in this transaction are those of a statement.
    pub(crate) fn begin_statement(&self, _txn: &mut Transaction, statement: usize) -> Result<()> {
        if let Some(retries) = self.retries {
            let _number = retries.number(statement)?;
        }
        Ok(())
    }

    /// Notes what statements did in this transaction.
    pub(crate) fn record(&self, txn: &mut Transaction, done: &[(usize, Executed)]) -> Result<()> {
        let Some(retries) = self.retries.filter(|_| !done.is_empty()) else { return Ok(()) };
        let numbered = done.iter().map(|(statement, executed)| Ok((retries.number(*statement)?, executed.clone())));
        retries.journal.record(txn, &numbered.collect::<Result<Vec<_>>>()?)
    }

    /// The same for statements that did one and the same.
    pub(crate) fn record_each(
        &self,
        txn: &mut Transaction,
        statements: impl Iterator<Item = usize>,
        executed: impl Fn() -> Executed,
    ) -> Result<()> {
        if !self.is_retryable() {
            return Ok(());
        }
        self.record(txn, &statements.map(|statement| (statement, executed())).collect::<Vec<_>>())
    }

    /// Errors: for statements that `what` says cannot be sent again.
    pub(crate) fn refuse_retry(&self, what: &str) -> Result<()> {
        match self.retries {
            Some(_) => {
                let message = format!("Cannot use (or request) retryable writes with {what}");
                Err(Error::new(Code::INVALID_OPTIONS, message))
            }
            None => Ok(()),
        }
    }
}

impl Retries<'_> {
    fn number(&self, statement: usize) -> Result<i32> {
        let missing = || Error::bad_value(format!("there is no statement number for statement {statement}"));
        self.numbers.number(statement).ok_or_else(missing)
    }
}

impl Deref for Scope<'_> {
    type Target = Database;
    fn deref(&self) -> &Database {
        self.database
    }
}
