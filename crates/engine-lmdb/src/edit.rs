//! One write transaction with what it changes in the writer's memory: both are kept or neither.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arbor_base::{Position, TreeId};
use arbor_engine::{Batch, Cursor as _, Error, Op, Result, UpdateFunction, limits};

use crate::cursor::LmdbCursor;
use crate::keys::Content;
use crate::positions::Positions;
use crate::raw::{Env, ReadTxn, Txn, WriteTxn};
use crate::records::{self, TreeRecord};
use crate::rows;

/// State the writer keeps in memory so that it need not ask LMDB. Guarded by the engine's writer mutex.
pub(crate) struct WriterState {
    pub trees: HashMap<TreeId, TreeRecord>,
    pub next_content: u64,
    pub applied: Position,
    /// Trees whose counts differ from their records; the next checkpoint writes them.
    pub uncounted: HashSet<TreeId>,
    /// Why writes are refused, once they are.
    pub poisoned: Option<String>,
    /// For the readers.
    pub positions: Arc<Positions>,
    /// Pages freed since the engine was opened.
    pub freed_pages: u64,
    /// Sees the newest state from each commit to the next: shows what the commit freed, and is what readers are left with
    /// when LMDB begins no more transactions. The writer spares the newest state anyway, so this holds no page back.
    newest: Option<Newest>,
}

pub(crate) struct Edit<'b> {
    pub txn: WriteTxn<'b>,
    env: &'b Env,
    writer: &'b mut WriterState,
    updates: Option<&'b dyn UpdateFunction>,
    /// Trees that this edit touches, as they are after it.
    trees: HashMap<TreeId, Option<TreeRecord>>,
    next_content: u64,
    applied: Position,
    counted: bool,
    pending_drops: bool,
}

struct Newest {
    txn: ReadTxn,
    position: Position,
}

/// Keys per round of a range delete: bounds its memory.
const DELETED_PER_ROUND: usize = 1024;

