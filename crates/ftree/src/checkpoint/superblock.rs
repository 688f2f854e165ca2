//! The superblock: names the durable state of the file.
//!
//! Four slots of 4 KiB in two pairs, used in turn: generation `g` is in both slots of pair `g % 2`. The newest valid one
//! wins. A crash while a pair is written leaves the other one, of the generation before, whose extents are all still in place.
//! Damage to one slot leaves its twin: without it the forest would go back to a state whose space is being used again.
//!
//! | offset | size | |
//! |---|---|---|
//! | 0 | 8 | `ArborFT1` |
//! | 8 | 4 | format version, 1 |
//! | 12 | 4 | 0 |
//! | 16 | 8 | generation |
//! | 24 | 8 | sequence number up to which the state holds everything |
//! | 32 | 8 | length of the file when this was written (for people) |
//! | 40 | 8 | catalogue: offset of its extent; 0: there are no trees |
//! | 48 | 8 | catalogue: bytes |
//! | 56 | 8 | catalogue: xxh3-64 of all its bytes |
//! | 64 | 8 | catalogue: offset of a copy; 0: there is none |
//! | 72 | 4016 | 0 |
//! | 4088 | 8 | xxh3-64 of all before |

use arbor_base::Fields;
use xxhash_rust::xxh3::xxh3_64;

use crate::Seq;
use crate::space::DATA_BEGIN;

pub(crate) const SLOT_BYTES: usize = 4096;
/// Offsets of the slots; those of a pair are far apart.
pub(crate) const SLOT_OFFSETS: [u64; 4] = [0, 1 << 20, 4096, (1 << 20) + 4096];
pub(crate) const FORMAT_VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"ArborFT1";
const SUMMED: usize = SLOT_BYTES - 8;
const _: () = assert!(SLOT_OFFSETS[3] + SLOT_BYTES as u64 <= DATA_BEGIN, "no extent begins before the slots end");
const _: () = assert!(SLOT_OFFSETS[0] + SLOT_BYTES as u64 <= SLOT_OFFSETS[2] && SLOT_OFFSETS[2] < SLOT_OFFSETS[1]);

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Superblock {
    pub generation: u64,
    pub applied: Seq,
    pub file_bytes: u64,
    pub catalog: Option<CatalogPointer>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CatalogPointer {
    pub offset: u64,
    /// 0: there is no copy.
    pub copy: u64,
    pub bytes: u64,
    pub checksum: u64,
}

impl CatalogPointer {
    /// Returns its offset, and that of its copy.
    pub(crate) fn offsets(&self) -> impl Iterator<Item = u64> {
        [self.offset, self.copy].into_iter().filter(|offset| *offset != 0)
    }
}

/// Contents of one slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    Valid(Superblock),
    /// Whole, and of a format of the future.
    Newer(u32),
    /// Begins as ours do, and is not whole.
    Damaged,
    Foreign,
}

