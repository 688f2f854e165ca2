//! Scope of a statement: the state its reads see, and the transaction of its writes.

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;

use arbor_bson::{Doc, Timestamp};
use arbor_lang::{Code, Collation, Context, shard_key_of};
use arbor_store::{Collection, CollectionGuard, Namespace, OpenTransaction};
use arbor_txn::{Durability, ReadView, Transaction};

use crate::database::now_ms;
use crate::names::Names;
use crate::plan::{ChosenIndex, Query};
use crate::{Database, Error, Executed, IndexHints, LastCommit, Result, StatementJournal, WriteError};

/// Passed to every statement instead of the database, to which it dereferences.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    database: &'a Database,
    place: Place<'a>,
    retries: Option<Retries<'a>>,
    /// The statement is the server's own, not a client's.
    is_of_server: bool,
    /// Receives the position of every commit.
    last_commit: Option<&'a LastCommit>,
    /// Index hints of the query settings for this statement.
    hints: Option<&'a IndexHints>,
    sharded: Option<&'a dyn Sharded>,
}

/// A collection of which other shards have parts, as a router's statement on it finds it.
pub trait Sharded: Sync {
    /// Returns the shard key, if this shard has it.
    fn key(&self) -> Option<Doc<'_>>;
    /// Returns true for a document that is still here after another shard became its owner, and may be deleted now. Statements do not
    /// see it.
    fn is_left(&self, doc: Doc<'_>) -> bool;
    /// Returns the filter of the buckets that a statement on a time series sees. None: all that there are.
    fn buckets(&self) -> Option<Doc<'_>>;
}

#[derive(Clone, Copy)]
enum Place<'a> {
    /// Reads see the last commit, writes are committed with their statement.
    Now,
    Transaction(&'a OpenTransaction),
    /// Reads see this state.
    At(&'a ReadView),
}

/// A collection that a statement writes to.
pub(crate) enum ToWrite {
    /// Stays as it is until the statement is done.
    Guarded(CollectionGuard),
    /// The transaction's commit finds out whether it stayed as it is.
    Open(Arc<Collection>),
}

impl Deref for ToWrite {
    type Target = Collection;
    fn deref(&self) -> &Collection {
        match self {
            ToWrite::Guarded(held) => held,
            ToWrite::Open(collection) => collection,
        }
    }
}

/// Statements that a client may send again.
#[derive(Clone, Copy)]
struct Retries<'a> {
    journal: &'a dyn StatementJournal,
    numbers: StatementNumbers<'a>,
}

/// Numbering of the statements of a command (`stmtId`, `stmtIds`).
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
    pub fn starting_at(self, first: usize) -> Self {
        match self {
            StatementNumbers::From(number) => StatementNumbers::From(number.saturating_add(first as i32)),
            StatementNumbers::Listed(numbers) => StatementNumbers::Listed(numbers.get(first..).unwrap_or_default()),
        }
    }
}

/// Errors: `InvalidNamespace` for a collection that clients may only read.
pub fn check_writable(namespace: &Namespace) -> Result<()> {
    match namespace.is_of_server() {
        true => only_read(namespace),
        false => Ok(()),
    }
}

fn only_read(namespace: &Namespace) -> Result<()> {
    Err(Error::new(Code::INVALID_NAMESPACE, format!("cannot write to {namespace}")))
}

/// A past state takes no writes: the read concern that asks for one is refused for all commands but three that read.
fn writes_the_past() -> ! {
    unreachable!("R: writes at a past view are refused, and a pipeline that reads one writes to the present")
}

