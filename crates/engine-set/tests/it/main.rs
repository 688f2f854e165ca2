//! The integration tests of `engine-set` in one binary: one link instead of one for each file.

mod atomic;
mod contract;
mod crash;
mod other_members;
mod support;
