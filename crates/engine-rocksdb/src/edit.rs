//! A group of batches becomes one write of RocksDB, with exact counts unless they are not asked for
//! (`RocksOptions::exact_counts`); the records of trees then count what bulk loads put there.
//!
//! Within the group, rows that it changed are looked up in `rows` (length of the value, `None` if deleted), then in
//! `ranges` (what it deleted as a range), then in RocksDB. Nothing is changed before the write, so a group that fails
//! leaves nothing.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arbor_base::TreeId;
use arbor_engine::{Batch, Error, Op, Result, limits};

use crate::options::check_tree_options;
use crate::raw::{Db, WriteBatch};
use crate::records::{self, Content, StateRecord, Tree};

/// What the writer knows of the newest state.
pub struct Book {
    pub trees: HashMap<TreeId, Tree>,
    /// Changes only when trees come, go or are loaded; snapshots share it.
    pub contents: Arc<HashMap<TreeId, Content>>,
    pub state: StateRecord,
    /// Contents to sweep, with the first generation that does not show them.
    pub doomed: Vec<(Content, u64)>,
    /// Something was written since the last flush began.
    pub dirty: bool,
    pub poisoned: Option<String>,
}

pub struct Edit<'b> {
    db: &'b Db,
    book: &'b Book,
    pub batch: WriteBatch,
    pub state: StateRecord,
    trees: HashMap<TreeId, Option<Tree>>,
    rows: BTreeMap<Vec<u8>, Option<usize>>,
    ranges: Vec<(Vec<u8>, Vec<u8>)>,
    doomed: Vec<Content>,
    reshaped: bool,
    exact_counts: bool,
}

/// What a written edit changes in the book.
pub struct Outcome {
    pub state: StateRecord,
    pub trees: HashMap<TreeId, Option<Tree>>,
    pub doomed: Vec<Content>,
    pub contents: Arc<HashMap<TreeId, Content>>,
}

