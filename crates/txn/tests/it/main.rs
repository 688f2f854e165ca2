//! The integration tests of `txn` in one binary: one link instead of one for each file.

mod chains;
mod commits;
mod concurrency;
mod crash;
mod failures;
mod history;
mod initial_sync;
mod loads;
mod merged_cursor;
mod open_transactions;
mod packed;
mod past;
mod prepared;
mod set_runs;
mod sets;
mod spilling;
mod support;
