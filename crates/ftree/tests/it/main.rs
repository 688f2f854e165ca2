//! The integration tests of `ftree` in one binary: one link instead of one for each file. Tests that
//! need a process of their own are files next to this directory, with the reason in their first lines.

mod compaction;
mod concurrent;
mod contract;
mod crash;
mod damage;
mod failing_calls;
mod full_disk;
mod images;
mod large_values;
mod slow_disk;
mod smaller_cache;
mod space_returns;
