//! What a statement runs in: where its reads come from, and where its writes go.

use std::ops::Deref;

use crate::{Database, StatementJournal};

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
}

impl Deref for Scope<'_> {
    type Target = Database;
    fn deref(&self) -> &Database {
        self.database
    }
}
