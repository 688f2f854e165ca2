//! The integration tests of `engine-wiredtiger` in one binary: one link instead of one for each file.

mod contract;
mod damage;
mod directory;
mod large_rows;
