//! The flight recorder: every statistic of the server, once per second, in `diagnostic.data/` of the data directory.
//!
//! The format is that of MongoDB's full-time diagnostic data capture, so its tools read the files. A file is BSON documents one after
//! the other:
//!
//! | document | contents |
//! |---|---|
//! | `{_id: date, type: 0, doc}` | what does not change: build, options, machine; the first one of each file |
//! | `{_id: date, type: 1, data: binary}` | a chunk: samples of the same structure, `_id` is the time of the first one |
//!
//! `data` is the length of what follows as a little-endian u32, and that, compressed by zlib, whose Adler-32 is the checksum:
//!
//! | part | contents |
//! |---|---|
//! | document | the first sample |
//! | u32, u32 | numbers in a sample; further samples |
//! | varints | per number, its differences from sample to sample, modulo 2^64; a run of zeros is 0 and its length less one, and may continue in the next number |
//!
//! - F1: samples of a chunk that is not full are in `metrics.interim`, which is replaced by a rename, so `kill -9` loses at most the
//!   samples since the last update. A start moves them into the first file.
//! - F2: a torn or damaged document ends its file for the reader; all before it is read.
//! - F3: files together are at most as large as asked for, and one chunk; the oldest are removed.

mod chunk;
mod numbers;
mod reader;
mod recorder;

pub use chunk::{Chunk, SAMPLES_MAX};
pub use reader::{Record, read};
pub use recorder::{Limits, Recorder};

/// Name of the directory in the data directory.
pub const DIRECTORY: &str = "diagnostic.data";
const PREFIX: &str = "metrics.";
const INTERIM: &str = "metrics.interim";
