//! The query language: documents in, documents out, no storage and no I/O.
//!
//! Everything a client may write is parsed once per command under a [`Context`] and then applied to many documents:
//!
//! | module | what it holds |
//! |---|---|
//! | [`matcher`] | query predicates: [`Filter`] over a tree of [`matcher::Node`]s that the planner reads |
//! | [`json_schema`] | `$jsonSchema`, and why a document does not fit |
//! | [`expression`] | aggregation expressions, one file per operator |
//! | [`metadata`] | metadata of a document: text score, distance |
//! | [`projection`] | what `find` and `$project` show of a document |
//! | [`geo`] | places: GeoJSON and pairs, predicates, covers |
//! | [`sort`] | sort patterns and sort keys |
//! | [`accumulator`] | `$sum`, `$push` and friends |
//! | [`stage`] | pipeline stages, one file each |
//! | `window` | functions of `$setWindowFields` |
//! | [`text_search`] | `$text`: terms, search strings, scores |
//! | [`update`] | updates: operators (one file each), replacements, pipelines |
//! | [`path`] | dotted paths and how they reach into arrays |
//! | [`document`] | documents with one place changed |
//! | [`collation`] | how strings compare |
//! | [`depth`] | refusing values that nest too deeply |
//! | `by_name` | values by name, in order |
//! | `fields` | a document whose fields are looked up many times |
//! | [`stop`] | stopping what takes long, and bounding what it builds |
//! | [`error`] | the error of this crate: a code ([`arbor_bson::Code`]) and a text |

pub mod accumulator;
mod by_name;
pub mod collation;
pub mod context;
pub mod depth;
pub mod document;
pub mod error;
pub mod expression;
pub mod field_path;
mod fields;
pub mod geo;
mod hashed;
pub mod json_schema;
pub mod matcher;
pub mod metadata;
pub mod number;
pub mod path;
pub mod projection;
pub mod sort;
pub mod stage;
pub mod stop;
pub mod text;
pub mod text_search;
pub mod time_series;
pub mod update;
mod window;

pub use arbor_bson::Code;
#[cfg(test)]
use arbor_notation as notation;
pub use collation::Collation;
pub use context::{Constants, Context, Limits};
pub use error::{Error, Result};
pub use expression::Expression;
pub use hashed::hash_of;
pub use matcher::Filter;
pub use matcher::key_ranges::{KeyRanges, shard_key_of, shard_key_values};
pub use metadata::{Input, MetaKind, Metadata};
pub use path::Path;
pub use projection::Projection;
pub use sort::SortPattern;
pub use stage::Stage;
pub use update::{Touched, Update};
