//! The integration tests of `wire` in one binary: one link instead of one for each file.

mod compressed;
mod frames;
mod legacy;
mod mutated;
