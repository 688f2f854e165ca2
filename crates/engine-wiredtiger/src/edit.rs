//! A group of batches becomes one transaction, or a few, cut between batches, when it is large.
//!
//! An invalid batch is found before anything is changed, so that a transaction fails for WiredTiger's
//! reasons only: a rollback is tried again, a full disk may be, all else ends writing.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arbor_base::TreeId;
use arbor_engine::{Batch, Error, Op, Result, TreeOptions, check_batches};

use crate::core::Core;
use crate::raw::{Called, Fault, RowCursor, Session, Table};
use crate::reading::Reading;
use crate::records::{self, State, Tree};
use crate::writer::{PendingDrop, WriterState};
use crate::{estimate, published};

/// Bytes of batches in one transaction, if they are several.
const TRANSACTION_BYTES: usize = 8 << 20;

/// Retries of a transaction that WiredTiger rolled back, with growing pauses (together 13 s).
const ROLLBACKS_MAX: u64 = 50;

/// From this many on the cache grows for each.
const ROLLBACKS_BEFORE_GROWTH: u64 = 3;

/// WiredTiger keeps what a transaction changes in its cache, and rolls it back when that is too much: for a large one
/// the cache grows to this multiple of it meanwhile.
const CACHE_PER_TRANSACTION: u64 = 4;

/// Part of the cache for what is not stable; one transaction may be more.
const UNSTABLE_CACHE_PART: u64 = 8;

/// Result of a step of a transaction.
pub(crate) type Edited<T = ()> = std::result::Result<T, Failed>;

/// A transaction of the writer.
pub(crate) struct Edit<'b> {
    pub session: &'b mut Session,
    tables_session: &'b mut Session,
    reading: &'b Reading,
    create: &'b dyn Fn(&TreeOptions) -> Result<String>,
    old: &'b HashMap<TreeId, Tree>,
    next_table: &'b mut u64,
    pub state: State,
    trees: HashMap<TreeId, Option<Tree>>,
    dropped: Vec<Table>,
    /// Made in this transaction: orphans if it fails.
    made: &'b mut Vec<Table>,
    count_rows: bool,
}

