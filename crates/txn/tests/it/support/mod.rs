//! A commit path over the model engine and a log that survives its reopening.

use std::sync::Arc;

use arbor_base::TreeId;
use arbor_engine::UpdateFunction;
use arbor_txn::testing::InMemory;
use arbor_txn::{Cursor, Durability, Options, Transaction, Transactions, TreeOptions, View};

pub(crate) struct Rig {
    pub own: InMemory,
    pub transactions: Arc<Transactions>,
}

pub(crate) fn rig() -> Rig {
    rig_with(Options::default())
}

pub(crate) fn rig_with(options: Options) -> Rig {
    Rig::over(InMemory::new(options).unwrap())
}

/// An update function: a message of one byte is added to the byte that the row is; no row counts as 0, and a sum that five
/// divides is no row.
pub(crate) struct Sums;

impl Sums {
    pub(crate) fn sum(row: Option<u8>, message: u8) -> Option<u8> {
        let sum = row.unwrap_or(0).wrapping_add(message);
        (!sum.is_multiple_of(5)).then_some(sum)
    }
}

impl UpdateFunction for Sums {
    fn apply(&self, _key: &[u8], row: Option<&[u8]>, message: &[u8]) -> Option<Vec<u8>> {
        let row = row.map(|row| row.first().copied().unwrap_or(0));
        Sums::sum(row, message[0]).map(|sum| vec![sum])
    }
}

pub(crate) fn with_updates() -> Options {
    Options { updates: Some(Arc::new(Sums)), ..Options::default() }
}

impl Rig {
    pub(crate) fn over(own: InMemory) -> Rig {
        Rig { transactions: own.transactions.clone(), own }
    }

    pub(crate) fn tree(&self) -> TreeId {
        let mut txn = self.transactions.begin().unwrap();
        let tree = txn.create_tree(TreeOptions::default());
        txn.commit(Durability::Applied).unwrap();
        tree
    }

    pub(crate) fn put(&self, tree: TreeId, key: &str, value: &str) {
        let mut txn = self.transactions.begin().unwrap();
        txn.put(tree, key, value);
        txn.commit(Durability::Applied).unwrap();
    }

    pub(crate) fn rows(&self, tree: TreeId) -> Vec<String> {
        rows(&self.transactions.read().unwrap(), tree)
    }

    pub(crate) fn begin(&self) -> Transaction {
        self.transactions.begin().unwrap()
    }
}

/// `key=value` of every row, forwards; checked against the backward scan.
pub(crate) fn rows(view: &impl View, tree: TreeId) -> Vec<String> {
    let row = |cursor: &dyn Cursor| {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        format!("{}={}", text(cursor.key()), text(cursor.value()))
    };
    let mut cursor = view.cursor(tree).unwrap();
    let mut forward = Vec::new();
    let mut valid = cursor.first().unwrap();
    while valid {
        forward.push(row(&*cursor));
        valid = cursor.next().unwrap();
    }
    let mut backward = Vec::new();
    let mut valid = cursor.last().unwrap();
    while valid {
        backward.push(row(&*cursor));
        valid = cursor.prev().unwrap();
    }
    backward.reverse();
    assert_eq!(forward, backward);
    forward
}
