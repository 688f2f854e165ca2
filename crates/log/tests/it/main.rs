//! The integration tests of `log` in one binary: one link instead of one for each file.

mod append_and_read;
mod crash;
mod crash_run;
mod epochs;
mod group_sync;
