//! Bounds that every engine enforces alike, before it changes anything.

use arbor_base::TreeId;

use crate::{Error, Result};

/// Longest key. An `_id` may fill a whole document, and an index key carries field values and that `_id`.
pub const KEY_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Longest value: a document of 16 MB with the 16 KB that internal updates may add, with room for a record header.
pub const VALUE_BYTES_MAX: usize = 16 * 1024 * 1024 + 64 * 1024;

/// Errors: a key or value beyond the bounds.
pub fn check_row(key: &[u8], value: &[u8]) -> Result<()> {
    if key.len() > KEY_BYTES_MAX {
        return Err(Error::Other(format!("a key of {} bytes exceeds the maximum of {KEY_BYTES_MAX}", key.len())));
    }
    if value.len() > VALUE_BYTES_MAX {
        return Err(Error::Other(format!("a value of {} bytes exceeds the maximum of {VALUE_BYTES_MAX}", value.len())));
    }
    Ok(())
}

/// Errors: rows of a bulk load that do not rise strictly.
pub fn check_ascending(last: Option<&[u8]>, key: &[u8]) -> Result<()> {
    if last.is_some_and(|last| last >= key) {
        return Err(Error::Other("the rows of a bulk load must rise strictly".to_owned()));
    }
    Ok(())
}

/// Errors: a bulk load into a tree that has rows.
pub fn check_empty(tree: TreeId, keys: u64) -> Result<()> {
    if keys != 0 {
        return Err(Error::Other(format!("bulk load into tree {tree}, which holds {keys} keys")));
    }
    Ok(())
}
