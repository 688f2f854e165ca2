//! Rows that transactions of clients write on a member's data: of a tree, or the documents of collections (`collections`).

use std::sync::Arc;

use arbor_base::{Position, TreeId};
use arbor_txn::{CounterId, Error, ReadView, Transaction, Transactions, TreeOptions, View};

use crate::data::Written;
use crate::operation::{Documents, KEYS, Operation};
use crate::plan::Defect;
use crate::world::SESSIONS;

pub(crate) type Begun<H> = Result<(Transaction, H), Written>;

/// Rows of one kind, on the transactions of one process.
pub(crate) trait Rows: Sized {
    /// Guards that a write keeps until its outcome is known.
    type Guards;

    /// Clients change the catalogue.
    const HAVE_CATALOGUE: bool = false;

    /// Members have two engines, and loads of trees.
    const HAVE_TREES: bool = false;

    /// Bytes from which a transaction is a chain of records.
    const RECORD_BYTES: usize;

    /// The tree under which notes say which operation a record was.
    const NOTES: TreeId;

    /// Trees with fixed ids that a leader makes first.
    const TREES: &[TreeId];

    fn open(transactions: Arc<Transactions>, defect: Option<Defect>) -> Self;

    /// Begins what a new leader does first. False: it is not done yet.
    fn is_ready(&mut self) -> bool {
        true
    }

    /// The transaction of an operation, which may be refused, or never do what it was meant to do.
    fn begin(&self, operation: Operation) -> Begun<Self::Guards>;

    /// Reads what readers see.
    fn documents(&self, view: &ReadView) -> Documents;

    /// Trees that members may have in different states.
    fn unfinished_trees(&self, _view: &ReadView) -> Vec<TreeId> {
        Vec::new()
    }

    /// T3. Gets the number of writes of each key.
    fn check(&self, shown: (Position, &Documents), writes: &[i64; KEYS as usize]);

    /// Asks for a change of the catalogue.
    fn change(&mut self, _choice: u64) {}

    /// Begins what was asked for as soon as no write holds what it changes, and returns once it has ended or waits for the set.
    fn proceed<'h>(&mut self, _held: impl Iterator<Item = &'h Self::Guards>)
    where
        Self::Guards: 'h,
    {
    }

    /// This member does not lead any more.
    fn stop_leading(&mut self) {}

    /// Changes of the catalogue that were done since the last call.
    fn take_done(&mut self) -> u64 {
        0
    }
}

/// The tree of the documents, and of the row that names the tree which is dropped and created again and again.
const DOCUMENTS: TreeId = TreeId(8);
const OTHER_TREE: &[u8] = b"other tree";
const FILLER: &[u8] = b"filler";

/// Documents are rows of a tree.
pub(crate) struct Plain {
    transactions: Arc<Transactions>,
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().expect("rows have numbers"))
}

fn get(view: &dyn View, key: &[u8]) -> Option<u64> {
    view.get(DOCUMENTS, key).expect("the engine reads").map(|value| number(&value))
}

impl Rows for Plain {
    type Guards = ();

    const RECORD_BYTES: usize = 400;

    const NOTES: TreeId = DOCUMENTS;

    const TREES: &[TreeId] = &[DOCUMENTS];

    fn open(transactions: Arc<Transactions>, _defect: Option<Defect>) -> Plain {
        Plain { transactions }
    }

    fn begin(&self, operation: Operation) -> Begun<()> {
        let mut txn = self.transactions.begin().expect("the engine reads");
        txn.note(DOCUMENTS, operation.encode());
        let (key, value) = match operation {
            Operation::Nothing | Operation::Loaded { .. } => return Ok((txn, ())),
            Operation::Put { key, value } | Operation::CompareAndSet { key, value, .. } => (key, value),
        };
        if let Operation::CompareAndSet { expected, .. } = operation
            && get(&txn, &key.to_be_bytes()).unwrap_or(0) != expected
        {
            return Err(Written::Never);
        }
        txn.put(DOCUMENTS, key.to_be_bytes(), value.to_be_bytes());
        txn.add_counter(CounterId(key), 1);
        match value / SESSIONS % 16 {
            // A chain of several records
            0 | 7 => txn.put(DOCUMENTS, FILLER, vec![value as u8; 3 * Self::RECORD_BYTES]),
            3 => {
                get(&txn, OTHER_TREE).into_iter().for_each(|old| txn.drop_tree(TreeId(old)));
                let tree = txn.create_tree(TreeOptions::default());
                txn.put(tree, "row", value.to_be_bytes());
                txn.put(DOCUMENTS, OTHER_TREE, tree.0.to_be_bytes());
            }
            5 => txn.delete_range(DOCUMENTS, FILLER, Some([FILLER, b"x"].concat())),
            _ => {}
        }
        Ok((txn, ()))
    }

    fn documents(&self, view: &ReadView) -> Documents {
        let mut documents = Documents::default();
        for key in 0..KEYS {
            let value = match view.get(DOCUMENTS, &key.to_be_bytes()) {
                Ok(value) => value.map_or(0, |value| number(&value)),
                Err(Error::UnknownTree(_)) => 0,
                Err(error) => panic!("a read failed: {error}"),
            };
            documents.apply(Operation::Put { key, value });
        }
        documents
    }

    fn check(&self, shown: (Position, &Documents), writes: &[i64; KEYS as usize]) {
        for (key, written) in (0..).zip(writes) {
            let counted = match self.transactions.counter(CounterId(key)) {
                // The first leader of a new store makes the ledger.
                Err(Error::UnknownTree(_)) => 0,
                counted => counted.expect("the engine reads"),
            };
            assert_eq!(counted, *written, "T3: the counter of {key} at {:?}", shown.0);
        }
    }
}
