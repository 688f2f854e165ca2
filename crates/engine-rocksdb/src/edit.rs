//! A group of batches becomes one write of RocksDB. Nothing is read for it, and nothing is changed before the write, so a
//! group that fails leaves nothing.

use std::collections::HashMap;
use std::sync::Arc;

use arbor_base::TreeId;
use arbor_engine::{Batch, Error, Op, Result, TreeOptions, limits};

use crate::options::check_names;
use crate::raw::{Db, WriteBatch};
use crate::records::{self, Content, StateRecord, Tree, Trees};
use crate::span::{SPANS_MAX, Span};

/// The writer's view of the newest state.
pub(crate) struct WriterState {
    /// Changes only when trees come, go or are loaded; snapshots share it.
    pub trees: Arc<Trees>,
    pub state: StateRecord,
    /// Contents to sweep, with the first generation that does not show them.
    pub pending_drops: Vec<(Content, u64)>,
    /// Deleted ranges of trees that stay, whose space is to return.
    pub pending_range_gc: Vec<Span>,
    /// The database is marked as holding update messages.
    pub updates_marked: bool,
    /// Something was written since the last flush began.
    pub dirty: bool,
    pub poisoned: Option<String>,
}

pub(crate) struct Edit<'b> {
    db: &'b Db,
    writer: &'b WriterState,
    pub batch: WriteBatch,
    pub state: StateRecord,
    trees: HashMap<TreeId, Option<Arc<Tree>>>,
    pending_drops: Vec<Content>,
    pending_range_gc: Vec<Span>,
    /// By tree, for estimates.
    put_bytes: HashMap<TreeId, u64>,
    takes_updates: bool,
    updates_marked: bool,
}

/// Changes of the writer's state by a written edit.
pub(crate) struct Outcome {
    pub state: StateRecord,
    pub trees: Arc<Trees>,
    pub pending_drops: Vec<Content>,
    pub pending_range_gc: Vec<Span>,
    pub put_bytes: HashMap<TreeId, u64>,
    pub updates_marked: bool,
}

