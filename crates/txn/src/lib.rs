//! Snapshots, write sets, conflicts and the commit path.
//!
//! `txn` is the only caller of `log.append` and `engine.apply`. Keys and values are plain bytes here.
//!
//! ```text
//! begin ─ Transaction (snapshot + write set) ─ commit ─┬─ queue: one committer leads a group
//!                                                      ├─ conflict check        conflict.rs
//!                                                      ├─ log.append (group)    commit.rs
//!                                                      ├─ engine.apply (group)  commit.rs
//!                                                      └─ log.wait_durable      outside of every lock
//! open ─ replay of the log after engine.applied()         recovery.rs
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `transactions.rs` | [`Transactions`]: open, read, begin, retry, close |
//! | `view.rs`, `read_view.rs` | [`View`]: what a reader sees |
//! | `transaction.rs`, `write_set.rs`, `scratch.rs` | a transaction and its own writes, the large ones in a file |
//! | `written.rs`, `overlay.rs`, `merged_cursor.rs` | writes laid over a snapshot |
//! | `claims.rs`, `stale.rs` | what open transactions are about to write; those that are open for long |
//! | `commit.rs` with `commit/`, `group.rs`, `queue.rs`, `conflict.rs`, `active.rs` | the commit path |
//! | `commit_rule.rs`, `in_flight.rs`, `pending.rs` | the two stages of a commit, what is between them, and waiting for the second |
//! | `applier.rs`, `commit/follow.rs`, `leading.rs` | a member of a set: applying the log of another one, taking over, giving up |
//! | `fetch/` | trees that members fetch from each other: loads, initial sync |
//! | `follower.rs` | following the log from a snapshot on |
//! | `aside.rs` | views of idle cursors, which the writer may release |
//! | `prepared/` | transactions over several servers: what is prepared here, decisions, states at one time |
//! | `past.rs`, `held_states.rs` | views of past states; the states that are held for them |
//! | `history.rs`, `commit_waiters.rs` | reading the log as a history, from a time on; waiting for more of it |
//! | `record.rs`, `packed.rs`, `chain.rs`, `clock.rs` | byte layout of log records, of compressed ones, of those split across several, and their stamps |
//! | `ledger.rs` | the tree that `txn` keeps for itself: tree ids and counters |
//! | `checkpoint.rs`, `recovery.rs` | moving the replay point, and the replay |
//!
//! ```
//! use arbor_txn::{Durability, Error, Options, TreeOptions, View, testing::InMemory};
//!
//! let transactions = InMemory::new(Options::default())?.transactions;
//! let mut txn = transactions.begin()?;
//! let tree = txn.create_tree(TreeOptions::default());
//! txn.put(tree, "stock", "2");
//! txn.commit(Durability::Journaled)?;
//!
//! // Two transactions that read the same row and write it: the first to commit wins.
//! let (mut first, mut second) = (transactions.begin()?, transactions.begin()?);
//! first.put(tree, "stock", "1");
//! second.put(tree, "stock", "0");
//! first.commit(Durability::Applied)?;
//! assert!(matches!(second.commit(Durability::Applied), Err(Error::Conflict)));
//! assert_eq!(transactions.read()?.get(tree, b"stock")?.as_deref(), Some(&b"1"[..]));
//! # Ok::<(), Error>(())
//! ```

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

mod active;
mod applier;
mod aside;
pub mod chain;
mod checkpoint;
mod claims;
mod clock;
mod commit;
mod commit_rule;
mod commit_waiters;
mod conflict;
mod error;
pub mod fetch;
mod follower;
mod group;
mod held_states;
mod history;
mod in_flight;
mod leading;
mod ledger;
mod merged_cursor;
mod options;
mod overlay;
mod packed;
mod past;
mod pending;
mod prepared;
mod queue;
mod read_view;
pub mod record;
mod record_stream;
mod recovery;
mod replay;
mod scratch;
mod space;
mod stale;
pub mod testing;
mod transaction;
mod transactions;
mod view;
mod write_set;
mod written;

pub use applier::Applied;
pub use arbor_base::Durability;
pub use arbor_engine::{Cursor, RangeEstimate, TreeOptions};
pub use aside::Aside;
pub use checkpoint::CheckpointStats;
pub use clock::{Stamp, SystemClock};
pub use commit::AppendListener;
pub use commit_rule::CommitRule;
pub use commit_waiters::PositionReached;
pub use error::{Error, Result};
pub use follower::Follower;
pub use history::History;
pub use ledger::{CounterId, FIXED_TREES, tree_options};
pub use options::{Opening, Options, Retention};
pub use pending::{Patience, Pending};
pub use prepared::{Decision, PendingLock, PreparedInfo, TransactionId};
pub use read_view::ReadView;
pub use recovery::trees_of;
pub use scratch::ScratchDirectory;
pub use space::{RESERVE_FILE, Space};
pub use transaction::{Savepoint, Transaction};
pub use transactions::{MaybeConflict, Transactions};
pub use view::View;
