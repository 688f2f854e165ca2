//! The integration tests of `store` in one binary: one link instead of one for each file.

mod capped;
mod catalogue;
mod collation;
mod concurrency;
mod engines;
mod followers;
mod followers_on_engines;
mod history;
mod index_builds;
mod index_builds_alongside_writers;
mod index_maintenance;
mod on_lmdb;
mod open_transactions;
mod partitions;
mod support;
mod switch;
mod validate;
mod views;
