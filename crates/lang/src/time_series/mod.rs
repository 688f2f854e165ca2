//! Time series: measurements kept in buckets, as pure functions of documents.
//!
//! | file | holds |
//! |---|---|
//! | `options.rs` | `timeseries` of `create` and `collMod` |
//! | `bucket.rs` | a bucket that takes measurements |
//! | `unpack.rs` | the measurements of a bucket |
//! | `narrow.rs` | what a filter over measurements says about buckets |
//! | `index_key.rs` | key patterns over measurements and over buckets |

mod bucket;
mod index_key;
mod narrow;
mod options;
mod unpack;

pub use bucket::{Bucket, bucket_id, first_id, last_id};
pub use index_key::{of_buckets, of_measurements};
pub use options::TimeSeriesOptions;
pub use unpack::Unpack;