impl<'b> Edit<'b> {
    pub(crate) fn begin(db: &'b Db, writer: &'b WriterState, takes_updates: bool) -> Result<Edit<'b>> {
        if let Some(reason) = &writer.poisoned {
            return Err(Error::Poisoned { context: reason.clone() });
        }
        let state = StateRecord { generation: writer.state.generation + 1, ..writer.state };
        Ok(Edit {
            db,
            writer,
            batch: WriteBatch::new(),
            state,
            trees: HashMap::new(),
            pending_drops: Vec::new(),
            pending_range_gc: Vec::new(),
            put_bytes: HashMap::new(),
            takes_updates,
            updates_marked: writer.updates_marked,
        })
    }

    pub(crate) fn apply(&mut self, batch: &Batch) -> Result<()> {
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
            Op::Put { tree, key, value } => {
                limits::check_row(key, value)?;
                let content = self.count(*tree, key.len() + value.len())?;
                self.batch.put(content, key, value);
                Ok(())
            }
            Op::Update { tree, key, update } => self.update(*tree, key, update),
            Op::Delete { tree, key } => {
                let content = self.content(*tree)?;
                self.batch.delete(content, key);
                Ok(())
            }
            Op::DeleteRange { tree, from, to } => self.delete_range(*tree, from, to.as_deref()),
        }
    }

    pub(crate) fn tree(&self, tree: TreeId) -> Result<&Tree> {
        let found = match self.trees.get(&tree) {
            Some(changed) => changed.as_ref(),
            None => self.writer.trees.get(&tree),
        };
        found.map(Arc::as_ref).ok_or(Error::UnknownTree(tree))
    }

    fn content(&self, tree: TreeId) -> Result<Content> {
        self.tree(tree).map(|tree| tree.content)
    }

    fn count(&mut self, tree: TreeId, bytes: usize) -> Result<Content> {
        let content = self.content(tree)?;
        *self.put_bytes.entry(tree).or_default() += bytes as u64;
        Ok(content)
    }

    /// Errors: the tree holds rows, or is not there. Requires: nothing was changed before in this edit.
    pub(crate) fn check_empty(&self, tree: TreeId) -> Result<()> {
        let content = self.content(tree)?;
        limits::check_empty(tree, u64::from(self.db.rows(content, None)?.seek(&[])?))
    }

    fn create_tree(&mut self, tree: TreeId, options: &TreeOptions) -> Result<()> {
        check_names(options)?;
        if self.tree(tree).is_err() {
            let content = self.new_content();
            self.set_content(tree, content);
        }
        Ok(())
    }

    fn drop_tree(&mut self, tree: TreeId) {
        let Ok(content) = self.content(tree) else { return };
        self.mark_dropped(content);
        records::delete_tree(&mut self.batch, tree);
        self.trees.insert(tree, None);
    }

    pub(crate) fn new_content(&mut self) -> Content {
        let content = Content(self.state.next_content);
        self.state.next_content += 1;
        content
    }

    /// Gives a tree another content.
    pub(crate) fn set_content(&mut self, tree: TreeId, content: Content) {
        records::put_tree(&mut self.batch, tree, content);
        self.trees.insert(tree, Some(Arc::new(Tree::new(content))));
    }

    pub(crate) fn mark_dropped(&mut self, content: Content) {
        records::put_pending_drop(&mut self.batch, content);
        self.pending_drops.push(content);
    }

    fn update(&mut self, tree: TreeId, key: &[u8], update: &[u8]) -> Result<()> {
        if !self.takes_updates {
            return Err(Error::no_updates("rocksdb"));
        }
        limits::check_row(key, update)?;
        let content = self.count(tree, key.len() + update.len())?;
        if !self.updates_marked {
            records::put_updates(&mut self.batch);
            self.updates_marked = true;
        }
        self.batch.update(content, key, update);
        Ok(())
    }

    fn delete_range(&mut self, tree: TreeId, from: &[u8], to: Option<&[u8]>) -> Result<()> {
        let content = self.content(tree)?;
        let span = Span { begin: content.row(from), end: to.map_or(content.end().to_vec(), |to| content.row(to)) };
        if span.begin < span.end {
            self.batch.delete_range(&span.begin, &span.end);
            self.pending_range_gc.push(span);
        }
        Ok(())
    }

    /// Returns true if there is nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.batch.bytes == 0 && self.state == StateRecord { generation: self.state.generation, ..self.writer.state }
    }

    /// The write, complete with the records. Returns it with what it changes.
    pub(crate) fn finish(mut self) -> (WriteBatch, Outcome) {
        records::put_state(&mut self.batch, &self.state);
        let trees = if self.trees.is_empty() { self.writer.trees.clone() } else { self.changed_trees() };
        let Edit { batch, state, pending_drops, pending_range_gc, put_bytes, updates_marked, .. } = self;
        (batch, Outcome { state, trees, pending_drops, pending_range_gc, put_bytes, updates_marked })
    }

    fn changed_trees(&self) -> Arc<Trees> {
        let mut trees = (*self.writer.trees).clone();
        for (id, tree) in &self.trees {
            match tree {
                Some(tree) => trees.insert(*id, tree.clone()),
                None => trees.remove(id),
            };
        }
        Arc::new(trees)
    }
}

impl WriterState {
    /// Takes what was written.
    pub(crate) fn take(&mut self, outcome: Outcome) {
        let Outcome { state, trees, pending_drops, pending_range_gc, put_bytes, updates_marked } = outcome;
        self.pending_drops.extend(pending_drops.into_iter().map(|content| (content, state.generation)));
        let room = SPANS_MAX.saturating_sub(self.pending_range_gc.len());
        self.pending_range_gc.extend(pending_range_gc.into_iter().take(room));
        self.state = state;
        self.trees = trees;
        for (tree, bytes) in put_bytes {
            // Not of a tree that the same group dropped.
            if let Some(tree) = self.trees.get(&tree) {
                tree.count(bytes);
            }
        }
        self.updates_marked = updates_marked;
        self.dirty = true;
    }

    /// A flush of all that was written begins.
    pub(crate) fn flushing(&mut self) {
        self.dirty = false;
        self.trees.values().for_each(|tree| tree.flush_begins());
    }
}