impl<'b> Edit<'b> {
    pub(crate) fn begin(
        env: &'b Env,
        writer: &'b mut WriterState,
        updates: Option<&'b dyn UpdateFunction>,
    ) -> Result<Edit<'b>> {
        if let Some(reason) = &writer.poisoned {
            return Err(Error::Poisoned { context: reason.clone() });
        }
        let txn = WriteTxn::begin(env)?;
        let (next_content, applied) = (writer.next_content, writer.applied);
        let trees = HashMap::new();
        Ok(Edit { txn, env, writer, updates, trees, next_content, applied, counted: false, pending_drops: false })
    }

    pub(crate) fn apply(&mut self, batch: &Batch) -> Result<()> {
        if batch.position <= self.applied {
            return Ok(());
        }
        for op in &batch.ops {
            self.change(op)?;
        }
        self.applied = batch.position;
        Ok(())
    }

    fn change(&mut self, op: &Op) -> Result<()> {
        match op {
            Op::CreateTree { tree, options } => {
                options.check_names("lmdb", &[])?;
                self.create_tree(*tree)
            }
            Op::DropTree { tree } => self.drop_tree(*tree),
            Op::Put { tree, key, value } => self.put(*tree, key, value),
            Op::Update { tree, key, update } => self.update(*tree, key, update),
            Op::Delete { tree, key } => self.delete(*tree, key),
            Op::DeleteRange { tree, from, to } => match to {
                None if from.is_empty() => self.empty_tree(*tree),
                _ => self.delete_range(*tree, from, to.as_deref()),
            },
        }
    }

    pub(crate) fn tree(&self, tree: TreeId) -> Result<TreeRecord> {
        let known = self.trees.get(&tree).copied().unwrap_or_else(|| self.writer.trees.get(&tree).copied());
        known.ok_or(Error::UnknownTree(tree))
    }

    /// A new content with its head and fence; see [`keys`](crate::keys) for why they are written so.
    pub(crate) fn new_content(&mut self) -> Result<Content> {
        let content = Content(self.next_content);
        self.next_content += 1;
        let half = vec![0; inline_value_bytes_max(self.env.page_bytes(), content)];
        self.txn.put(content.head().as_slice(), &half)?;
        self.txn.put(content.fence().as_slice(), &half)?;
        self.txn.put(content.wedge().as_slice(), &half)?;
        self.txn.delete(content.wedge().as_slice())?;
        self.txn.put(content.head().as_slice(), &[])?;
        Ok(content)
    }

    fn create_tree(&mut self, tree: TreeId) -> Result<()> {
        if self.tree(tree).is_ok() {
            return Ok(());
        }
        let record = TreeRecord::empty(self.new_content()?);
        self.set_tree(tree, record)
    }

    fn drop_tree(&mut self, tree: TreeId) -> Result<()> {
        let Ok(record) = self.tree(tree) else { return Ok(()) };
        self.mark_dropped(record.content)?;
        records::delete_tree(&mut self.txn, tree)?;
        self.trees.insert(tree, None);
        Ok(())
    }

    fn empty_tree(&mut self, tree: TreeId) -> Result<()> {
        if self.tree(tree)?.keys == 0 {
            return Ok(());
        }
        let content = self.new_content()?;
        self.replace_content(tree, TreeRecord::empty(content))
    }

    /// The tree's rows are from now on those of another content; the old one is dropped.
    pub(crate) fn replace_content(&mut self, tree: TreeId, record: TreeRecord) -> Result<()> {
        self.mark_dropped(self.tree(tree)?.content)?;
        self.set_tree(tree, record)
    }

    fn set_tree(&mut self, tree: TreeId, record: TreeRecord) -> Result<()> {
        records::put_tree(&mut self.txn, tree, &record)?;
        self.trees.insert(tree, Some(record));
        Ok(())
    }

    pub(crate) fn mark_dropped(&mut self, content: Content) -> Result<()> {
        self.pending_drops = true;
        records::put_pending_drop(&mut self.txn, content)
    }

    fn put(&mut self, tree: TreeId, key: &[u8], value: &[u8]) -> Result<()> {
        limits::check_row(key, value)?;
        let mut record = self.tree(tree)?;
        let replaced = self.put_row(record.content, key, value)?;
        record.bytes += value.len() as u64;
        match replaced {
            Some(length) => record.bytes -= length as u64,
            None => {
                record.keys += 1;
                record.bytes += key.len() as u64;
            }
        }
        self.trees.insert(tree, Some(record));
        Ok(())
    }

    /// Puts a row without counting it.
    pub(crate) fn put_row(&mut self, content: Content, key: &[u8], value: &[u8]) -> Result<Option<usize>> {
        rows::put(&mut self.txn, content, key, value, &mut self.next_content)
    }

    fn update(&mut self, tree: TreeId, key: &[u8], update: &[u8]) -> Result<()> {
        limits::check_row(key, update)?;
        let updates = self.updates.ok_or_else(|| Error::no_updates("lmdb"))?;
        let content = self.tree(tree)?.content;
        let row = rows::get(&self.txn, content, key)?.map(<[u8]>::to_vec);
        match updates.apply(key, row.as_deref(), update) {
            Some(value) if row.as_ref() == Some(&value) => Ok(()),
            Some(value) => self.put(tree, key, &value),
            None => self.delete(tree, key),
        }
    }

    fn delete(&mut self, tree: TreeId, key: &[u8]) -> Result<()> {
        let mut record = self.tree(tree)?;
        if let Some(length) = rows::delete(&mut self.txn, record.content, key)? {
            record.keys -= 1;
            record.bytes -= (key.len() + length) as u64;
            self.trees.insert(tree, Some(record));
        }
        Ok(())
    }

    fn delete_range(&mut self, tree: TreeId, from: &[u8], to: Option<&[u8]>) -> Result<()> {
        let content = self.tree(tree)?.content;
        loop {
            let mut keys = Vec::new();
            let mut cursor = LmdbCursor::new(&self.txn, content)?;
            let mut more = cursor.seek(from)?;
            while more && keys.len() < DELETED_PER_ROUND && to.is_none_or(|to| cursor.key() < to) {
                keys.push(cursor.key().to_vec());
                more = cursor.next()?;
            }
            drop(cursor);
            for key in &keys {
                self.delete(tree, key)?;
            }
            if keys.len() < DELETED_PER_ROUND {
                return Ok(());
            }
        }
    }

    /// Writes the counts of the trees into their records.
    pub(crate) fn put_counts(&mut self) -> Result<()> {
        for tree in self.writer.uncounted.clone() {
            if let Ok(record) = self.tree(tree) {
                records::put_tree(&mut self.txn, tree, &record)?;
            }
        }
        self.counted = true;
        Ok(())
    }

    /// Returns true if there is dropped content to sweep.
    pub(crate) fn commit(self) -> Result<bool> {
        let Edit { mut txn, env, writer, trees, next_content, applied, counted, pending_drops, .. } = self;
        if next_content != writer.next_content {
            records::put_next_content(&mut txn, next_content)?;
        }
        let state = txn.id();
        writer.positions.set(state, applied);
        txn.commit()?;
        if applied != writer.applied && newest_state(env)? != state {
            // Nothing was changed, so LMDB made no new state: the one before now shows this position.
            writer.positions.set(newest_state(env)?, applied);
        }
        writer.applied = applied;
        writer.next_content = next_content;
        if counted {
            writer.uncounted.clear();
        }
        for (tree, record) in trees {
            writer.set(tree, record);
        }
        Ok(pending_drops)
    }
}

