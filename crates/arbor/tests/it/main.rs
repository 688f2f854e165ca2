//! The integration tests of `arbor` in one binary: one link instead of one for each file.

mod lab_kv;
mod server_process;
mod the_laboratory_measures_this_server;
