//! Collections over `txn`: the catalogue, records, index maintenance, index builds.
//!
//! | file | holds |
//! |---|---|
//! | `store.rs`, `collection.rs`, `latch.rs`, `namespace.rs`, `capped.rs` | [`Store`] and what it shows; capped collections |
//! | `partition.rs` | partitioned collections: the ranges, and reading across them |
//! | `catalogue/` | the catalogue in memory and its rows; its changes: collections, partitions, views, time series, indexes; options of trees |
//! | `index/` | index specifications and conflicts between them; the keys of a document in indexes of every kind; usage counters |
//! | `read/` | records and entries: cursors, layout; collections as a snapshot has them |
//! | `write/` | [`insert`], [`update`], [`delete`] |
//! | `build/`, `rebuild.rs` | index builds; rebuilding the indexes of a collection |
//! | `follow/` | the common part of long changes that do not block writers |
//! | `sort/` | the external sort of index builds and of queries; rows that queries keep on disk |
//! | `switch/` | the live change of a collection's engine |
//! | `compact.rs` | compacting a collection's trees |
//! | `noting/` | notes of changes for the readers of the history |
//! | `prepared.rs` | the latches of prepared transactions |
//! | `open_transaction.rs` | transactions of several statements |
//! | `validate.rs` | the proof that indexes and collection agree |

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

mod build;
mod capped;
mod catalogue;
mod collection;
mod compact;
mod error;
mod follow;
mod index;
mod latch;
mod namespace;
mod noting;
mod open_transaction;
mod partition;
mod prepared;
mod read;
mod rebuild;
mod sort;
mod store;
mod switch;
pub mod testing;
mod validate;
mod write;

pub use arbor_lang::hash_of;
pub use build::{BuildSettings, IndexBuild, IndexBuildCounts, UnfinishedBuild};
pub use capped::{Arrivals, CappedBounds, OrderCursor, capped_position};
pub use catalogue::change_collections::Created;
pub use catalogue::change_index::{Conversion, IndexChange, IndexChanged, IndexChosen};
pub use catalogue::change_indexes::{INDEXES_MAX, IndexSelection, IndexesCreated};
pub use catalogue::tree_options::{EngineNames, TreeDefaults};
pub use catalogue::view::{VIEW_DEPTH_MAX, ViewDefinition};
pub use collection::{Collection, CollectionGuard};
pub use error::{Error, IndexProblem, Result};
pub use follow::{Phase, Unwatched, Watch};
pub use index::geo_keys::GeoKeys;
pub use index::key_pattern::INDEX_FIELDS_MAX;
pub use index::keys::{KEYS_PER_DOCUMENT_MAX, index_keys};
pub use index::partial::PartialFilter;
pub use index::spec::{IndexSpec, ORIGINAL as ORIGINAL_SPEC};
pub use index::text_keys::{TextKeys, prefix as text_prefix, text_key, text_score};
pub use index::usage::{CollectionUsage, Usage};
pub use index::wildcard::Wildcard;
pub use index::{Direction, FieldKind, Index, KeyField};
pub use namespace::{DATABASE_BYTES_MAX, NAMESPACE_BYTES_MAX, Namespace, RESHARDING_PREFIX, check_database_name};
pub use open_transaction::OpenTransaction;
pub use partition::{PARTITIONS_MAX, Partition, PartitionsDropped};
pub use read::cursor::{IndexCursor, RecordCursor};
pub use read::record::{count, counted, data_size, estimate, id_key, record};
pub use sort::sorter::{Merge, Sorter};
pub use sort::spool::{Spool, SpoolReader, SpoolWriter};
pub use store::{Store, StoreOptions};
pub use switch::{EngineChange, Switched};
pub use validate::{IndexReport, Report};
pub use write::key_generator::KeyGenerator;
pub use write::unread::{UpdateMessages, update_unread};
pub use write::{UpdateKind, delete, delete_unseen, insert, update};
