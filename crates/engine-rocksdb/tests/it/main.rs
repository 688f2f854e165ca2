//! The integration tests of `engine-rocksdb` in one binary: one link instead of one for each file.

mod contract;
mod directory;
