//! Foundations that every crate may use: the identities that cross crate walls.

mod ids;

pub use ids::{Position, TreeId};
