//! Layout of RocksDB's one column family.
//!
//! | key | value |
//! |---|---|
//! | 8 zero bytes, `a` | the state: generation, applied position, next content; each u64 LE |
//! | 8 zero bytes, `b` | 64 zero bytes, written with the state of a large batch: a margin of its block |
//! | 8 zero bytes, `d`, content (u64 BE) | a dropped content, whose rows are to go; empty |
//! | 8 zero bytes, `l`, content (u64 BE) | a content that a bulk load fills; empty |
//! | 8 zero bytes, `t`, tree (u64 BE) | a tree: its content, u64 LE |
//! | 8 zero bytes, `u`, 8 zero bytes | there since the first update message was written; empty |
//! | content (u64 BE), key | a row |
//!
//! Each value is followed by one more byte (see [`raw`](crate::raw)).
//!
//! A **content** is the set of rows of one tree. A tree that is dropped and made again gets another content, and numbers
//! are never used twice, so a drop writes two records and no row. Contents begin at 1. Numbers inside keys are big-endian
//! because RocksDB sorts bytes.
//!
//! One column family with prefixes, not a column family per tree: one memtable and one flush make a state durable as a
//! whole (RocksDB 7.8's C interface cannot flush several families together), thousands of trees (MongoDB has one per
//! index) cost nothing at rest, and drops are a range of keys. The price is that options of RocksDB cannot differ by
//! tree. Measurements: docs/engines.md.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arbor_base::{Position, TreeId};
use arbor_engine::{Error, Result};

use crate::raw::{Db, RawSnapshot, WriteBatch};

/// Number of the rows of one tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Content(pub u64);

impl Content {
    /// The adapter's records.
    pub(crate) const RECORDS: Content = Content(0);

    pub(crate) fn prefix(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }

    /// The first key after the content.
    pub(crate) fn end(self) -> [u8; 8] {
        (self.0 + 1).to_be_bytes()
    }

    pub(crate) fn row(self, key: &[u8]) -> Vec<u8> {
        [&self.prefix(), key].concat()
    }
}

/// A tree, shared by the writer and the snapshots that show it.
#[derive(Debug)]
pub(crate) struct Tree {
    pub content: Content,
    /// Bytes of keys and values that were put since the last flush began, and those that it takes while it runs. For
    /// estimates: no property of RocksDB gives the bytes of a range in a memtable.
    unflushed_bytes: AtomicU64,
    flushing_bytes: AtomicU64,
}

impl Tree {
    pub(crate) fn new(content: Content) -> Tree {
        Tree { content, unflushed_bytes: AtomicU64::new(0), flushing_bytes: AtomicU64::new(0) }
    }

