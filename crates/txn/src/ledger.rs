//! The tree that `txn` keeps for itself (TreeId 1): which trees exist, the next tree id, the counters.
//!
//! | key | value |
//! |---|---|
//! | `n` | next tree id to allot, u64 little-endian |
//! | `t` + tree id (u64 big-endian) | the tree exists; its options: varint number of settings, and of each name and value, as in a record. Empty: written by
//! | | a release up to 2026-11-23, which kept them in the record alone |
//! | `c` + counter id (u64 big-endian) | absolute value, i64 little-endian |
//!
//! Counters are written as absolute values by the commit path, in the batch that changed them, so replay is idempotent
//! and a snapshot shows counter values that fit its data exactly.

use std::borrow::Cow;

use arbor_base::TreeId;
use arbor_engine::{Op, TreeOptions};

use crate::{Error, Result, View, record};

/// Identity of one counter, chosen by the layer above. Never used again after `drop_counter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CounterId(pub u64);

pub(crate) const LEDGER: TreeId = TreeId(1);

/// Tree ids that the layers above may use for trees with a fixed id (see `Transaction::create_fixed_tree`).
pub const FIXED_TREES: std::ops::Range<u64> = 2..16;

pub(crate) const NEXT_TREE_KEY: &[u8] = b"n";
pub(crate) const TREE_PREFIX: u8 = b't';
pub(crate) const COUNTER_PREFIX: u8 = b'c';

fn numbered_key(prefix: u8, number: u64) -> Vec<u8> {
    let mut key = Vec::with_capacity(9);
    key.push(prefix);
    key.extend(number.to_be_bytes());
    key
}

/// Returns the number in a key with that prefix.
pub(crate) fn number_of(prefix: u8, key: &[u8]) -> Option<u64> {
    let (first, number) = key.split_first()?;
    (*first == prefix).then(|| number.try_into().ok().map(u64::from_be_bytes))?
}

pub(crate) fn counter_key(id: CounterId) -> Vec<u8> {
    numbered_key(COUNTER_PREFIX, id.0)
}

/// The counter that the value of its key says.
pub(crate) fn counter_in(value: Option<Cow<'_, [u8]>>) -> i64 {
    value.as_deref().and_then(number_in).map_or(0, |n| n as i64)
}

/// The 8-byte number that a ledger value holds.
pub(crate) fn number_in(value: &[u8]) -> Option<u64> {
    value.try_into().ok().map(u64::from_le_bytes)
}

pub(crate) fn put_counter(id: CounterId, value: i64) -> Op {
    Op::Put { tree: LEDGER, key: counter_key(id), value: value.to_le_bytes().to_vec() }
}

pub(crate) fn delete_counter(id: CounterId) -> Op {
    Op::Delete { tree: LEDGER, key: counter_key(id) }
}

pub(crate) fn put_tree(tree: TreeId, options: &TreeOptions) -> Op {
    Op::Put { tree: LEDGER, key: numbered_key(TREE_PREFIX, tree.0), value: record::encode_options(options) }
}

/// The options with which a tree was created, or given later: a member that does not have the record makes an equal tree of them.
/// `None`: it does not exist, or an older release has created it.
pub fn tree_options(view: &impl View, tree: TreeId) -> Result<Option<TreeOptions>> {
    let row = view.get(LEDGER, &numbered_key(TREE_PREFIX, tree.0))?;
    let Some(row) = row.filter(|row| !row.is_empty()) else { return Ok(None) };
    let corrupt = |reason| Error::CorruptRecord { position: view.position(), reason };
    record::decode_options(&row).map(Some).map_err(corrupt)
}

pub(crate) fn delete_tree(tree: TreeId) -> Op {
    Op::Delete { tree: LEDGER, key: numbered_key(TREE_PREFIX, tree.0) }
}

pub(crate) fn put_next_tree(next: u64) -> Op {
    Op::Put { tree: LEDGER, key: NEXT_TREE_KEY.to_vec(), value: next.to_le_bytes().to_vec() }
}
