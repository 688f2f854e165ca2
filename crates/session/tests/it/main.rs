//! The integration tests of `session` in one binary: one link instead of one for each file.

mod sessions;
