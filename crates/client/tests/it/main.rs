//! The integration tests of `client` in one binary: one link instead of one for each file.

mod client;
mod tls;
mod users;
