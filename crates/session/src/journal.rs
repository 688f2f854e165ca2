//! The statements of one retryable write: which were done by an earlier request with the same number, and which are done
//! now. What is done is written by the transaction that does it, so both are there after a crash, or neither.
//!
//! J1: `record` may be called again for the same work, on a new transaction, when a commit lost a race; so nothing that it
//! was given counts before it is read back from the tree.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use arbor_oplog::{Retry, SessionId, Statement};
use arbor_txn::{Transaction, Transactions};
use parking_lot::Mutex;

use crate::row::{self, Ended, Row};
use crate::rows::{self, TREE};
use crate::runs::{ByNumber, Runs};
use crate::{Result, Statistics};

/// The part of a session's row that the registry remembers, so that most writes need not read the row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored {
    /// Not above it: the row's number.
    pub number: i64,
    /// There may be further rows.
    pub further: bool,
}

pub struct Journal {
    transactions: Arc<Transactions>,
    statistics: Arc<Statistics>,
    session: SessionId,
    number: i64,
    stored: Stored,
    wall: i64,
    /// Statements done by earlier requests; read on first use.
    earlier: OnceLock<ByNumber>,
    recorded: AtomicBool,
    further: AtomicBool,
    retried: Mutex<BTreeSet<i32>>,
}

impl Journal {
    pub(crate) fn new(
        transactions: Arc<Transactions>,
        statistics: Arc<Statistics>,
        session: SessionId,
        number: i64,
        stored: Stored,
        wall: i64,
    ) -> Journal {
        Journal {
            transactions,
            statistics,
            session,
            number,
            stored,
            wall,
            earlier: OnceLock::new(),
            recorded: AtomicBool::new(false),
            further: AtomicBool::new(stored.further),
            retried: Mutex::default(),
        }
    }

    /// Returns the reply of a statement that an earlier request did.
    pub fn executed(&self, statement: i32) -> Result<Option<Vec<u8>>> {
        if self.stored.number < self.number {
            return Ok(None);
        }
        let answer = self.earlier()?.get(statement).map(<[u8]>::to_vec);
        if answer.is_some() && self.lock_retried().insert(statement) {
            self.statistics.retried_statements.add(1);
        }
        Ok(answer)
    }

    /// Records in `txn` that it does these statements, with the reply of each.
    pub fn record<A: Into<Vec<u8>>>(
        &self,
        txn: &mut Transaction,
        done: impl IntoIterator<Item = (i32, A)>,
    ) -> Result<()> {
        let mut runs = Runs::default();
        for (statement, answer) in done {
            runs.push(statement, answer.into());
        }
        if runs.is_empty() {
            return Ok(());
        }
        let (mut row, is_new) = self.row(txn)?;
        if is_new && self.further.load(Ordering::Relaxed) {
            rows::delete_further(txn, self.session);
        }
        if let Some((number, full)) = row.add(runs) {
            let mut bytes = Vec::new();
            full.encode(&mut bytes);
            txn.put(TREE, row::further_key(self.session, number), bytes);
            self.further.store(true, Ordering::Relaxed);
        }
        self.recorded.store(true, Ordering::Relaxed);
        put(txn, self.session, &row, Retry::Statements);
        self.statistics.rows_written.add(1);
        Ok(())
    }

    /// Statements that this request asked for and that had been done.
    pub fn retried(&self) -> Vec<i32> {
        self.lock_retried().iter().copied().collect()
    }

    /// Returns what is known of the row after this request.
    pub(crate) fn stored(&self) -> Stored {
        match self.recorded.load(Ordering::Relaxed) {
            true => Stored { number: self.number, further: self.further.load(Ordering::Relaxed) },
            false => self.stored,
        }
    }

    /// The row as `txn` has it, or a new one for this number.
    fn row(&self, txn: &Transaction) -> Result<(Row, bool)> {
        let blank = || Row::new(self.number, Ended::Statements, self.wall);
        if self.stored.number < self.number && !self.recorded.load(Ordering::Relaxed) {
            return Ok((blank(), true));
        }
        Ok(match rows::read(txn, self.session)?.filter(|row| row.number == self.number) {
            Some(row) => (Row { wall: self.wall, ..row }, false),
            None => (blank(), true),
        })
    }

    fn earlier(&self) -> Result<&ByNumber> {
        if let Some(earlier) = self.earlier.get() {
            return Ok(earlier);
        }
        let view = self.transactions.read()?;
        let row = rows::read(&view, self.session)?;
        let read = match row.filter(|row| row.number == self.number && row.ended == Ended::Statements) {
            Some(row) => rows::statements(&view, self.session, row)?,
            None => ByNumber::default(),
        };
        Ok(self.earlier.get_or_init(|| read))
    }

    fn lock_retried(&self) -> parking_lot::MutexGuard<'_, BTreeSet<i32>> {
        self.retried.lock()
    }
}

/// Puts a session's row, and records for the readers of the history which session made these changes.
pub(crate) fn put(txn: &mut Transaction, session: SessionId, row: &Row, retry: Retry) {
    txn.put(TREE, row::key(session), row.encode());
    if txn.keeps_history() {
        txn.set_logical(Statement { session, number: row.number, retry }.encode());
    }
}