impl<'a> Scope<'a> {
    /// Every statement is its own transaction.
    pub fn of(database: &'a Database) -> Scope<'a> {
        Scope {
            database,
            place: Place::Now,
            retries: None,
            is_of_server: false,
            last_commit: None,
            hints: None,
            sharded: None,
        }
    }

    /// A statement of the server itself, which may write what clients may only read.
    pub fn of_server(database: &'a Database) -> Scope<'a> {
        Scope { is_of_server: true, ..Scope::of(database) }
    }

    /// Statements are part of this transaction: they see what it wrote before, and what they write is its to commit. A
    /// statement that fails may leave a part of its writes there; then the transaction is to be aborted.
    pub fn in_transaction(self, open: &'a OpenTransaction) -> Scope<'a> {
        Scope { place: Place::Transaction(open), ..self }
    }

    /// Statements read this state, with the collections and indexes that were there.
    pub fn at(self, view: &'a ReadView) -> Scope<'a> {
        Scope { place: Place::At(view), ..self }
    }

    /// The scope for what a pipeline of this scope writes: where that reads a past state, the present.
    pub(crate) fn to_write(self) -> Scope<'a> {
        match self.place {
            Place::At(_) => Scope { place: Place::Now, ..self },
            Place::Now | Place::Transaction(_) => self,
        }
    }

    /// Makes statements record the positions of their commits in `last_commit`.
    pub fn noting(self, last_commit: &'a LastCommit) -> Scope<'a> {
        Scope { last_commit: Some(last_commit), ..self }
    }

    /// Statements use these indexes.
    pub fn with_hints(self, hints: Option<&'a IndexHints>) -> Scope<'a> {
        Scope { hints, ..self }
    }

    pub fn of_sharded(self, sharded: Option<&'a dyn Sharded>) -> Scope<'a> {
        Scope { sharded, ..self }
    }

    /// Errors: an update of many documents would change a document's shard key, by which the router has found it.
    pub(crate) fn check_shard_key(&self, old: Doc<'_>, new: Doc<'_>) -> Result<()> {
        let Some(key) = self.sharded.and_then(Sharded::key) else { return Ok(()) };
        if shard_key_of(key, old) == shard_key_of(key, new) {
            return Ok(());
        }
        let text = "Multi-update operations are not allowed when updating the shard key field.";
        Err(Error::new(Code::INVALID_OPTIONS, text))
    }

    /// Returns the filter of the buckets that a statement on a time series sees.
    pub(crate) fn buckets(&self) -> Option<Doc<'_>> {
        self.sharded.and_then(Sharded::buckets)
    }

    /// Deletes the document of another shard that has the `_id` of a new one. Returns false if none has it.
    pub(crate) fn delete_left(&self, txn: &mut Transaction, collection: &Collection, new: Doc<'_>) -> Result<bool> {
        let (Some(sharded), Some(id)) = (self.sharded, new.get("_id")) else { return Ok(false) };
        let found = arbor_store::record(&*txn, collection, &collection.id_key(id))?;
        let found = found.map(|doc| Doc::trusted(&doc).to_buf());
        let Some(old) = found.filter(|old| sharded.is_left(old.as_doc())) else { return Ok(false) };
        arbor_store::delete_unseen(txn, collection, old.as_doc())?;
        Ok(true)
    }

    /// Returns the query with the indexes that query settings or an index filter allow, in the place of its hint.
    pub(crate) fn constrained<'q>(&self, collection: &Collection, query: &'q Query) -> Cow<'q, Query> {
        let hints = self.hints.and_then(|hints| hints.of(&collection.namespace));
        let Some(allowed) = hints.or_else(|| self.index_filters.of(collection, query)) else {
            return Cow::Borrowed(query);
        };
        let is_sorted_by_place = query.sort.is_none() && matches!(query.hint, Some(ChosenIndex::Natural(_)));
        if query.min.is_some() || query.max.is_some() || is_sorted_by_place {
            return Cow::Borrowed(query);
        }
        Cow::Owned(Query { allowed: Some(allowed), hint: None, ..query.clone() })
    }

    /// The transaction that the statements are part of.
    pub fn transaction(&self) -> Option<&'a OpenTransaction> {
        match self.place {
            Place::Transaction(open) => Some(open),
            _ => None,
        }
    }

    /// Returns true if reads see the last commit.
    pub(crate) fn is_now(&self) -> bool {
        matches!(self.place, Place::Now)
    }

    /// Statements whose outcome is in the journal are not run again; the outcomes of the others are recorded there, each in the
    /// transaction of its statement. They are numbered from 0 on.
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
            retries: self.retries.map(|retries| Retries { numbers: retries.numbers.starting_at(first), ..retries }),
            ..self
        }
    }

    /// A collection with a view in which it and its indexes are. None: there is no such collection.
    pub(crate) fn snapshot(&self, namespace: &Namespace) -> Result<Option<(Arc<Collection>, ReadView)>> {
        let found = match self.place {
            Place::Now => return self.database.snapshot(namespace),
            Place::Transaction(open) => open.collection(namespace)?.map(|found| (found, open.view())),
            Place::At(view) => self.store.collection_in(view, namespace)?.map(|found| (found, view.clone())),
        };
        Ok(found)
    }

    /// Returns true if reads see the newest state, and no state was promised.
    pub(crate) fn reads_now(&self) -> bool {
        matches!(self.place, Place::Now)
    }

    pub(crate) fn is_in_transaction(&self) -> bool {
        matches!(self.place, Place::Transaction(_))
    }

    /// Returns the state that reads see.
    pub(crate) fn view(&self) -> Result<ReadView> {
        match self.place {
            Place::Now => Ok(self.transactions.read()?),
            Place::Transaction(open) => Ok(open.view()),
            Place::At(view) => Ok(view.clone()),
        }
    }

    /// Returns the lookup of other collections for stages.
    pub(crate) fn names(&self) -> Names {
        match self.place {
            Place::Now => Names::now(&self.store),
            Place::Transaction(open) => Names::at(&self.store, open.view()),
            Place::At(view) => Names::at(&self.store, view.clone()),
        }
    }

