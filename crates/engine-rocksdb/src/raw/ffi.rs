//! RocksDB's C interface, as `build.rs` took it from the system's header.
#![allow(
    unsafe_code,
    dead_code,
    non_camel_case_types,
    non_upper_case_globals,
    non_snake_case,
    unreachable_pub,
    clippy::all
)]

include!(concat!(env!("OUT_DIR"), "/rocksdb.rs"));
