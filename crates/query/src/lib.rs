//! From a statement to its documents: planner, executor, write statements, pipelines, cursors, explain.
//!
//! `command` builds a spec and calls one function; the result is a [`Cursor`] or an outcome that it formats.
//!
//! | module | holds |
//! |---|---|
//! | [`spec`], [`outcome`] | what statements ask for, what they did |
//! | [`database`] | [`Database`]: what every statement runs on |
//! | [`scope`] | [`Scope`]: in which transaction a statement runs |
//! | `last_commit` | [`LastCommit`]: where in the log a command's last commit is |
//! | `source` | resolving a name: a collection, a view, a time series, the oplog, `system.views`, the server's state |
//! | `names` | where statements find collections by name |
//! | `journal` | what retryable statements have done |
//! | `plan` | the planner: from filters to index bounds to a plan |
//! | `operator` | streaming operators, one file each |
//! | `read` | find, count, distinct |
//! | `query_shape`, `query_settings` | statements without their constants, and what was set for them |
//! | `write` | insert, update, delete, findAndModify |
//! | `aggregate` | pipelines |
//! | `foreign`, `elsewhere` | collections that stages of a pipeline read by name; those of other servers |
//! | `tail` | tailable cursors |
//! | [`oplog`], [`stream`] | `local.oplog.rs`, change streams |
//! | [`feed`] | committed records, for their followers |
//! | `time_series` | statements that write into time series |
//! | `validator` | what a collection says about its documents, and why one does not fit |
//! | `view` | statements over views become pipelines |
//! | [`cursor`], [`registry`] | results in batches; the open cursors of the server |
//! | `explain` | plans as documents |
//! | [`interrupt`] | time limits and kills |

mod aggregate;
mod check_view;
pub mod cursor;
pub mod database;
mod elsewhere;
mod error;
mod explain;
pub mod feed;
mod foreign;
pub mod interrupt;
mod journal;
mod last_commit;
mod names;
mod operator;
pub mod oplog;
pub mod outcome;
mod plan;
mod query_settings;
mod query_shape;
mod read;
pub mod registry;
mod running_plan;
pub mod scope;
mod shard_key;
mod source;
pub mod spec;
mod stage_spec;
pub mod stream;
mod tail;
mod time_series;
mod validator;
mod view;
mod write;

pub use aggregate::{aggregate, aggregate_documents, aggregate_rows, check_pipeline, clone_as_capped};
pub use check_view::check_view;
pub use cursor::{BATCH_BYTES_MAX, Batch, BatchLimit, Cursor, FIRST_BATCH_DOCS, REPLY_COPIES};
pub use database::{Database, Memory, ServerCollections, Settings, WarnOfMismatch};
pub use elsewhere::{Elsewhere, metadata_stage};
pub use error::{Error, Result};
pub use explain::explain;
pub use interrupt::{Interrupt, KILLED, TIME_EXPIRED};
pub use journal::{Executed, StatementJournal};
pub use last_commit::LastCommit;
pub use operator::Rows;
pub use outcome::{
    DeleteOutcome, FindAndModifyOutcome, InsertOutcome, UpdateDone, UpdateOutcome, Upserted, WriteError,
};
pub use plan::{AllowedIndexes, DocOrName, FilteredQuery, IndexFilters, PlanCache, ShapeHash, summary};
pub use query_settings::{IndexHints, QuerySettings, Setting, SettingsQuery};
pub use query_shape::QueryShape;
pub use read::{count, distinct, find, is_point_query, prefetch_by_id};
pub use registry::{
    CheckedOut, CursorInfo, CursorOptions, CursorRegistry, IDLE_TIMEOUT, Killed, OPEN_MAX as CURSORS_MAX,
};
pub use scope::{Scope, Sharded, StatementNumbers, check_writable};
pub use shard_key::{KeySpan, shard_key_hash, shard_key_spans};
pub use spec::{
    AggregateSpec, Change, CountSpec, DeleteSpec, DeleteStatement, DistinctSpec, ExplainSpec, FindAndModifySpec,
    FindSpec, Hint, InsertSpec, UpdateSpec, UpdateStatement, Verbosity,
};
pub use time_series::{bucket_filter, bucket_options, create as create_time_series, is_about_meta};
pub use validator::{check_validator, count_mismatches};
pub use write::{UnreadUpdates, check_update, delete, expire, expire_clustered, find_and_modify, insert, update};
