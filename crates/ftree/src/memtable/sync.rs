//! The atomics of the memtable: std's, or loom's in model tests (`RUSTFLAGS="--cfg loom" cargo test --lib loom`).

#[cfg(not(all(test, loom)))]
pub(super) use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

#[cfg(all(test, loom))]
pub(super) use loom::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
