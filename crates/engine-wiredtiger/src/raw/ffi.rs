//! Bindings that bindgen made of `wiredtiger.h`.

#![allow(unsafe_code, non_camel_case_types, non_snake_case, non_upper_case_globals, dead_code, unreachable_pub, clippy::all)]

include!(concat!(env!("OUT_DIR"), "/wiredtiger.rs"));
