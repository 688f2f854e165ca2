//! Where everything stands in RocksDB's one column family.
//!
//! | key | value |
//! |---|---|
//! | 8 zero bytes, `a` | the state: generation, applied position, next content; each u64 LE |
//! | 8 zero bytes, `d`, content (u64 BE) | a doomed content, whose rows are to go; empty |
//! | 8 zero bytes, `l`, content (u64 BE) | a content that a bulk load fills; empty |
//! | 8 zero bytes, `t`, tree (u64 BE) | a tree: content, keys, bytes of keys and values; each u64 LE |
//! | content (u64 BE), key | a row |
//!
//! A **content** is the set of rows of one tree. A tree that is dropped and made again gets another content, and numbers
//! are never used twice, so a drop writes two records and no row. Contents begin at 1. Numbers inside keys are big-endian
//! because RocksDB sorts bytes.
//!
//! One column family with prefixes, not a column family per tree: one memtable and one flush make a state durable as a
//! whole, thousands of trees (MongoDB has one per index) cost nothing at rest, and drops are a range of keys. The price
//! is that options of RocksDB cannot differ by tree.

use arbor_base::{Position, TreeId};
use arbor_engine::{Error, Result};

use crate::raw::{Db, RawSnapshot, WriteBatch};

/// Number of the rows of one tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Content(pub u64);

impl Content {
    /// The adapter's records.
    pub const RECORDS: Content = Content(0);

    pub fn prefix(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }

    /// The first key behind the content.
    pub fn end(self) -> [u8; 8] {
        (self.0 + 1).to_be_bytes()
    }

    pub fn row(self, key: &[u8]) -> Vec<u8> {
        [&self.prefix(), key].concat()
    }
}

/// What is known of a tree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tree {
    pub content: Content,
    pub keys: u64,
    pub bytes: u64,
}

impl Tree {
    pub fn empty(content: Content) -> Tree {
        Tree { content, keys: 0, bytes: 0 }
    }
}

/// The record that names a state.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StateRecord {
    /// Rises with each write, also where the position stays.
    pub generation: u64,
    pub applied: Position,
    pub next_content: u64,
}

fn record_key(tag: u8, number: u64) -> Vec<u8> {
    let mut key = Content::RECORDS.row(&[tag]);
    key.extend(number.to_be_bytes());
    key
}

fn state_key() -> Vec<u8> {
    Content::RECORDS.row(b"a")
}

fn numbers(db: &Db, what: &str, bytes: &[u8]) -> Result<[u64; 3]> {
    let corrupt = || Error::Corrupt {
        place: db.dir().display().to_string(),
        context: format!("the record of {what} has {} bytes, not 24", bytes.len()),
    };
    let number = |at: usize| {
        let bytes = bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
        bytes.map(u64::from_le_bytes).ok_or_else(corrupt)
    };
    match bytes.len() {
        24 => Ok([number(0)?, number(8)?, number(16)?]),
        _ => Err(corrupt()),
    }
}

/// The state record; `None` in a new database.
pub fn state(db: &Db, snapshot: Option<&RawSnapshot>) -> Result<Option<StateRecord>> {
    let Some(bytes) = db.get(&state_key(), snapshot)? else { return Ok(None) };
    let [generation, applied, next_content] = numbers(db, "the state", &bytes)?;
    Ok(Some(StateRecord { generation, applied: Position(applied), next_content }))
}

pub fn put_state(batch: &mut WriteBatch, state: &StateRecord) {
    let value = [state.generation, state.applied.0, state.next_content].map(u64::to_le_bytes).concat();
    batch.put(&state_key(), &value);
}

/// A tree as a snapshot shows it.
pub fn tree(db: &Db, snapshot: &RawSnapshot, tree: TreeId) -> Result<Option<Tree>> {
    db.get(&record_key(b't', tree.0), Some(snapshot))?.map(|bytes| tree_of(db, &bytes)).transpose()
}

fn tree_of(db: &Db, bytes: &[u8]) -> Result<Tree> {
    let [content, keys, bytes] = numbers(db, "a tree", bytes)?;
    Ok(Tree { content: Content(content), keys, bytes })
}

pub fn put_tree(batch: &mut WriteBatch, tree: TreeId, record: &Tree) {
    let value = [record.content.0, record.keys, record.bytes].map(u64::to_le_bytes).concat();
    batch.put(&record_key(b't', tree.0), &value);
}

pub fn delete_tree(batch: &mut WriteBatch, tree: TreeId) {
    batch.delete(&record_key(b't', tree.0));
}

pub fn put_doomed(batch: &mut WriteBatch, content: Content) {
    batch.put(&record_key(b'd', content.0), b"");
}

pub fn delete_doomed(batch: &mut WriteBatch, content: Content) {
    batch.delete(&record_key(b'd', content.0));
}

pub fn put_loading(batch: &mut WriteBatch, content: Content) {
    batch.put(&record_key(b'l', content.0), b"");
}

pub fn delete_loading(batch: &mut WriteBatch, content: Content) {
    batch.delete(&record_key(b'l', content.0));
}

/// All records but the state.
#[derive(Default)]
pub struct All {
    pub trees: Vec<(TreeId, Tree)>,
    pub doomed: Vec<Content>,
    pub loading: Vec<Content>,
}

pub fn all(db: &Db) -> Result<All> {
    let mut all = All::default();
    let mut rows = db.rows(Content::RECORDS, None)?;
    let mut more = rows.seek(b"")?;
    while more {
        let (key, value) = (rows.key(), rows.value());
        let number = key.get(1..9).and_then(|bytes| bytes.try_into().ok()).map(u64::from_be_bytes);
        match (key.first(), number) {
            (Some(b'd'), Some(content)) => all.doomed.push(Content(content)),
            (Some(b'l'), Some(content)) => all.loading.push(Content(content)),
            (Some(b't'), Some(tree)) => all.trees.push((TreeId(tree), tree_of(db, value)?)),
            _ => {}
        }
        more = rows.next()?;
    }
    Ok(all)
}

/// The last content that has a row.
pub fn last_content(db: &Db) -> Result<Option<Content>> {
    let key = db.last_key()?;
    let number = key.as_deref().and_then(|key| key.get(..8)).and_then(|bytes| bytes.try_into().ok());
    Ok(number.map(|bytes| Content(u64::from_be_bytes(bytes))))
}
