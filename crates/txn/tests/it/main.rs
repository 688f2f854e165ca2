//! The integration tests of `txn` in one binary: one link instead of one for each file.

mod chains;
mod commits;
mod concurrency;
mod crash;
mod failures;
mod history;
mod merged_cursor;
mod open_transactions;
mod past;
mod spilling;
mod support;