impl<'b> Edit<'b> {
    pub fn begin(db: &'b Db, book: &'b Book, exact_counts: bool) -> Result<Edit<'b>> {
        if let Some(reason) = &book.poisoned {
            return Err(Error::Poisoned { context: reason.clone() });
        }
        let state = StateRecord { generation: book.state.generation + 1, ..book.state };
        Ok(Edit {
            db,
            book,
            batch: WriteBatch::new(),
            state,
            trees: HashMap::new(),
            rows: BTreeMap::new(),
            ranges: Vec::new(),
            doomed: Vec::new(),
            reshaped: false,
            exact_counts,
        })
    }

    pub fn apply(&mut self, batch: &Batch) -> Result<()> {
        if batch.position <= self.state.applied {
            return Ok(());
        }
        for op in &batch.ops {
            self.change(op)?;
        }
        self.state.applied = batch.position;
        Ok(())
    }

    fn change(&mut self, op: &Op) -> Result<()> {
        match op {
            Op::CreateTree { tree, options } => self.create_tree(*tree, options),
            Op::DropTree { tree } => {
                self.drop_tree(*tree);
                Ok(())
            }
            Op::Put { tree, key, value } => self.put(*tree, key, value),
            Op::Update { .. } => Err(Error::no_updates("rocksdb")),
            Op::Delete { tree, key } => self.delete(*tree, key),
            Op::DeleteRange { tree, from, to } => self.delete_range(*tree, from, to.as_deref()),
        }
    }

    pub fn tree(&self, tree: TreeId) -> Result<Tree> {
        let found = match self.trees.get(&tree) {
            Some(changed) => *changed,
            None => self.book.trees.get(&tree).copied(),
        };
        found.ok_or(Error::UnknownTree(tree))
    }

    /// Errors: the tree holds rows, or is not there. Requires: nothing was changed before in this edit.
    pub fn check_empty(&self, tree: TreeId) -> Result<()> {
        let record = self.tree(tree)?;
        if self.exact_counts {
            return limits::check_empty(tree, record.keys);
        }
        limits::check_empty(tree, u64::from(self.db.rows(record.content, None)?.seek(&[])?))
    }

    fn create_tree(&mut self, tree: TreeId, options: &arbor_engine::TreeOptions) -> Result<()> {
        check_tree_options(options)?;
        if self.tree(tree).is_err() {
            let content = self.new_content();
            self.set_tree(tree, Tree::empty(content));
        }
        Ok(())
    }

    fn drop_tree(&mut self, tree: TreeId) {
        let Ok(record) = self.tree(tree) else { return };
        self.doom(record.content);
        self.trees.insert(tree, None);
        self.reshaped = true;
    }

    pub fn new_content(&mut self) -> Content {
        let content = Content(self.state.next_content);
        self.state.next_content += 1;
        content
    }

    /// Gives a tree another content or other counts.
    pub fn set_tree(&mut self, tree: TreeId, record: Tree) {
        self.reshaped |= self.tree(tree).ok().map(|old| old.content) != Some(record.content);
        self.trees.insert(tree, Some(record));
    }

    pub fn doom(&mut self, content: Content) {
        records::put_doomed(&mut self.batch, content);
        self.doomed.push(content);
    }

    fn put(&mut self, tree: TreeId, key: &[u8], value: &[u8]) -> Result<()> {
        limits::check_row(key, value)?;
        let mut record = self.tree(tree)?;
        let row = record.content.row(key);
        if !self.exact_counts {
            self.batch.put(&row, value);
            return Ok(());
        }
        match self.value_length(&row)? {
            Some(length) => record.bytes = record.bytes - length as u64 + value.len() as u64,
            None => {
                record.keys += 1;
                record.bytes += (key.len() + value.len()) as u64;
            }
        }
        self.batch.put(&row, value);
        self.rows.insert(row, Some(value.len()));
        self.trees.insert(tree, Some(record));
        Ok(())
    }

    fn delete(&mut self, tree: TreeId, key: &[u8]) -> Result<()> {
        let mut record = self.tree(tree)?;
        let row = record.content.row(key);
        if !self.exact_counts {
            self.batch.delete(&row);
            return Ok(());
        }
        // No tombstone for a row that is not there.
        let Some(length) = self.value_length(&row)? else { return Ok(()) };
        record.keys -= 1;
        record.bytes -= (key.len() + length) as u64;
        self.batch.delete(&row);
        self.rows.insert(row, None);
        self.trees.insert(tree, Some(record));
        Ok(())
    }

    fn delete_range(&mut self, tree: TreeId, from: &[u8], to: Option<&[u8]>) -> Result<()> {
        let mut record = self.tree(tree)?;
        let begin = record.content.row(from);
        let end = to.map_or(record.content.end().to_vec(), |to| record.content.row(to));
        if begin >= end {
            return Ok(());
        }
        if !self.exact_counts {
            self.batch.delete_range(&begin, &end);
            return Ok(());
        }
        let (mut keys, mut bytes) = (0, 0);
        let mut count = |row: &[u8], length: usize| {
            keys += 1;
            bytes += (row.len() - record.content.prefix().len() + length) as u64;
        };
        let mut stored = self.db.rows(record.content, None)?;
        let mut more = stored.seek(from)?;
        while more && to.is_none_or(|to| stored.key() < to) {
            let row = record.content.row(stored.key());
            if !self.rows.contains_key(&row) && !self.in_deleted_range(&row) {
                count(&row, stored.value().len());
            }
            more = stored.next()?;
        }
        for (row, length) in self.rows.range_mut(begin.clone()..end.clone()) {
            if let Some(length) = length.take() {
                count(row, length);
            }
        }
        if keys == 0 {
            return Ok(());
        }
        record.keys -= keys;
        record.bytes -= bytes;
        self.batch.delete_range(&begin, &end);
        self.ranges.push((begin, end));
        self.trees.insert(tree, Some(record));
        Ok(())
    }

    fn in_deleted_range(&self, row: &[u8]) -> bool {
        self.ranges.iter().any(|(begin, end)| (begin.as_slice()..end.as_slice()).contains(&row))
    }

    fn value_length(&self, row: &[u8]) -> Result<Option<usize>> {
        match self.rows.get(row) {
            Some(changed) => Ok(*changed),
            None if self.in_deleted_range(row) => Ok(None),
            None => self.db.value_length(row),
        }
    }

    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.batch.bytes == 0 && self.trees.is_empty() && self.state.applied == self.book.state.applied
    }

    /// The write, complete with the records. Answers it with what it changes.
    pub fn finish(mut self) -> (WriteBatch, Outcome) {
        for (tree, record) in &self.trees {
            match record {
                Some(record) => records::put_tree(&mut self.batch, *tree, record),
                None => records::delete_tree(&mut self.batch, *tree),
            }
        }
        records::put_state(&mut self.batch, &self.state);
        let contents = if self.reshaped { self.contents() } else { self.book.contents.clone() };
        let Edit { batch, state, trees, doomed, .. } = self;
        (batch, Outcome { state, trees, doomed, contents })
    }

    fn contents(&self) -> Arc<HashMap<TreeId, Content>> {
        let mut contents = (*self.book.contents).clone();
        for (tree, record) in &self.trees {
            match record {
                Some(record) => contents.insert(*tree, record.content),
                None => contents.remove(tree),
            };
        }
        Arc::new(contents)
    }
}

impl Book {
    /// Takes what was written.
    pub fn take(&mut self, outcome: Outcome) {
        let Outcome { state, trees, doomed, contents } = outcome;
        for (tree, record) in trees {
            match record {
                Some(record) => self.trees.insert(tree, record),
                None => self.trees.remove(&tree),
            };
        }
        self.doomed.extend(doomed.into_iter().map(|content| (content, state.generation)));
        self.state = state;
        self.contents = contents;
        self.dirty = true;
    }
}
