//! The adapter's own rows. They live in the same transactions as the trees, so they always agree with them.
//!
//! | key | value (little-endian) | meaning |
//! |---|---|---|
//! | `00 'n'` | u64 | number of the next content |
//! | `00 't'` + u64 BE tree | u64 content, u64 keys, u64 bytes | a tree; the counts are right in checkpointed states |
//! | `00 'd'` + u64 BE content | empty | a dropped content: nothing reads it, its rows are to be deleted |
//! | `00 'l'` + u64 BE content | empty | a content that a bulk load fills; dropped if found at open |

use std::collections::HashMap;

use arbor_base::TreeId;
use arbor_engine::{Error, Result};

use crate::keys::Content;
use crate::raw::{Move, Txn, WriteTxn};

const NEXT_CONTENT: [u8; 2] = [0, b'n'];
const TREE: u8 = b't';
const DOOMED: u8 = b'd';
const LOADING: u8 = b'l';

/// A decoded tree record.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct TreeRecord {
    pub content: Content,
    pub keys: u64,
    /// Bytes of keys and values.
    pub bytes: u64,
}

fn key(letter: u8, number: u64) -> [u8; 10] {
    let [a, b, c, d, e, f, g, h] = number.to_be_bytes();
    [0, letter, a, b, c, d, e, f, g, h]
}

fn corrupt(place: &str) -> Error {
    Error::Corrupt { place: place.to_owned(), context: "not in the layout of a record".to_owned() }
}

/// One little-endian number; `None` if the bytes do not hold it.
fn number(bytes: &[u8], index: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(index * 8..)?.first_chunk()?))
}

fn read_number(txn: &Txn, key: &[u8], place: &str) -> Result<u64> {
    txn.get(key)?.and_then(|value| number(value, 0)).ok_or_else(|| corrupt(place))
}

/// Returns the bytes of a record that always exists: a small value that is stored in a page.
pub(crate) fn some_bytes(txn: &Txn) -> Result<&[u8]> {
    txn.get(&NEXT_CONTENT)?.ok_or_else(|| corrupt("next content"))
}

pub(crate) fn next_content(txn: &Txn) -> Result<u64> {
    read_number(txn, &NEXT_CONTENT, "next content")
}

pub(crate) fn put_next_content(txn: &mut WriteTxn<'_>, next: u64) -> Result<()> {
    txn.put(&NEXT_CONTENT, &next.to_le_bytes()).map(drop)
}

impl TreeRecord {
    pub(crate) fn empty(content: Content) -> TreeRecord {
        TreeRecord { content, keys: 0, bytes: 0 }
    }

    fn decode(value: &[u8]) -> Result<TreeRecord> {
        let fields = (number(value, 0), number(value, 1), number(value, 2));
        let (Some(content), Some(keys), Some(bytes)) = fields else { return Err(corrupt("tree record")) };
        Ok(TreeRecord { content: Content(content), keys, bytes })
    }

    fn encode(&self) -> Vec<u8> {
        [self.content.0, self.keys, self.bytes].into_iter().flat_map(u64::to_le_bytes).collect()
    }
}

pub(crate) fn tree(txn: &Txn, tree: TreeId) -> Result<Option<TreeRecord>> {
    txn.get(&key(TREE, tree.0))?.map(TreeRecord::decode).transpose()
}

pub(crate) fn put_tree(txn: &mut WriteTxn<'_>, tree: TreeId, record: &TreeRecord) -> Result<()> {
    txn.put(&key(TREE, tree.0), &record.encode()).map(drop)
}

pub(crate) fn delete_tree(txn: &mut WriteTxn<'_>, tree: TreeId) -> Result<()> {
    txn.delete(&key(TREE, tree.0)).map(drop)
}

pub(crate) fn trees(txn: &Txn) -> Result<HashMap<TreeId, TreeRecord>> {
    let mut trees = HashMap::new();
    for_each(txn, TREE, |tree, value| {
        trees.insert(TreeId(tree), TreeRecord::decode(value)?);
        Ok(true)
    })?;
    Ok(trees)
}

pub(crate) fn put_pending_drop(txn: &mut WriteTxn<'_>, content: Content) -> Result<()> {
    txn.put(&key(DOOMED, content.0), &[]).map(drop)
}

pub(crate) fn delete_pending_drop(txn: &mut WriteTxn<'_>, content: Content) -> Result<()> {
    txn.delete(&key(DOOMED, content.0)).map(drop)
}

pub(crate) fn first_pending_drop(txn: &Txn) -> Result<Option<Content>> {
    first(txn, DOOMED)
}

pub(crate) fn put_loading(txn: &mut WriteTxn<'_>, content: Content) -> Result<()> {
    txn.put(&key(LOADING, content.0), &[]).map(drop)
}

pub(crate) fn delete_loading(txn: &mut WriteTxn<'_>, content: Content) -> Result<()> {
    txn.delete(&key(LOADING, content.0)).map(drop)
}

pub(crate) fn first_loading(txn: &Txn) -> Result<Option<Content>> {
    first(txn, LOADING)
}

fn first(txn: &Txn, letter: u8) -> Result<Option<Content>> {
    let mut found = None;
    for_each(txn, letter, |content, _| {
        found = Some(Content(content));
        Ok(false)
    })?;
    Ok(found)
}

/// Visits the numbered records of one letter while `visit` returns true.
fn for_each(txn: &Txn, letter: u8, mut visit: impl FnMut(u64, &[u8]) -> Result<bool>) -> Result<()> {
    let mut cursor = txn.cursor()?;
    let mut entry = cursor.go(Move::Seek(&[0, letter]))?;
    while let Some((key, value)) = entry {
        let Some(rest) = key.strip_prefix(&[0, letter]) else { break };
        let id = rest.first_chunk().ok_or_else(|| corrupt("record key"))?;
        if !visit(u64::from_be_bytes(*id), value)? {
            break;
        }
        entry = cursor.go(Move::Next)?;
    }
    Ok(())
}
