//! File access behind one trait.
//!
//! The last step of the path of a request: `log` and the engines reach files only through [`Disk`] and [`File`], so
//! that every crash test can run them on [`FaultyDisk`] instead of [`RealDisk`].
//!
//! **Invariants**
//! - D1: bytes are durable only after `File::sync_data`, names only after `Disk::sync_dir` of their directory.
//! - D2: a failed sync says nothing about what reached the medium, and no later sync repairs it. Callers never retry.
//! - D3: [`Error::OutOfSpace`] is kept apart from every other failure, because callers continue after it.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

mod appended;
mod buffer;
mod error;
mod faulty;
#[allow(unsafe_code, reason = "memory of a file, and the handler of the signal that its faults are")]
mod mapped;
mod real;
#[allow(unsafe_code, reason = "memory that the kernel writes to")]
pub mod ring;
pub mod testkit;
mod traits;

pub use buffer::{Buffer, DIRECT_UNIT};
pub use error::{Error, Result};
pub use faulty::{CallCounts, Fault, FaultyDisk};
pub use real::RealDisk;
pub use traits::{Disk, File, Lock, OpenMode};
