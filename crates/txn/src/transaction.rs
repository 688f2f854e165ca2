//! A transaction: a snapshot, and its own writes over it.

use std::borrow::Cow;
use std::sync::Arc;

use arbor_base::{Position, TreeId};
use arbor_engine::{Cursor, RangeEstimate, Snapshot, TreeOptions};

use crate::active::Ticket;
use crate::claims::OwnClaims;
use crate::commit::CommitPath;
use crate::ledger::FIXED_TREES;
use crate::overlay::Overlay;
use crate::record::Load;
use crate::scratch::Value;
use crate::write_set::WriteSet;
use crate::written::KeyRange;
use crate::{CounterId, Durability, Error, Pending, ReadView, Result, View};

/// A place in a transaction to come back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Savepoint(usize);

/// Reads at one snapshot, sees its own writes, writes nothing before [`Transaction::commit`]. Dropping it is the abort.
/// Belongs to one thread at a time.
pub struct Transaction {
    path: Arc<CommitPath>,
    snapshot: Arc<dyn Snapshot>,
    writes: WriteSet,
    ticket: Ticket,
    /// It takes several statements.
    is_open: bool,
    /// Claims of an open transaction.
    claims: Option<OwnClaims>,
    statement: Option<i32>,
    /// The history does not show its changes.
    hidden: bool,
    /// The conflict table may have forgotten commits after the snapshot.
    compares: bool,
}

impl Transaction {
    pub(crate) fn begin(path: Arc<CommitPath>) -> Result<Transaction> {
        let ticket = path.register();
        let snapshot = path.engine().snapshot()?;
        Ok(Transaction {
            path,
            snapshot,
            writes: WriteSet::default(),
            ticket,
            is_open: false,
            claims: None,
            statement: None,
            hidden: false,
            compares: false,
        })
    }

    pub(crate) fn begin_open_at(path: Arc<CommitPath>, time: u64) -> Result<Transaction> {
        let ticket = path.register();
        path.seal(time)?;
        let snapshot = path.view_at(time)?.into_snapshot();
        let claims = Some(path.open_claims());
        let compares = snapshot.position() < ticket.position();
        let writes = WriteSet::default();
        Ok(Transaction {
            path,
            snapshot,
            writes,
            ticket,
            is_open: true,
            claims,
            statement: None,
            hidden: false,
            compares,
        })
    }

    /// Returns path, snapshot (and whether rows are to be compared with it), writes, ticket and claims.
    #[expect(clippy::type_complexity, reason = "taken apart at once")]
    pub(crate) fn into_parts(
        self,
    ) -> (Arc<CommitPath>, (Arc<dyn Snapshot>, bool), WriteSet, Ticket, Option<OwnClaims>) {
        let Transaction { path, snapshot, writes, ticket, claims, compares, .. } = self;
        (path, (snapshot, compares), writes, ticket, claims)
    }

    pub(crate) fn begin_open(path: Arc<CommitPath>) -> Result<Transaction> {
        let claims = path.open_claims();
        Ok(Transaction { claims: Some(claims), ..Transaction::begin_unclaimed(path)? })
    }

    pub(crate) fn begin_unclaimed(path: Arc<CommitPath>) -> Result<Transaction> {
        Ok(Transaction { is_open: true, ..Transaction::begin(path)? })
    }

    /// The snapshot with the writes as they are now. What the transaction writes later does not show in it; a tree that it
    /// writes to while the view lives is copied once (rows and all), so short-lived views are the cheap ones.
    pub fn view(&self) -> ReadView {
        ReadView::frozen(self.snapshot.clone(), self.writes.written().clone())
    }

    /// Returns the position of the snapshot.
    pub fn position(&self) -> Position {
        self.snapshot.position()
    }

    /// Declares that this key is going to be written. In an open transaction it fails with [`Error::Conflict`] when the commit
    /// would fail for this key by now, or another open transaction has claimed it and is still open; the transaction cannot be
    /// committed with it any more. Other transactions may write everything, and detect conflicts at their commit.
    pub fn claim(&mut self, tree: TreeId, key: &[u8]) -> Result<()> {
        match &mut self.claims {
            None => Ok(()),
            Some(claims) => self.path.claim(claims, (&*self.snapshot, self.compares), tree, key),
        }
    }

