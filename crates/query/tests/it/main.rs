//! The integration tests of `query` in one binary: one link instead of one for each file.

mod changing;
mod durability;
mod explaining;
mod finding;
mod joining;
mod pipelines;
mod places;
mod plans_agree;
mod retrying;
mod searching;
mod spilling;
mod streaming;
mod support;
mod transactions;
mod trying;
mod validation;
mod waiting_cursors;
mod writing;
