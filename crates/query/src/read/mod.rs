//! Statements that read.

mod count;
mod distinct;
mod find;

pub use count::count;
pub(crate) use count::{count_rows, counting_operator};
pub use distinct::distinct;
pub(crate) use find::query_of;
pub use find::{find, is_point_query, prefetch_by_id};