/// Number of the newest committed state.
pub(crate) fn newest_state(env: &Env) -> Result<u64> {
    Ok(env.info()?.me_last_txnid as u64)
}

impl WriterState {
    pub(crate) fn new(trees: HashMap<TreeId, TreeRecord>, next_content: u64, applied: Position) -> WriterState {
        let positions = Arc::new(Positions::new());
        WriterState {
            trees,
            next_content,
            applied,
            uncounted: HashSet::new(),
            poisoned: None,
            positions,
            freed_pages: 0,
            newest: None,
        }
    }

    /// Moves on to the newest state.
    pub(crate) fn move_to_newest(&mut self, env: &Arc<Env>) -> Result<()> {
        let txn = match self.newest.take() {
            Some(Newest { mut txn, .. }) => {
                txn.reset();
                txn.renew()?;
                txn
            }
            None => ReadTxn::begin(env)?,
        };
        self.newest = Some(Newest { txn, position: self.applied });
        Ok(())
    }

    /// Moves on to the newest state and adds what its commit freed.
    pub(crate) fn count_freed(&mut self, env: &Arc<Env>) -> Result<()> {
        self.move_to_newest(env)?;
        if let Some(Newest { txn, .. }) = &self.newest {
            self.freed_pages += txn.pages_freed_by(txn.id())?;
        }
        Ok(())
    }

    /// The newest state, for the readers of an environment that is dead.
    pub(crate) fn take_newest(&mut self) -> Option<(ReadTxn, Position)> {
        self.newest.take().map(|newest| (newest.txn, newest.position))
    }

    /// Recounts every tree.
    pub(crate) fn recount(&mut self, txn: &Txn) -> Result<()> {
        for (tree, record) in &mut self.trees {
            *record = TreeRecord::empty(record.content);
            let mut cursor = LmdbCursor::new(txn, record.content)?;
            let mut more = cursor.first()?;
            while more {
                record.keys += 1;
                record.bytes += (cursor.key().len() + cursor.value().len()) as u64;
                more = cursor.next()?;
            }
            self.uncounted.insert(*tree);
        }
        Ok(())
    }

    fn set(&mut self, tree: TreeId, record: Option<TreeRecord>) {
        let Some(record) = record else {
            self.trees.remove(&tree);
            return;
        };
        if self.trees.insert(tree, record) != Some(record) {
            self.uncounted.insert(tree);
        }
    }
}

/// The longest value that LMDB keeps in one page with this content's head or fence: a node may take half of what the
/// page header leaves, less its slot, and begins with 8 bytes of header (`me_nodemax`, `mdb_leaf_size` in mdb.c).
fn inline_value_bytes_max(page_bytes: usize, content: Content) -> usize {
    let node_bytes_max = (((page_bytes - 16) / 2) & !1) - 2;
    node_bytes_max - 8 - content.fence().as_slice().len()
}