    /// The context of a statement that begins now, with the variables of its `let`, and with the collation of its
    /// collection if it names none.
    pub(crate) fn context(
        &self,
        namespace: &Namespace,
        collation: Option<&Collation>,
        let_variables: Option<Doc<'_>>,
    ) -> Result<Context> {
        let collation = match collation {
            Some(collation) => collation.clone(),
            None => self.collation_of(namespace)?,
        };
        let context = Context { collation, cluster_time: self.cluster_time(), ..Context::new(now_ms()) };
        match let_variables {
            Some(variables) => Ok(context.with_let(variables)?),
            None => Ok(context),
        }
    }

    /// `$$CLUSTER_TIME`, on a member of a set.
    pub(crate) fn cluster_time(&self) -> Option<Timestamp> {
        let time = self.transactions.shown_time()?;
        Some(Timestamp { seconds: (time >> 32) as u32, increment: time as u32 })
    }

    fn collation_of(&self, namespace: &Namespace) -> Result<Collation> {
        let own = match self.place {
            Place::Now => self.store.collection(namespace),
            Place::Transaction(open) => open.collection(namespace)?,
            Place::At(view) => self.store.collection_in(view, namespace)?,
        };
        Ok(own.map(|own| own.collation.clone()).unwrap_or_default())
    }

    /// The collection for a statement that writes. None: there is none.
    pub(crate) fn hold(&self, namespace: &Namespace) -> Result<Option<ToWrite>> {
        self.check_writable(namespace)?;
        match self.place {
            Place::Now => Ok(self.store.hold(namespace).map(ToWrite::Guarded)),
            Place::At(_) => writes_the_past(),
            Place::Transaction(open) => Ok(open.collection_to_write(namespace)?.map(ToWrite::Open)),
        }
    }

    fn check_writable(&self, namespace: &Namespace) -> Result<()> {
        if self.is_of_server {
            return Ok(());
        }
        self.database.check_local(namespace.db())?;
        if self.database.has_of_server(namespace) {
            return only_read(namespace);
        }
        check_writable(namespace)
    }

    /// Like `hold`, but creates the collection without options when it does not exist.
    pub(crate) fn hold_or_create(&self, namespace: &Namespace) -> Result<ToWrite> {
        self.check_writable(namespace)?;
        match self.place {
            Place::Now => Ok(ToWrite::Guarded(self.store.hold_or_create(namespace)?)),
            Place::At(_) => writes_the_past(),
            Place::Transaction(open) => Ok(ToWrite::Open(open.collection_or_create(namespace)?)),
        }
    }

    /// Does the work in one transaction, which may take several attempts; in an open transaction there is one attempt, and it
    /// ends the transaction when that has become too large.
    pub fn write<T>(&self, mut work: impl FnMut(&mut Transaction) -> Result<T>) -> Result<T> {
        match self.place {
            Place::At(_) => writes_the_past(),
            Place::Now => {
                let (done, position) = self.transactions.retry(Durability::Applied, work)?;
                if let Some(last) = self.last_commit {
                    last.is_at(position);
                }
                Ok(done)
            }
            Place::Transaction(open) => open.with(|txn| {
                let done = work(txn)?;
                txn.check_size()?;
                Ok(done)
            }),
        }
    }

    /// The end of a statement that changes something: what it committed is as durable as the client requested.
    pub(crate) fn make_durable(&self, durability: Durability) -> Result<()> {
        match self.place {
            Place::At(_) => writes_the_past(),
            Place::Now => {
                let commit = self.last_commit.and_then(LastCommit::position);
                self.database.make_durable(durability, commit)
            }
            Place::Transaction(_) => Ok(()),
        }
    }

    /// The errors of a write statement, which has ended. In a transaction it is the statement's own error when one of them
    /// does not concern a document.
    pub(crate) fn settled(&self, mut errors: Vec<WriteError>) -> Result<Vec<WriteError>> {
        let grave = |error: &WriteError| !error.error.concerns_document();
        match errors.iter().position(grave).filter(|_| self.transaction().is_some()) {
            Some(at) => Err(errors.swap_remove(at).error),
            None => Ok(errors),
        }
    }

    /// Errors: inside of a transaction.
    pub(crate) fn refuse_in_transaction(&self, message: impl FnOnce() -> String) -> Result<()> {
        match self.place {
            Place::Transaction(_) => Err(Error::new(Code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION, message())),
            _ => Ok(()),
        }
    }

    /// Returns the outcome of the statement when it was sent before. None: it is to be run.
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
    pub(crate) fn begin_statement(&self, txn: &mut Transaction, statement: usize) -> Result<()> {
        if let Some(retries) = self.retries {
            txn.set_statement(Some(retries.number(statement)?));
        }
        Ok(())
    }

    /// Notes what statements did in this transaction.
    pub(crate) fn record(&self, txn: &mut Transaction, done: &[(usize, Executed)]) -> Result<()> {
        let Some(retries) = self.retries.filter(|_| !done.is_empty()) else { return Ok(()) };
        let numbered = done.iter().map(|(statement, executed)| Ok((retries.number(*statement)?, executed)));
        retries.journal.record(txn, &numbered.collect::<Result<Vec<_>>>()?)
    }

    /// Like `record`, for statements with the same outcome.
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