    pub(crate) fn count(&self, bytes: u64) {
        self.unflushed_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn bytes_in_memory(&self) -> u64 {
        self.unflushed_bytes.load(Ordering::Relaxed) + self.flushing_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn flush_begins(&self) {
        self.flushing_bytes.fetch_add(self.unflushed_bytes.swap(0, Ordering::Relaxed), Ordering::Relaxed);
    }

    pub(crate) fn flushed(&self) {
        self.flushing_bytes.store(0, Ordering::Relaxed);
    }
}

pub(crate) type Trees = HashMap<TreeId, Arc<Tree>>;

/// The record that names a state.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct StateRecord {
    /// Rises with each write, also where the position stays.
    pub generation: u64,
    pub applied: Position,
    pub next_content: u64,
}

/// Without the prefix of the records.
fn record_key(tag: u8, number: u64) -> Vec<u8> {
    let mut key = vec![tag];
    key.extend(number.to_be_bytes());
    key
}

const STATE: &[u8] = b"a";
const MARGIN: &[u8] = b"b";
/// The state's record is the first of each file. With the margin its block is large enough to be closed before a large row (see
/// `BLOCK_DEVIATION_PERCENT` in [`raw`](crate::raw)): a seek to any tree before that row's would read it.
const MARGIN_BYTES: usize = 64;
/// A batch with less has no large row.
const MARGIN_FROM_BYTES: u64 = 4 << 10;

fn numbers<const N: usize>(db: &Db, what: &str, bytes: &[u8]) -> Result<[u64; N]> {
    let (chunks, rest) = bytes.as_chunks::<8>();
    match (<[[u8; 8]; N]>::try_from(chunks), rest) {
        (Ok(chunks), []) => Ok(chunks.map(u64::from_le_bytes)),
        _ => Err(Error::Corrupt {
            place: db.dir().display().to_string(),
            context: format!("rocksdb, the record of {what} has {} bytes, not {}", bytes.len(), N * 8),
        }),
    }
}

/// The state record; `None` in a new database.
pub(crate) fn state(db: &Db, snapshot: Option<&RawSnapshot>) -> Result<Option<StateRecord>> {
    let Some(bytes) = db.get(&Content::RECORDS.row(STATE), snapshot)? else { return Ok(None) };
    let [generation, applied, next_content] = numbers(db, "the state", &bytes)?;
    Ok(Some(StateRecord { generation, applied: Position(applied), next_content }))
}

fn put(batch: &mut WriteBatch, key: &[u8], value: &[u8]) {
    batch.put(Content::RECORDS, key, value);
}

pub(crate) fn put_state(batch: &mut WriteBatch, state: &StateRecord) {
    let value = [state.generation, state.applied.0, state.next_content].map(u64::to_le_bytes).concat();
    put(batch, STATE, &value);
    if batch.bytes >= MARGIN_FROM_BYTES {
        put(batch, MARGIN, &[0; MARGIN_BYTES]);
    }
}

pub(crate) fn put_tree(batch: &mut WriteBatch, tree: TreeId, content: Content) {
    put(batch, &record_key(b't', tree.0), &content.0.to_le_bytes());
}

pub(crate) fn delete_tree(batch: &mut WriteBatch, tree: TreeId) {
    batch.delete(Content::RECORDS, &record_key(b't', tree.0));
}

pub(crate) fn put_pending_drop(batch: &mut WriteBatch, content: Content) {
    put(batch, &record_key(b'd', content.0), b"");
}

pub(crate) fn delete_pending_drop(batch: &mut WriteBatch, content: Content) {
    batch.delete(Content::RECORDS, &record_key(b'd', content.0));
}

pub(crate) fn put_loading(batch: &mut WriteBatch, content: Content) {
    put(batch, &record_key(b'l', content.0), b"");
}

pub(crate) fn delete_loading(batch: &mut WriteBatch, content: Content) {
    batch.delete(Content::RECORDS, &record_key(b'l', content.0));
}

/// From now on the database opens only with a function for update messages.
pub(crate) fn put_updates(batch: &mut WriteBatch) {
    put(batch, &record_key(b'u', 0), b"");
}

/// All records but the state.
#[derive(Default)]
pub(crate) struct All {
    pub trees: Trees,
    pub pending_drops: Vec<Content>,
    pub loading: Vec<Content>,
    /// Update messages may be stored.
    pub updates: bool,
}

pub(crate) fn all(db: &Db) -> Result<All> {
    let mut all = All::default();
    let mut rows = db.rows(Content::RECORDS, None)?;
    let mut more = rows.seek(b"")?;
    while more {
        let (key, value) = (rows.key(), rows.value());
        let number = key.get(1..9).and_then(|bytes| bytes.try_into().ok()).map(u64::from_be_bytes);
        match (key.first(), number) {
            (Some(b'd'), Some(content)) => all.pending_drops.push(Content(content)),
            (Some(b'l'), Some(content)) => all.loading.push(Content(content)),
            (Some(b't'), Some(tree)) => {
                let [content] = numbers(db, "a tree", value)?;
                all.trees.insert(TreeId(tree), Arc::new(Tree::new(Content(content))));
            }
            (Some(b'u'), Some(_)) => all.updates = true,
            _ => {}
        }
        more = rows.next()?;
    }
    Ok(all)
}

/// The last content that has a row.
pub(crate) fn last_content(db: &Db) -> Result<Option<Content>> {
    let key = db.last_key()?;
    let number = key.as_deref().and_then(|key| key.get(..8)).and_then(|bytes| bytes.try_into().ok());
    Ok(number.map(|bytes| Content(u64::from_be_bytes(bytes))))
}
