//! Collections over `txn`: the catalogue, records, index maintenance, index builds.
//!
//! | file | holds |
//! |---|---|
//! | `store.rs`, `collection.rs`, `index.rs`, `latch.rs`, `namespace.rs` | [`Store`] and what it shows |
//! | `catalogue.rs` | the catalogue in memory and its rows |
//! | `change_collections.rs`, `change_views.rs`, `change_indexes.rs` | changes of the catalogue |
//! | `change_time_series.rs` | time series: a view with its buckets |
//! | `change_index.rs` | changes of one index (collMod) |
//! | `view.rs`, `capped.rs`, `change_capped.rs` | views; capped collections |
//! | `index_spec.rs`, `key_pattern.rs`, `index_conflict.rs` | what an index may be, and be beside others |
//! | `build/`, `rebuild.rs` | index builds; building the indexes of a collection anew |
//! | `follow/` | what long changes share that let writers go on |
//! | `sorter.rs`, `spool.rs` | the external sort of index builds and of queries; rows that queries keep on disk |
//! | `switch/` | the live change of a collection's engine |
//! | `compact.rs` | compacting a collection's trees |
//! | `record.rs`, `cursor.rs`, `entry.rs` | reading; the layout of records and index entries |
//! | `write.rs`, `key_generator.rs`, `index_keys.rs` | [`insert`], [`update`], [`delete`] and the keys of a document |
//! | `noting/` | what the readers of the history are told |
//! | `open_transaction.rs`, `past.rs` | transactions of several statements; collections as a snapshot has them |
//! | `wildcard.rs` | the scope of a wildcard index and the keys of a document there |
//! | `geo_keys.rs` | the cells of places |
//! | `text_keys.rs` | text indexes: the kept form of their specifications, and the terms of a document |
//! | `partial.rs` | the filter of a partial index |
//! | `tree_options.rs` | on which engine new trees live, and with which settings |
//! | `usage.rs` | how often indexes are used |
//! | `validate.rs` | the proof that indexes and collection agree |

mod build;
mod capped;
mod catalogue;
mod change_capped;
mod change_collections;
mod change_index;
mod change_indexes;
mod change_time_series;
mod change_views;
mod collection;
mod compact;
mod cursor;
mod entry;
mod error;
mod follow;
mod geo_keys;
mod index;
mod index_conflict;
mod index_keys;
mod index_spec;
mod key_generator;
mod key_pattern;
mod latch;
mod namespace;
mod noting;
mod open_transaction;
mod partial;
mod past;
mod rebuild;
mod record;
mod sorter;
mod spool;
mod store;
mod switch;
pub mod testing;
mod text_keys;
mod tree_options;
mod usage;
mod validate;
mod view;
mod wildcard;
mod write;

pub use arbor_lang::hash_of;
pub use build::{BuildSettings, IndexBuild, IndexBuildCounts, UnfinishedBuild};
pub use capped::{Arrivals, CappedBounds, OrderCursor};
pub use change_collections::Created;
pub use change_index::{Conversion, IndexChange, IndexChanged, IndexChosen};
pub use change_indexes::{INDEXES_MAX, IndexSelection, IndexesCreated};
pub use collection::{Collection, Held};
pub use cursor::{IndexCursor, RecordCursor};
pub use error::{Error, IndexProblem, Result};
pub use follow::{Phase, Unwatched, Watch};
pub use geo_keys::GeoKeys;
pub use index::{Direction, FieldKind, Index, KeyField};
pub use index_keys::{KEYS_PER_DOCUMENT_MAX, index_keys};
pub use index_spec::IndexSpec;
pub use key_generator::KeyGenerator;
pub use key_pattern::INDEX_FIELDS_MAX;
pub use namespace::{DATABASE_BYTES_MAX, NAMESPACE_BYTES_MAX, Namespace, check_database_name};
pub use open_transaction::OpenTransaction;
pub use partial::PartialFilter;
pub use record::{count, data_size, id_key, record};
pub use sorter::{Merge, Sorter};
pub use spool::{Spool, SpoolReader, SpoolWriter};
pub use store::{Store, StoreOptions};
pub use switch::{EngineChange, Switched};
pub use text_keys::{TextKeys, prefix as text_prefix, text_key, text_score};
pub use tree_options::{EngineNames, TreeDefaults};
pub use usage::{CollectionUsage, Usage};
pub use validate::{IndexReport, Report};
pub use view::{VIEW_DEPTH_MAX, ViewDefinition};
pub use wildcard::Wildcard;
pub use write::{ToldAs, delete, insert, update};
