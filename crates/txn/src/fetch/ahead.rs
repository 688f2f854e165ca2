//! `arbor.ahead`: from which states trees were fetched that may be ahead of what is applied (G2). A tree that is ahead does not say so by
//! itself, and the member may end before it is as far.
//!
//! | offset | size | content |
//! |---|---|---|
//! | 0 | 8 | magic `ARBORAHD` |
//! | 8 | 4 | format version (2), little-endian |
//! | 12 | 24 * n | tree, position of the state, 1 if the fetch has ended and 0 if not; little-endian |
//! | end - 4 | 4 | CRC-32C of the bytes before |
//!
//! The file is replaced as a whole, before the rows of a tree are there and when they are. A start passes over states that are applied, and
//! over trees without rows whose fetch had not ended: where it had, the tree has none in that state, or is dropped there. Version 1 had no
//! such field.

use std::collections::BTreeMap;

use arbor_base::{Fields, Position, TreeId};

use super::marker::SyncMarker;
use crate::{Error, Result};

/// Name of the file in the data directory.
pub(super) const AHEAD_FILE: &str = "arbor.ahead";

const MAGIC: [u8; 8] = *b"ARBORAHD";
const VERSION: u32 = 2;

/// A tree of which the rows, or what is left of them, were fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fetched {
    /// The state that it is of.
    pub until: Position,
    pub has_ended: bool,
}

pub(super) type Ahead = BTreeMap<TreeId, Fetched>;

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
    for (tree, Fetched { until, has_ended }) in ahead {
        for number in [tree.0, until.0, u64::from(*has_ended)] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
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
    if fields.array() != Some(MAGIC) {
        return None;
    }
    let version = fields.u32().filter(|version| (1..=VERSION).contains(version))?;
    let mut ahead = Ahead::new();
    while let Some(tree) = fields.u64() {
        let until = Position(fields.u64()?);
        let has_ended = version > 1 && fields.u64()? == 1;
        ahead.insert(TreeId(tree), Fetched { until, has_ended });
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
        let fetched = |until, has_ended| Fetched { until: Position(until), has_ended };
        let ahead = Ahead::from([(TreeId(20), fetched(7, false)), (TreeId(21), fetched(9, true))]);
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

    #[test]
    fn a_file_of_version_1_is_read() {
        let numbers = [20u64, 7].iter().flat_map(|number| number.to_le_bytes());
        let mut bytes: Vec<u8> = MAGIC.into_iter().chain(1u32.to_le_bytes()).chain(numbers).collect();
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        let fetched = Fetched { until: Position(7), has_ended: false };
        assert_eq!(decode(&bytes), Some(Ahead::from([(TreeId(20), fetched)])));
    }
}
