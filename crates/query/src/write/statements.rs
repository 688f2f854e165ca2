//! Running the statements of one command in order.
//!
//! Statements about single documents share transactions: each sees what those before it wrote, and one that fails
//! leaves nothing behind (the writes of `store` are all or nothing).

use std::borrow::Cow;

use arbor_lang::{Collation, Context};
use arbor_txn::{MaybeConflict, Transaction};

use crate::{Executed, Interrupt, Result, Scope, WriteError};

/// Statements that one transaction takes.
const GROUP_MAX: usize = 256;
/// A transaction that grew beyond this takes no further statement.
const GROUP_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Returns true if a transaction takes no further document: entries of indexes may be far larger than the documents. An open one
/// takes everything.
pub(crate) fn is_full(txn: &Transaction) -> bool {
    !txn.is_open() && txn.size_bytes() > GROUP_BYTES_MAX
}

/// The context of a statement that may name a collation of its own.
pub(crate) fn with_collation<'c>(context: &'c Context, collation: Option<&Collation>) -> Cow<'c, Context> {
    match collation {
        None => Cow::Borrowed(context),
        Some(collation) => Cow::Owned(Context { collation: collation.clone(), ..context.clone() }),
    }
}

/// Outcome of statement `index`.
pub(crate) struct Done<T> {
    pub index: usize,
    pub result: Result<T>,
}

impl<T> Done<T> {
    /// No statement after this one runs.
    fn stops(&self, ordered: bool) -> bool {
        self.result.as_ref().is_err_and(|error| ordered || !error.concerns_document())
    }
}

/// Result of a statement about one document.
pub(crate) trait Answer: Sized {
    /// Returns the reply to a retry. None: it changed nothing and may run again.
    fn executed(&self) -> Option<Executed>;

    fn again(executed: Executed) -> Result<Self>;
}

/// Runs the statements, but those that ran before. `multi` runs one that manages its own transactions, `single` one inside a transaction, which
/// may be run again.
pub(crate) fn run<S, T: Answer>(
    scope: &Scope<'_>,
    statements: &[S],
    ordered: bool,
    interrupt: &Interrupt,
    is_multi: impl Fn(&S) -> bool,
    mut multi: impl FnMut(&S) -> Result<T>,
    mut single: impl FnMut(&mut Transaction, &S) -> Result<T>,
) -> Vec<Done<T>> {
    let mut done: Vec<Done<T>> = Vec::with_capacity(statements.len());
    while let Some(rest) = statements.get(done.len()..).filter(|rest| !rest.is_empty()) {
        let index = done.len();
        let results = match interrupt.check().and_then(|()| scope.executed(index)) {
            Err(error) => vec![Done { index, result: Err(error) }],
            Ok(Some(executed)) => vec![Done { index, result: T::again(executed) }],
            Ok(None) if is_multi(&rest[0]) => vec![Done { index, result: multi(&rest[0]) }],
            Ok(None) => group_of(scope, rest, index, &is_multi)
                .and_then(|group| run_group(scope, group, index, ordered, &mut single))
                .unwrap_or_else(|error| vec![Done { index, result: Err(error) }]),
        };
        let stop = results.iter().any(|done| done.stops(ordered));
        done.extend(results);
        if stop {
            break;
        }
    }
    done
}

/// The statements that share a transaction with the first one, which is statement `first`.
fn group_of<'s, S>(
    scope: &Scope<'_>,
    statements: &'s [S],
    first: usize,
    is_multi: impl Fn(&S) -> bool,
) -> Result<&'s [S]> {
    let mut count = 1;
    while count < GROUP_MAX && statements.get(count).is_some_and(|next| !is_multi(next)) {
        if scope.executed(first + count)?.is_some() {
            break;
        }
        count += 1;
    }
    Ok(&statements[..count])
}

/// Runs statements that manage their own transactions; `work` gets the place of each.
pub(crate) fn run_each<S, T>(
    statements: &[S],
    ordered: bool,
    interrupt: &Interrupt,
    mut work: impl FnMut(usize, &S) -> Result<T>,
) -> Vec<Done<T>> {
    let mut done: Vec<Done<T>> = Vec::with_capacity(statements.len());
    for (index, statement) in statements.iter().enumerate() {
        done.push(Done { index, result: interrupt.check().and_then(|()| work(index, statement)) });
        if done.last().is_some_and(|done| done.stops(ordered)) {
            break;
        }
    }
    done
}

fn run_group<S, T: Answer>(
    scope: &Scope<'_>,
    group: &[S],
    first: usize,
    ordered: bool,
    single: &mut impl FnMut(&mut Transaction, &S) -> Result<T>,
) -> Result<Vec<Done<T>>> {
    let work = |txn: &mut Transaction| -> Result<Vec<Done<T>>> {
        let mut results: Vec<Done<T>> = Vec::with_capacity(group.len());
        let mut executed = Vec::new();
        for (at, statement) in group.iter().enumerate() {
            scope.begin_statement(txn, first + at)?;
            let result = match single(txn, statement) {
                Err(error) if error.is_conflict() => return Err(error),
                result => result,
            };
            if scope.is_retryable() {
                executed.extend(result.as_ref().ok().and_then(T::executed).map(|executed| (first + at, executed)));
            }
            let done = Done { index: first + at, result };
            let stop = done.stops(ordered) || is_full(txn);
            results.push(done);
            if stop {
                break;
            }
        }
        scope.record(txn, &executed)?;
        Ok(results)
    };
    scope.write(work)
}

/// Returns the errors in order; `take` gets the results of the others.
pub(crate) fn settle<T>(done: Vec<Done<T>>, mut take: impl FnMut(usize, T)) -> Vec<WriteError> {
    let mut errors = Vec::new();
    for Done { index, result } in done {
        match result {
            Ok(answer) => take(index, answer),
            Err(error) => errors.push(WriteError { index, error }),
        }
    }
    errors
}