    /// Returns true if it was begun as one of several statements.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// The number of the statement that runs from now on, for what notes say about it.
    pub fn set_statement(&mut self, statement: Option<i32>) {
        self.statement = statement;
    }

    pub fn statement(&self) -> Option<i32> {
        self.statement
    }

    pub fn put(&mut self, tree: TreeId, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) {
        let value = self.value(value.into());
        self.writes.set(tree, key.into(), Some(value));
    }

    /// Changes a row by an update message, without reading it: it is as [`Options::updates`](crate::Options::updates) makes it
    /// of the row that is there at the commit. Returns false, and does nothing, if the transaction has written the row before, or
    /// its tree's engine stores no messages: then the row is to be read.
    pub fn update(&mut self, tree: TreeId, key: impl Into<Vec<u8>>, message: impl Into<Vec<u8>>) -> bool {
        let Some(function) = self.path.options().updates.clone() else { return false };
        if !self.path.engine().stores_updates(tree) {
            return false;
        }
        let message = self.value(message.into());
        self.writes.update(tree, key.into(), message, &function)
    }

    /// In memory, or in a file when the write set takes too much of it.
    fn value(&mut self, bytes: Vec<u8>) -> Value {
        let options = self.path.options();
        match &options.scratch {
            Some(directory) if self.writes.spills(bytes.len(), options.write_set_memory_max) => {
                self.writes.spilled(bytes, directory)
            }
            _ => self.writes.kept(bytes),
        }
    }

    /// Like `put`, but with a note for the readers of the history that refers to this value.
    pub fn put_noted(
        &mut self,
        tree: TreeId,
        key: impl Into<Vec<u8>>,
        value: impl Into<Vec<u8>>,
        about: impl Into<Vec<u8>>,
    ) {
        let (value, about) = (self.value(value.into()), self.value(about.into()));
        self.writes.set_noted(tree, key.into(), value, about);
    }

    /// A note for the readers of the history.
    pub fn note(&mut self, tree: TreeId, about: impl Into<Vec<u8>>) {
        let about = self.value(about.into());
        self.writes.note(tree, about);
    }

    /// Returns true if the history is kept, so that changes are to be noted.
    pub fn keeps_history(&self) -> bool {
        !self.hidden && self.path.keeps_history()
    }

    /// Leaves the changes that follow without notes: readers of the history do not see them. For documents that come from another
    /// shard, or have gone there.
    pub fn hide(&mut self) {
        self.hidden = true;
    }

    /// Describes a tree with notes for the readers of the history; only the first call for a tree counts.
    pub fn describe(&mut self, tree: TreeId, place: impl FnOnce() -> Vec<u8>) {
        self.writes.describe(tree, place);
    }

    /// A missing key is not an error.
    pub fn delete(&mut self, tree: TreeId, key: impl Into<Vec<u8>>) {
        self.writes.set(tree, key.into(), None);
    }

    /// Deletes `from <= key < to`; `to == None` means to the end of the tree. Conflicts with every commit into the range
    /// after the snapshot.
    pub fn delete_range(&mut self, tree: TreeId, from: impl Into<Vec<u8>>, to: Option<Vec<u8>>) {
        self.writes.delete_range(tree, KeyRange { from: from.into(), to });
    }

    /// Allots the id of a new tree, which exists once this transaction is committed. Ids are never used again.
    pub fn create_tree(&mut self, options: TreeOptions) -> TreeId {
        let tree = self.path.allot_tree();
        self.writes.create_tree(tree, options);
        tree
    }

    /// Creates a tree whose id is fixed by the layer above, if it does not exist.
    pub fn create_fixed_tree(&mut self, tree: TreeId, options: TreeOptions) -> Result<()> {
        assert!(FIXED_TREES.contains(&tree.0), "fixed tree ids are {FIXED_TREES:?}");
        match self.cursor(tree).map(drop) {
            Ok(()) => Ok(()),
            Err(Error::UnknownTree(_)) => {
                self.writes.create_tree(tree, options);
                Ok(())
            }
            Err(other) => Err(other),
        }
    }

