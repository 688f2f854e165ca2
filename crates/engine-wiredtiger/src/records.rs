//! The catalogue: the table `t0`, whose rows change in the same transactions as the trees.
//!
//! | key | value |
//! |---|---|
//! | `s` | the state: generation, applied position, shape (3 x 8 bytes, big-endian) |
//! | `o` tree (8 bytes, big-endian) | the tree's options: name, zero byte, value, zero byte, and so on; no row: none |
//! | `t` tree (8 bytes, big-endian) | the tree: number of its table, rows, bytes of rows (3 x 8 bytes, big-endian) |
//!
//! The generation rises with every transaction and is its timestamp in WiredTiger; the shape rises when a tree comes,
//! goes or moves to another table. A table that no record names is an orphan: dropped, or made by a batch that a crash
//! lost. Making and dropping tables is no part of WiredTiger's transactions, so tables are made before the transaction
//! that names them, and dropped after a checkpoint that does not.

use std::collections::HashMap;

use arbor_base::{Position, TreeId};
use arbor_engine::{Error, Result, TreeOptions};

use crate::raw::{Called, Session, Table};

pub(crate) const CATALOGUE: Table = Table(0);
/// Table of no tree, for trial creations: dropped at open if a crash leaves it.
pub(crate) const PROBE: Table = Table(u64::MAX);
const STATE: &[u8] = b"s";
const OPTIONS: u8 = b'o';
const TREE: u8 = b't';

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub generation: u64,
    pub applied: Position,
    pub shape: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tree {
    pub table: Table,
    /// Estimates: range deletes are estimated, all other changes counted.
    pub keys: u64,
    pub bytes: u64,
}

impl Tree {
    pub(crate) fn empty(table: Table) -> Tree {
        Tree { table, keys: 0, bytes: 0 }
    }

    pub(crate) fn add(&mut self, keys: u64, bytes: u64) {
        self.keys += keys;
        self.bytes += bytes;
    }

    pub(crate) fn subtract(&mut self, keys: u64, bytes: u64) {
        self.keys = self.keys.saturating_sub(keys);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

fn pack(numbers: [u64; 3]) -> [u8; 24] {
    let mut packed = [0; 24];
    for (place, number) in packed.chunks_exact_mut(8).zip(numbers) {
        place.copy_from_slice(&number.to_be_bytes());
    }
    packed
}

fn unpack(session: &Session, what: &str, packed: &[u8]) -> Result<[u64; 3]> {
    let numbers: Vec<u64> = packed.as_chunks().0.iter().map(|number| u64::from_be_bytes(*number)).collect();
    match (numbers.try_into(), packed.len()) {
        (Ok(numbers), 24) => Ok(numbers),
        _ => Err(damaged(session, format!("the record {what} has {} bytes", packed.len()))),
    }
}

pub(crate) fn damaged(session: &Session, context: String) -> Error {
    Error::Corrupt { place: session.connection().dir().join(CATALOGUE.file()).display().to_string(), context }
}

fn tree_key(tree: TreeId) -> [u8; 9] {
    key_of(TREE, tree)
}

fn key_of(kind: u8, tree: TreeId) -> [u8; 9] {
    let mut key = [kind; 9];
    key[1..].copy_from_slice(&tree.0.to_be_bytes());
    key
}

pub(crate) fn state(session: &mut Session) -> Result<Option<State>> {
    let Some(packed) = session.get(CATALOGUE, STATE)? else { return Ok(None) };
    let [generation, applied, shape] = unpack(session, "of the state", &packed)?;
    Ok(Some(State { generation, applied: Position(applied), shape }))
}

pub(crate) fn put_state(session: &mut Session, state: &State) -> Called {
    session.put(CATALOGUE, STATE, &pack([state.generation, state.applied.0, state.shape]))
}

pub(crate) fn tree(session: &mut Session, tree: TreeId) -> Result<Option<Tree>> {
    let Some(packed) = session.get(CATALOGUE, &tree_key(tree))? else { return Ok(None) };
    let [table, keys, bytes] = unpack(session, "of a tree", &packed)?;
    Ok(Some(Tree { table: Table(table), keys, bytes }))
}

pub(crate) fn put_tree(session: &mut Session, tree: TreeId, record: &Tree) -> Called {
    session.put(CATALOGUE, &tree_key(tree), &pack([record.table.0, record.keys, record.bytes]))
}

pub(crate) fn delete_tree(session: &mut Session, tree: TreeId) -> Called {
    session.remove(CATALOGUE, &tree_key(tree))
}

/// Returns the options of the tree's next table.
pub(crate) fn options(session: &mut Session, tree: TreeId) -> Result<TreeOptions> {
    let packed = session.get(CATALOGUE, &key_of(OPTIONS, tree))?.unwrap_or_default();
    let texts = String::from_utf8(packed).map_err(|_| damaged(session, "options of a tree are no text".to_owned()))?;
    let mut texts = texts.split_terminator('\0').map(str::to_owned);
    let settings = std::iter::from_fn(|| Some((texts.next()?, texts.next()?)));
    Ok(TreeOptions { settings: settings.collect() })
}

/// Requires: no option holds a zero byte.
pub(crate) fn put_options(session: &mut Session, tree: TreeId, options: &TreeOptions) -> Called {
    if options.settings.is_empty() {
        return session.remove(CATALOGUE, &key_of(OPTIONS, tree));
    }
    let packed: String = options.settings.iter().flat_map(|(name, value)| [name, "\0", value, "\0"]).collect();
    session.put(CATALOGUE, &key_of(OPTIONS, tree), packed.as_bytes())
}

/// All trees.
pub(crate) fn trees(session: &mut Session) -> Result<HashMap<TreeId, Tree>> {
    let mut rows = session.rows(CATALOGUE)?;
    let mut trees = HashMap::new();
    let mut more = rows.seek(session, &[TREE])?;
    while more {
        let Some(tree) = rows.key().strip_prefix(&[TREE]).and_then(|tree| tree.try_into().ok()) else { break };
        let [table, keys, bytes] = unpack(session, "of a tree", rows.value())?;
        trees.insert(TreeId(u64::from_be_bytes(tree)), Tree { table: Table(table), keys, bytes });
        more = rows.next(session)?;
    }
    rows.close(session)?;
    Ok(trees)
}
