//! The integration tests of `server` in one binary: one link instead of one for each file.

mod connections;
mod reads;
mod reply_memory;
