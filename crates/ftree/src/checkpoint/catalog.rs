//! The catalogue: all trees of one durable state, in one extent.
//!
//! It is cut into chunks that begin at multiples of 4 KiB and are self-contained, so that salvage finds the ones that are left.
//!
//! | offset in chunk | size | |
//! |---|---|---|
//! | 0 | 8 | `ArborCat` |
//! | 8 | 8 | generation |
//! | 16 | 8 | sequence number of the state |
//! | 24 | 4 | number of the chunk |
//! | 28 | 4 | chunks in all |
//! | 32 | 4 | trees in this chunk |
//! | 36 | 4 | bytes of the rows of trees |
//! | 40 | | the rows |
//! | | 8 | xxh3-64 of all before; then zeros up to the next multiple of 4 KiB |
//!
//! A row: tree (8), created (8), rows (8), bytes (8), settings (30), 1 and a pointer (28) to the root node or 0 for an empty
//! tree. Settings: codec (1: none, lz4, zstd), level (4), then block, leaf, fanout, buffer percent, blob, run (4 each), leaf
//! filters (1).

use arbor_base::{Fields, TreeId};
use xxhash_rust::xxh3::xxh3_64;

use super::node_block::NodePointer;
use crate::{Codec, Seq, TreeSettings};

pub(crate) const MAGIC: [u8; 8] = *b"ArborCat";
const ALIGNMENT: usize = 4096;
const HEADER_BYTES: usize = 40;
const SETTINGS_BYTES: usize = 30;
const ROW_BYTES_MIN: usize = 32 + SETTINGS_BYTES + 1;
const ROW_BYTES_MAX: usize = ROW_BYTES_MIN + NodePointer::BYTES;
/// 64 KiB with header and checksum.
const ROWS_PER_CHUNK: usize = (16 * ALIGNMENT - HEADER_BYTES - 8) / ROW_BYTES_MAX;
const _: () = assert!(HEADER_BYTES == MAGIC.len() + 2 * 8 + 4 * 4 && SETTINGS_BYTES == 1 + 4 + 6 * 4 + 1);

/// One tree of a durable state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CatalogTree {
    pub id: TreeId,
    pub created: Seq,
    pub settings: TreeSettings,
    /// `None`: the tree is empty.
    pub root: Option<NodePointer>,
    /// As the forest counted or estimated.
    pub rows: u64,
    pub bytes: u64,
}

/// A chunk that is whole.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub generation: u64,
    pub number: u32,
    pub chunks: u32,
    pub trees: Vec<CatalogTree>,
    /// With the padding after it.
    pub bytes: usize,
}

/// Requires: each tree once, in the order of ids.
pub(crate) fn encode(generation: u64, applied: Seq, trees: &[CatalogTree]) -> Vec<u8> {
    assert!(trees.is_sorted_by(|one, next| one.id < next.id), "a state has one incarnation of each tree");
    let chunks = trees.len().div_ceil(ROWS_PER_CHUNK);
    let mut out = Vec::with_capacity(chunks * ALIGNMENT + trees.len() * ROW_BYTES_MAX);
    for (number, rows) in trees.chunks(ROWS_PER_CHUNK).enumerate() {
        let begin = out.len();
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&generation.to_le_bytes());
        out.extend_from_slice(&applied.0.to_le_bytes());
        let mut encoded = Vec::with_capacity(rows.len() * ROW_BYTES_MAX);
        rows.iter().for_each(|tree| tree.encode(&mut encoded));
        for number in [number, chunks, rows.len(), encoded.len()] {
            out.extend_from_slice(&(number as u32).to_le_bytes());
        }
        out.extend_from_slice(&encoded);
        let sum = xxh3_64(out.get(begin..).unwrap_or_default());
        out.extend_from_slice(&sum.to_le_bytes());
        out.resize(out.len().next_multiple_of(ALIGNMENT), 0);
    }
    assert!(decode(&out, generation).is_some_and(|read| read == trees), "the catalogue is read as it was written");
    out
}

/// All trees of a whole catalogue.
pub(crate) fn decode(bytes: &[u8], generation: u64) -> Option<Vec<CatalogTree>> {
    let mut trees = Vec::new();
    let (mut rest, mut number) = (bytes, 0);
    while !rest.is_empty() {
        let chunk = Chunk::decode(rest)?;
        let last = chunk.bytes >= rest.len();
        let fits = chunk.number == number && chunk.generation == generation && (number + 1 == chunk.chunks) == last;
        if !fits {
            return None;
        }
        trees.extend(chunk.trees);
        rest = rest.get(chunk.bytes..).unwrap_or_default();
        number += 1;
    }
    Some(trees)
}

impl Chunk {
    /// The chunk that begins with these bytes, of which there may be more.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Chunk> {
        let mut fields = Fields::new(bytes);
        if fields.bytes(MAGIC.len())? != MAGIC {
            return None;
        }
        let (generation, _applied) = (fields.u64()?, fields.u64()?);
        let (number, chunks) = (fields.u32()?, fields.u32()?);
        let (rows, encoded_bytes) = (fields.u32()?, fields.u32()? as usize);
        let mut encoded = Fields::new(fields.bytes(encoded_bytes)?);
        let summed = HEADER_BYTES + encoded_bytes;
        if fields.u64()? != xxh3_64(bytes.get(..summed)?) {
            return None;
        }
        let mut trees = Vec::new();
        for _ in 0..rows {
            trees.push(CatalogTree::decode(&mut encoded)?);
        }
        let bytes = (summed + 8).next_multiple_of(ALIGNMENT);
        encoded.is_at_end().then_some(Chunk { generation, number, chunks, trees, bytes })
    }
}