impl Core {
    pub(crate) fn apply(&self, batches: &[Batch]) -> Result<()> {
        let mut writer = self.usable_writer()?;
        let applied = writer.state.applied;
        let new: Vec<&Batch> = batches.iter().filter(|batch| batch.position > applied).collect();
        self.check(&writer, &new)?;
        for part in parts(&new) {
            let bytes = part.iter().map(|batch| size_of(batch)).sum::<usize>() as u64;
            self.limit_unstable(bytes);
            self.with_room(bytes, || {
                self.edit(&mut writer, |edit| part.iter().try_for_each(|batch| edit.apply(batch)))
            })?;
            self.pace.written(bytes);
            self.unstable_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Checks that the batches will apply, but for WiredTiger.
    fn check(&self, writer: &WriterState, batches: &[&Batch]) -> Result<()> {
        let exists = |tree| writer.trees.contains_key(&tree);
        check_batches(batches, exists, Err("wiredTiger"), |options| self.check_tree_options(options))
    }

    /// Moves the stable generation on when the next transaction would fill too much of the cache with what is not stable: WiredTiger
    /// evicts that into its lookaside table, which holds a second copy of each value in the same cache.
    fn limit_unstable(&self, bytes: u64) {
        let unstable = self.unstable_bytes.load(Ordering::Relaxed);
        if unstable > 0 && unstable + bytes > self.cache_bytes() / UNSTABLE_CACHE_PART {
            // If the log fails, the next checkpoint says so.
            let _moved_on = self.stabilize();
        }
    }

    /// Grows the cache for a transaction that would fill it.
    fn with_room(&self, bytes: u64, run: impl FnOnce() -> Result<()>) -> Result<()> {
        self.make_room(bytes.saturating_mul(CACHE_PER_TRANSACTION))?;
        let result = run();
        self.make_room(0)?;
        result
    }

    /// Makes one transaction, tried again while WiredTiger rolls it back. After an error nothing of it is applied.
    pub(crate) fn edit(&self, writer: &mut WriterState, change: impl Fn(&mut Edit<'_>) -> Edited) -> Result<()> {
        let mut rollbacks = 0;
        loop {
            match self.try_edit(writer, &change) {
                Err(Failed::RolledBack(_)) if rollbacks < ROLLBACKS_MAX => {
                    rollbacks += 1;
                    self.counters.count_rollback();
                    if rollbacks >= ROLLBACKS_BEFORE_GROWTH {
                        self.grow_cache()?;
                    }
                    std::thread::sleep(Duration::from_millis(10 * rollbacks));
                }
                Err(Failed::RolledBack(error) | Failed::Refused(error)) => return Err(error),
                Err(Failed::Broken(error)) => return Err(self.judge(writer, error)),
                Ok(()) => return Ok(()),
            }
        }
    }

    fn try_edit(&self, writer: &mut WriterState, change: &impl Fn(&mut Edit<'_>) -> Edited) -> Edited {
        let mut made = Vec::new();
        let outcome = self.run(writer, &mut made, change);
        if outcome.is_err() {
            writer.session.rollback();
            writer.mark_dropped(&made, 0, 0);
        }
        let outcome = outcome?;
        self.published.settle(outcome.state);
        self.applied.store(outcome.state.applied.0, Ordering::Release);
        writer.take(outcome);
        self.counters.count_transaction();
        Ok(())
    }

    fn run(
        &self,
        writer: &mut WriterState,
        made: &mut Vec<Table>,
        change: &impl Fn(&mut Edit<'_>) -> Edited,
    ) -> Edited<Outcome> {
        let state = State { generation: writer.state.generation + 1, ..writer.state };
        writer.session.begin()?;
        let mut edit = Edit {
            session: &mut writer.session,
            tables_session: &mut writer.tables_session,
            reading: &self.reading,
            create: &|options| self.options.create_config(options),
            old: &writer.trees,
            next_table: &mut writer.next_table,
            state,
            trees: HashMap::new(),
            dropped: Vec::new(),
            made,
            count_rows: self.options.count_rows,
        };
        change(&mut edit)?;
        let (mut state, reshaped) = (edit.state, edit.reshaped());
        let (trees, dropped) = (std::mem::take(&mut edit.trees), std::mem::take(&mut edit.dropped));
        let mut tables = writer.tables.clone();
        if reshaped {
            state.shape += 1;
            tables = with_changes(&tables, &trees);
            self.published.announce(state.shape, tables.clone());
        }
        for (tree, record) in &trees {
            match record {
                Some(record) => records::put_tree(&mut writer.session, *tree, record)?,
                None => {
                    records::delete_tree(&mut writer.session, *tree)?;
                    records::put_options(&mut writer.session, *tree, &TreeOptions::default())?;
                }
            }
        }
        records::put_state(&mut writer.session, &state)?;
        writer.session.commit(state.generation)?;
        Ok(Outcome { state, trees, dropped, tables })
    }

    /// Classifies a failed change: no space or no room, or the end of writing.
    pub(crate) fn judge(&self, writer: &mut WriterState, error: Error) -> Error {
        if !matches!(error, Error::OutOfSpace { .. } | Error::CacheFull { .. }) {
            writer.poisoned.get_or_insert_with(|| error.to_string());
        }
        error
    }
}

/// Why a transaction came to nothing.
pub(crate) enum Failed {
    /// WiredTiger rolled it back: it may be tried again.
    RolledBack(Error),
    /// The change itself is wrong; the engine stays usable.
    Refused(Error),
    Broken(Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        match error {
            Error::CacheFull { .. } => Failed::RolledBack(error),
            Error::UnknownTree(_) | Error::InvalidOption { .. } | Error::Other(_) => Failed::Refused(error),
            error => Failed::Broken(error),
        }
    }
}

impl From<Fault> for Failed {
    fn from(fault: Fault) -> Failed {
        match fault.is_rollback() {
            true => Failed::RolledBack(fault.into()),
            false => Failed::Broken(fault.into()),
        }
    }
}

struct Outcome {
    state: State,
    trees: HashMap<TreeId, Option<Tree>>,
    dropped: Vec<Table>,
    tables: published::Tables,
}

fn with_changes(tables: &published::Tables, changes: &HashMap<TreeId, Option<Tree>>) -> published::Tables {
    let mut tables = (**tables).clone();
    for (tree, record) in changes {
        match record {
            Some(record) => tables.insert(*tree, record.table),
            None => tables.remove(tree),
        };
    }
    Arc::new(tables)
}

impl WriterState {
    fn take(&mut self, outcome: Outcome) {
        let Outcome { state, trees, dropped, tables } = outcome;
        for (tree, record) in trees {
            match record {
                Some(record) => self.trees.insert(tree, record),
                None => self.trees.remove(&tree),
            };
        }
        self.mark_dropped(&dropped, state.generation, state.shape);
        (self.state, self.tables) = (state, tables);
    }

    /// Notes tables for dropping when this generation is durable and no older shape is held.
    pub(crate) fn mark_dropped(&mut self, tables: &[Table], generation: u64, shape: u64) {
        self.pending_drops.extend(tables.iter().map(|&table| PendingDrop { table, generation, shape }));
    }

    pub(crate) fn new_table(&mut self) -> Table {
        self.next_table += 1;
        Table(self.next_table - 1)
    }
}

impl Edit<'_> {
    fn apply(&mut self, batch: &Batch) -> Edited {
        for op in &batch.ops {
            self.change(op)?;
        }
        self.state.applied = batch.position;
        Ok(())
    }

    fn change(&mut self, op: &Op) -> Edited {
        match op {
            Op::CreateTree { tree, options } => self.create_tree(*tree, options),
            Op::DropTree { tree } => {
                self.drop_tree(*tree);
                Ok(())
            }
            Op::Put { tree, key, value } => self.put(*tree, key, value),
            Op::Update { .. } => Err(Error::no_updates("wiredTiger").into()),
            Op::Delete { tree, key } => self.delete(*tree, key),
            Op::DeleteRange { tree, from, to } => self.delete_range(*tree, from, to.as_deref()),
        }
    }

    pub(crate) fn tree(&self, tree: TreeId) -> Result<Tree> {
        let found = match self.trees.get(&tree) {
            Some(changed) => *changed,
            None => self.old.get(&tree).copied(),
        };
        found.ok_or(Error::UnknownTree(tree))
    }

    /// Gives a tree other counts, or another table; the table before is to be dropped.
    pub(crate) fn set_tree(&mut self, tree: TreeId, record: Tree) {
        if let Ok(old) = self.tree(tree)
            && old.table != record.table
        {
            self.dropped.push(old.table);
        }
        self.trees.insert(tree, Some(record));
    }

    fn reshaped(&self) -> bool {
        let table = |tree: &Option<Tree>| tree.map(|tree| tree.table);
        self.trees.iter().any(|(id, record)| table(record) != table(&self.old.get(id).copied()))
            || !self.dropped.is_empty()
    }

    /// An existing tree keeps its table, and with it the options that the table was made with; its next table, of a bulk
    /// load, takes the new ones.
    fn create_tree(&mut self, tree: TreeId, options: &TreeOptions) -> Edited {
        if self.tree(tree).is_ok() {
            if records::options(self.session, tree)? != *options {
                records::put_options(self.session, tree, options)?;
            }
            return Ok(());
        }
        records::put_options(self.session, tree, options)?;
        let table = Table(*self.next_table);
        *self.next_table += 1;
        self.tables_session.create(table, &(self.create)(options)?)?;
        self.made.push(table);
        self.trees.insert(tree, Some(Tree::empty(table)));
        Ok(())
    }

    fn drop_tree(&mut self, tree: TreeId) {
        if let Ok(record) = self.tree(tree) {
            self.dropped.push(record.table);
            self.trees.insert(tree, None);
        }
    }

    fn put(&mut self, tree: TreeId, key: &[u8], value: &[u8]) -> Edited {
        let mut record = self.tree(tree)?;
        let replaced = match self.count_rows {
            true => self.session.replace(record.table, key, value)?,
            false => {
                self.session.put(record.table, key, value)?;
                None
            }
        };
        match replaced {
            Some(length) => {
                record.subtract(0, length as u64);
                record.add(0, value.len() as u64);
            }
            None => record.add(1, (key.len() + value.len()) as u64),
        }
        self.trees.insert(tree, Some(record));
        Ok(())
    }

    fn delete(&mut self, tree: TreeId, key: &[u8]) -> Edited {
        let mut record = self.tree(tree)?;
        let length = match self.count_rows {
            true => self.session.read(record.table, key, <[u8]>::len)?,
            false => Some(record.bytes.checked_div(record.keys).unwrap_or(0) as usize),
        };
        // No tombstone for a row that is not there.
        let Some(length) = length else { return Ok(()) };
        self.session.remove(record.table, key)?;
        record.subtract(1, (key.len() + length) as u64);
        self.trees.insert(tree, Some(record));
        Ok(())
    }

    fn delete_range(&mut self, tree: TreeId, from: &[u8], to: Option<&[u8]>) -> Edited {
        let record = self.tree(tree)?;
        if to.is_some_and(|to| from >= to) {
            return Ok(());
        }
        let (mut first, mut last) = (self.session.rows(record.table)?, self.session.rows(record.table)?);
        let result = self.truncate(record, from, to, &mut first, &mut last);
        // After a rollback the cursors are reset; closing them fails only if WiredTiger panicked, as the next call does.
        let _ = first.close(self.session);
        let _ = last.close(self.session);
        if let Some(left) = result? {
            self.trees.insert(tree, Some(left));
        }
        Ok(())
    }

    /// Deletes from the first row of the range to the last. Returns the tree's new counts if there was a row.
    fn truncate(
        &mut self,
        mut record: Tree,
        from: &[u8],
        to: Option<&[u8]>,
        first: &mut RowCursor,
        last: &mut RowCursor,
    ) -> Called<Option<Tree>> {
        let session = &mut *self.session;
        if !first.seek(session, from)? || to.is_some_and(|to| first.key() >= to) {
            return Ok(None);
        }
        let placed = match to {
            Some(to) => last.seek_before(session, to)?,
            None => last.last(session)?,
        };
        if !placed || last.key() < first.key() {
            return Ok(None);
        }
        let samples = &self.reading.samples;
        let gone = estimate::of_range(samples, session, &record, first.key(), to)?;
        session.truncate(first, last)?;
        record.subtract(gone.keys, gone.bytes);
        if !first.first(session)? {
            record = Tree::empty(record.table);
        }
        Ok(Some(record))
    }
}

fn size_of(batch: &Batch) -> usize {
    let size = |op: &Op| match op {
        Op::Put { key, value, .. } => key.len() + value.len() + 100,
        Op::Delete { key, .. } => key.len() + 100,
        _ => 100,
    };
    batch.ops.iter().map(size).sum()
}

/// Cuts between batches.
fn parts<'b>(batches: &'b [&'b Batch]) -> impl Iterator<Item = &'b [&'b Batch]> {
    let mut rest = batches;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |batch: &&&Batch| {
            bytes += size_of(batch);
            bytes <= TRANSACTION_BYTES
        };
        let count = rest.iter().take_while(fits).count().max(1).min(rest.len());
        let (part, left) = rest.split_at(count);
        rest = left;
        (!part.is_empty()).then_some(part)
    })
}
