//! The integration tests of `wire` in one binary: one link instead of one for each file.

mod client;
mod compressed;
mod frames;
mod legacy;
mod mutated;
mod tls;
mod users;