impl CatalogTree {
    fn encode(&self, out: &mut Vec<u8>) {
        let begin = out.len();
        for number in [self.id.0, self.created.0, self.rows, self.bytes] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        encode_settings(&self.settings, out);
        out.push(u8::from(self.root.is_some()));
        if let Some(root) = &self.root {
            root.encode(out);
        }
        debug_assert!(matches!(out.len() - begin, ROW_BYTES_MIN | ROW_BYTES_MAX), "a row has one of two lengths");
    }

    fn decode(fields: &mut Fields<'_>) -> Option<CatalogTree> {
        let (id, created, rows, bytes) = (TreeId(fields.u64()?), Seq(fields.u64()?), fields.u64()?, fields.u64()?);
        let settings = decode_settings(fields)?;
        let root = match fields.u8()? {
            0 => None,
            1 => Some(NodePointer::decode(fields)?),
            _ => return None,
        };
        Some(CatalogTree { id, created, settings, root, rows, bytes })
    }
}

fn encode_settings(settings: &TreeSettings, out: &mut Vec<u8>) {
    let (codec, level) = match settings.codec {
        Codec::None => (0, 0),
        Codec::Lz4 => (1, 0),
        Codec::Zstd(level) => (2, level),
        Codec::Auto => (3, 0),
    };
    out.push(codec);
    out.extend_from_slice(&level.to_le_bytes());
    let TreeSettings { block_bytes, leaf_bytes, fanout, buffer_percent, blob_bytes, run_bytes, .. } = *settings;
    for number in [block_bytes, leaf_bytes, fanout, buffer_percent, blob_bytes, run_bytes] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.push(u8::from(settings.leaf_filters));
}

fn decode_settings(fields: &mut Fields<'_>) -> Option<TreeSettings> {
    let (codec, level) = (fields.u8()?, fields.i32()?);
    let codec = match codec {
        0 => Codec::None,
        1 => Codec::Lz4,
        2 => Codec::Zstd(level),
        3 => Codec::Auto,
        _ => return None,
    };
    let (block_bytes, leaf_bytes, fanout) = (fields.u32()?, fields.u32()?, fields.u32()?);
    let (buffer_percent, blob_bytes, run_bytes) = (fields.u32()?, fields.u32()?, fields.u32()?);
    let leaf_filters = fields.u8()? != 0;
    let numbers =
        TreeSettings { codec, block_bytes, leaf_bytes, fanout, buffer_percent, leaf_filters, blob_bytes, run_bytes };
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tree(id: u64) -> CatalogTree {
        let codec = [Codec::None, Codec::Lz4, Codec::Zstd(-3), Codec::Auto][id as usize % 4];
        let settings =
            TreeSettings { codec, fanout: id as u32, leaf_filters: id.is_multiple_of(2), ..TreeSettings::default() };
        let root = NodePointer { extent_offset: id << 12, extent_bytes: 8192, start: 77, bytes: 99, checksum: !id };
        let root = (!id.is_multiple_of(5)).then_some(root);
        CatalogTree { id: TreeId(id), created: Seq(id * 3), settings, root, rows: id + 1, bytes: id + 2 }
    }

    #[test]
    fn it_is_read_as_written() {
        for count in [1, 2, ROWS_PER_CHUNK, ROWS_PER_CHUNK + 1, 5000] {
            let trees: Vec<CatalogTree> = (0..count as u64).map(tree).collect();
            let bytes = encode(8, Seq(5), &trees);
            assert_eq!(bytes.len() % ALIGNMENT, 0);
            assert_eq!(decode(&bytes, 8), Some(trees));
            assert_eq!(decode(&bytes, 7), None);
            assert_eq!(decode(&bytes[..bytes.len() - ALIGNMENT], 8).map_or(0, |trees| trees.len()), 0);
        }
        assert_eq!(decode(&encode(8, Seq(5), &[]), 8), Some(vec![]));
    }

    #[test]
    fn chunks_are_self_contained() {
        let trees: Vec<CatalogTree> = (0..2 * ROWS_PER_CHUNK as u64).map(tree).collect();
        let mut bytes = encode(8, Seq(5), &trees);
        bytes[100] ^= 1;
        assert_eq!((decode(&bytes, 8), Chunk::decode(&bytes).is_none()), (None, true));
        let whole: Vec<Chunk> =
            bytes.chunks(ALIGNMENT).enumerate().filter_map(|(n, _)| Chunk::decode(&bytes[n * ALIGNMENT..])).collect();
        assert_eq!(whole.len(), 1);
        assert_eq!((whole[0].number, whole[0].chunks, &whole[0].trees[..]), (1, 2, &trees[ROWS_PER_CHUNK..]));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(decode(&bytes, 8).is_none() || bytes.is_empty());
            // Past the magic and the checksum as well.
            let len = bytes.len();
            if let Some(begin) = bytes.first_chunk_mut() {
                *begin = MAGIC;
            }
            if len >= HEADER_BYTES + 8 {
                bytes[36..40].copy_from_slice(&((len - HEADER_BYTES - 8) as u32).to_le_bytes());
                let sum = xxh3_64(&bytes[..len - 8]);
                bytes[len - 8..].copy_from_slice(&sum.to_le_bytes());
            }
            let _ = Chunk::decode(&bytes);
        }
    }
}
