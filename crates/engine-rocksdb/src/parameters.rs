//! Parameters that can be changed while the engine runs.
//!
//! | name | what |
//! |---|---|
//! | `cacheBytes` | the block cache |
//! | `memtableBytes`, `write_buffer_size` | when a checkpoint begins by itself; up to what the engine was opened with |
//! | `compression` | of files written from now on |
//! | any other | what RocksDB lets change of the options that the option string takes |
//!
//! A `rocksdb.` before a name changes nothing. Nothing of this is kept: the next start has the settings again.

use std::sync::atomic::Ordering;

use arbor_engine::{Error, Result};

use crate::core::Core;
use crate::option_string;
use crate::options::find_compression;
use crate::raw::c_text;

/// Less would be a file per group.
const MEMTABLE_BYTES_MIN: u64 = 1 << 10;

fn bare(name: &str) -> &str {
    name.strip_prefix("rocksdb.").unwrap_or(name)
}

impl Core {
    pub(crate) fn set_parameter(&self, name: &str, value: &str) -> Result<()> {
        let invalid = |reason: String| Error::InvalidOption { name: name.to_owned(), reason };
        let bytes = || option_string::bytes(name, value).map_err(|_| invalid(format!("'{value}' is not a size")));
        match bare(name) {
            "cacheBytes" => {
                let bytes = usize::try_from(bytes()?).map_err(|error| invalid(error.to_string()))?;
                self.db.set_cache_bytes(bytes);
                Ok(())
            }
            "memtableBytes" | "write_buffer_size" => {
                let most = self.options.memtable_bytes();
                let bytes = bytes()?;
                if bytes < MEMTABLE_BYTES_MIN || bytes > most {
                    let reason =
                        format!("while the engine runs between {MEMTABLE_BYTES_MIN} and {most}, as it was opened");
                    return Err(invalid(reason));
                }
                self.memtable_bytes.store(bytes, Ordering::Relaxed);
                Ok(())
            }
            "compression" => {
                let (at, compression) = find_compression(option_string::compression_name(value))?;
                self.set_library_option(name, "compression", compression.library)?;
                self.compression.store(at, Ordering::Relaxed);
                Ok(())
            }
            option => {
                option_string::check(option, value).map_err(|error| match error {
                    Error::InvalidOption { reason, .. } => invalid(reason),
                    error => error,
                })?;
                self.set_library_option(name, option, value)
            }
        }
    }

    /// The present value, of what the adapter keeps itself.
    pub(crate) fn parameter(&self, name: &str) -> Option<String> {
        match bare(name) {
            "cacheBytes" => Some(self.db.cache_bytes_max().to_string()),
            "cacheUsedBytes" => Some(self.db.cache_bytes().to_string()),
            "memtableBytes" | "write_buffer_size" => Some(self.memtable_bytes.load(Ordering::Relaxed).to_string()),
            "compression" => Some(self.compression_name().to_owned()),
            _ => None,
        }
    }

    fn set_library_option(&self, name: &str, option: &str, value: &str) -> Result<()> {
        let refused = self.db.set_option(&c_text(option)?, &c_text(value)?);
        refused.map_err(|error| Error::InvalidOption { name: name.to_owned(), reason: error.to_string() })
    }
}
