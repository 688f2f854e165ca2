//! `arbor.ahead`: from which states trees were fetched that may be ahead of what is applied (G2). A tree that is ahead does not say so by
//! itself, and the member may end before it is as far.
//!
//! | offset | size | content |
//! |---|---|---|
//! | 0 | 8 | magic `ARBORAHD` |
//! | 8 | 4 | format version (1), little-endian |
//! | 12 | 16 * n | tree, position of the state; little-endian |
//! | end - 4 | 4 | CRC-32C of the bytes before |
//!
//! The file is replaced as a whole, before the rows of a tree are there. A start passes over trees without rows, and over states that are
//! applied.

use std::collections::BTreeMap;

use arbor_base::{Fields, Position, TreeId};

use super::marker::SyncMarker;
use crate::{Error, Result};

/// Name of the file in the data directory.
pub(super) const AHEAD_FILE: &str = "arbor.ahead";

const MAGIC: [u8; 8] = *b"ARBORAHD";
const VERSION: u32 = 1;

pub(super) type Ahead = BTreeMap<TreeId, Position>;

/// Errors: the file is damaged, or of a newer release.
pub(super) fn read(marker: &SyncMarker) -> Result<Ahead> {
    let Some(bytes) = marker.bytes_of(AHEAD_FILE)? else { return Ok(Ahead::new()) };
    decode(&bytes).ok_or_else(|| Error::NotSynced {
        reason: format!(
            "{AHEAD_FILE} is damaged, or of a newer release, so it is not known which trees are ahead of the others. Start the member with \
             an empty directory"
        ),
    })
}

/// Ensures on `Ok`: the file is durable.
pub(super) fn write(marker: &SyncMarker, ahead: &Ahead) -> Result<()> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    for (tree, position) in ahead {
        bytes.extend_from_slice(&tree.0.to_le_bytes());
        bytes.extend_from_slice(&position.0.to_le_bytes());
    }
    bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
    assert_eq!(decode(&bytes).as_ref(), Some(ahead), "the file reads as it was written");
    marker.replace(AHEAD_FILE, &bytes)
}

fn decode(bytes: &[u8]) -> Option<Ahead> {
    let (covered, checksum) = bytes.split_last_chunk::<4>()?;
    if crc32c::crc32c(covered) != u32::from_le_bytes(*checksum) {
        return None;
    }
    let mut fields = Fields::new(covered);
    if fields.array() != Some(MAGIC) || fields.u32() != Some(VERSION) {
        return None;
    }
    let mut ahead = Ahead::new();
    while let Some(tree) = fields.u64() {
        ahead.insert(TreeId(tree), Position(fields.u64()?));
    }
    Some(ahead)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use arbor_disk::FaultyDisk;

    use super::*;

    #[test]
    fn a_file_that_is_damaged_or_newer_is_refused() {
        let marker = SyncMarker::new(Arc::new(FaultyDisk::new()), Path::new("data"));
        assert_eq!(read(&marker).unwrap(), Ahead::new());
        let ahead = Ahead::from([(TreeId(20), Position(7)), (TreeId(21), Position(9))]);
        write(&marker, &ahead).unwrap();
        assert_eq!(read(&marker).unwrap(), ahead);
        let bytes = marker.bytes_of(AHEAD_FILE).unwrap().unwrap();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            marker.replace(AHEAD_FILE, &damaged).unwrap();
            assert!(matches!(read(&marker), Err(Error::NotSynced { .. })), "byte {at}");
        }
    }
}