    /// Says in the log that the tree has rows that came past it. Requires that they are durable here.
    pub fn refer_to(&mut self, load: Load) {
        self.writes.refer_to(load);
    }

    /// Gives an existing tree other options; its content stays. Not for a tree that this transaction reads or writes.
    pub fn set_tree_options(&mut self, tree: TreeId, options: TreeOptions) {
        self.writes.create_tree(tree, options);
    }

    pub fn drop_tree(&mut self, tree: TreeId) {
        self.writes.drop_tree(tree);
    }

    /// Counters never conflict: the commit path adds all deltas up.
    pub fn add_counter(&mut self, id: CounterId, delta: i64) {
        self.writes.add_counter(id, delta);
    }

    pub fn drop_counter(&mut self, id: CounterId) {
        self.writes.drop_counter(id);
    }

    /// Sets the logical part of the record: what readers of the history get for all notes of this transaction together.
    pub fn set_logical(&mut self, logical: Vec<u8>) {
        self.writes.set_logical(logical);
    }

    /// Costs a record of every later change; ask for one only when it may be used.
    pub fn savepoint(&mut self) -> Savepoint {
        Savepoint(self.writes.savepoint())
    }

    /// Takes back everything after the savepoint; later savepoints are gone.
    pub fn rollback_to(&mut self, savepoint: Savepoint) {
        self.writes.rollback_to(savepoint.0);
    }

    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Bytes that the writes take, about, in memory and in a file.
    pub fn size_bytes(&self) -> usize {
        self.writes.bytes()
    }

    /// Errors: it has grown beyond what a commit takes.
    pub fn check_size(&self) -> Result<()> {
        self.path.check_size(&self.writes)
    }

    /// Ensures on `Ok`: later snapshots show the writes, and they survive as `durability` says. Returns the
    /// position of the commit; of an empty transaction, the position of its snapshot.
    ///
    /// Errors: see [`Error`]; only `Poisoned` and `CommittedNotApplied` may leave the writes behind.
    pub fn commit(self, durability: Durability) -> Result<Position> {
        // claims are released when the outcome is known
        let Transaction { path, snapshot, writes, ticket, claims: _claims, compares, .. } = self;
        let position = path.caught_up(&*snapshot, &writes, compares)?;
        drop(snapshot);
        let position = if writes.is_empty() { position } else { path.commit(writes, position, ticket)? };
        path.reach(position, durability)?;
        Ok(position)
    }

    /// Has the commit logged, without waiting for the other members of the set; without a set it is the same as a commit that is
    /// [`Durability::Applied`].
    pub fn commit_begin(self) -> Result<Pending> {
        let Transaction { path, snapshot, writes, ticket, claims: _claims, compares, .. } = self;
        let position = path.caught_up(&*snapshot, &writes, compares)?;
        drop(snapshot);
        if writes.is_empty() {
            Ok(Pending::new(path, None, position))
        } else {
            path.commit_begin(writes, position, ticket)
        }
    }

    /// `commit` by a thread that holds the commit lock already (see `Transactions::retry`).
    pub(crate) fn commit_exclusive(self, committed: &mut crate::group::Committed) -> Result<Pending> {
        let Transaction { path, snapshot, writes, ticket, .. } = self;
        let position = snapshot.position();
        drop(snapshot);
        match writes.is_empty() {
            true => Ok(Pending::new(path, None, position)),
            false => path.commit_locked(committed, writes, position, ticket),
        }
    }

    fn overlay(&self) -> Overlay<'_> {
        Overlay { snapshot: &*self.snapshot, written: self.writes.written() }
    }
}

impl View for Transaction {
    fn position(&self) -> Position {
        self.snapshot.position()
    }

    fn get(&self, tree: TreeId, key: &[u8]) -> Result<Option<Cow<'_, [u8]>>> {
        self.overlay().get(tree, key)
    }

    fn cursor(&self, tree: TreeId) -> Result<Box<dyn Cursor + '_>> {
        self.overlay().cursor(tree)
    }

    fn estimate(&self, tree: TreeId, from: &[u8], to: Option<&[u8]>) -> Result<RangeEstimate> {
        self.overlay().estimate(tree, from, to)
    }

    fn counter(&self, id: CounterId) -> Result<i64> {
        self.overlay().counter(id)
    }
}