impl Superblock {
    pub(crate) fn slots_of(generation: u64) -> [u64; 2] {
        let [first, second, third, fourth] = SLOT_OFFSETS;
        if generation.is_multiple_of(2) { [first, second] } else { [third, fourth] }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let catalog = self.catalog.unwrap_or(CatalogPointer { offset: 0, copy: 0, bytes: 0, checksum: 0 });
        let mut bytes = Vec::with_capacity(SLOT_BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        let numbers =
            [self.generation, self.applied.0, self.file_bytes, catalog.offset, catalog.bytes, catalog.checksum];
        for number in numbers.into_iter().chain([catalog.copy]) {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.resize(SUMMED, 0);
        bytes.extend_from_slice(&xxh3_64(&bytes).to_le_bytes());
        assert!(Superblock::decode(&bytes) == Found::Valid(*self), "a superblock is read as it was written");
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Found {
        if !bytes.starts_with(&MAGIC) {
            return Found::Foreign;
        }
        Superblock::decode_own(bytes).unwrap_or(Found::Damaged)
    }

    fn decode_own(bytes: &[u8]) -> Option<Found> {
        let (summed, sum) = bytes.split_at_checked(SUMMED)?;
        if u64::from_le_bytes(sum.try_into().ok()?) != xxh3_64(summed) {
            return None;
        }
        let mut fields = Fields::new(summed);
        fields.bytes(MAGIC.len())?;
        let version = fields.u32()?;
        if version > FORMAT_VERSION {
            return Some(Found::Newer(version));
        }
        fields.u32()?;
        let (generation, applied, file_bytes) = (fields.u64()?, Seq(fields.u64()?), fields.u64()?);
        let [offset, bytes, checksum, copy] = [fields.u64()?, fields.u64()?, fields.u64()?, fields.u64()?];
        let catalog = CatalogPointer { offset, copy, bytes, checksum };
        let catalog = (catalog.offset != 0).then_some(catalog);
        Some(Found::Valid(Superblock { generation, applied, file_bytes, catalog }))
    }
}

/// The newest of four slots, or why there is none.
pub(crate) fn choose(slots: &[Found]) -> std::result::Result<Superblock, String> {
    for slot in slots {
        if let Found::Newer(version) = slot {
            return Err(format!("written by a newer format ({version}; this version knows up to {FORMAT_VERSION})"));
        }
    }
    let valid = slots.iter().filter_map(|slot| match slot {
        Found::Valid(superblock) => Some(*superblock),
        _ => None,
    });
    valid.max_by_key(|superblock| superblock.generation).ok_or_else(|| {
        let places = SLOT_OFFSETS.map(|offset| offset.to_string()).join(", ");
        match slots.contains(&Found::Damaged) {
            true => format!("all superblocks are damaged (at {places}); `arbor salvage` reads what is left"),
            false => {
                format!("no superblock of a fractal tree (at {places}); `arbor salvage` looks for rows all the same")
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn superblock(generation: u64) -> Superblock {
        let catalog = CatalogPointer { offset: DATA_BEGIN, copy: 2 * DATA_BEGIN, bytes: 300, checksum: 77 };
        Superblock { generation, applied: Seq(generation * 256), file_bytes: 1 << 30, catalog: Some(catalog) }
    }

    #[test]
    fn it_is_read_as_written_and_every_changed_byte_is_noticed() {
        let good = superblock(9);
        let bytes = good.encode();
        assert_eq!((bytes.len(), Superblock::decode(&bytes)), (SLOT_BYTES, Found::Valid(good)));
        for offset in 0..SLOT_BYTES {
            let mut bytes = bytes.clone();
            bytes[offset] ^= 4;
            let expect = if offset < 8 { Found::Foreign } else { Found::Damaged };
            assert_eq!(Superblock::decode(&bytes), expect, "offset {offset}");
        }
        for len in 0..SLOT_BYTES {
            assert!(!matches!(Superblock::decode(&bytes[..len]), Found::Valid(_)));
        }
        let none = Superblock { catalog: None, ..good };
        assert_eq!(Superblock::decode(&none.encode()), Found::Valid(none));
    }

    #[test]
    fn the_newest_valid_one_wins() {
        let valid = |generation| Found::Valid(superblock(generation));
        assert_eq!(choose(&[valid(4), valid(5), valid(2), Found::Damaged]), Ok(superblock(5)));
        assert_eq!(choose(&[Found::Foreign, Found::Damaged, valid(2), valid(3)]), Ok(superblock(3)));
        assert!(
            choose(&[Found::Damaged; 4]).unwrap_err().starts_with("all superblocks are damaged (at 0, 1048576, 4096,")
        );
        assert!(choose(&[Found::Foreign; 4]).unwrap_err().starts_with("no superblock"));
        let newer = "written by a newer format (2; this version knows up to 1)";
        assert_eq!(choose(&[valid(4), Found::Newer(2)]), Err(newer.to_owned()));
    }

    #[test]
    fn a_newer_format_is_distinguished_from_damage() {
        let mut bytes = superblock(1).encode();
        bytes[8] = 2;
        assert_eq!(Superblock::decode(&bytes), Found::Damaged);
        let sum = xxh3_64(&bytes[..SUMMED]).to_le_bytes();
        bytes[SUMMED..].copy_from_slice(&sum);
        assert_eq!(Superblock::decode(&bytes), Found::Newer(2));
    }

    #[test]
    fn two_generations_fill_four_slots() {
        let mut offsets: Vec<u64> = (7..9).flat_map(Superblock::slots_of).collect();
        offsets.sort();
        let mut slots = SLOT_OFFSETS;
        slots.sort();
        assert_eq!(offsets, slots);
    }
}
