//! Looking through a whole data file for blocks that say themselves what they are.

use std::collections::BTreeMap;

use arbor_base::TreeId;

use crate::Result;
use crate::checkpoint::NodePointer;
use crate::checkpoint::catalog::{self, Chunk};
use crate::checkpoint::node_block::{self, NodeBlock};
use crate::io::Io;
use crate::space::{DATA_BEGIN, UNIT};
use crate::table::{HEADER_BYTES, TableMeta};

/// Read at once. Blocks that reach beyond are read again as a whole.
const PIECE_BYTES: u64 = 4 << 20;
/// A catalogue chunk is no longer than this.
const CHUNK_BYTES: usize = 64 << 10;

/// Whole blocks of a file, those in free extents as well.
#[derive(Default)]
pub(super) struct Scan {
    /// Chunks of the newest catalogue, by number.
    pub chunks: BTreeMap<u32, Chunk>,
    /// Topmost node of the newest generation, by tree.
    pub roots: BTreeMap<TreeId, Root>,
    /// By tree. Keys, rows and blobs are missing.
    pub tables: BTreeMap<TreeId, Vec<TableMeta>>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Root {
    pub pointer: NodePointer,
    pub generation: u64,
    pub level: u8,
}

/// Pieces that cannot be read are passed over; their offsets go to `unreadable`.
pub(super) fn scan(io: &Io, unreadable: &mut Vec<u64>) -> Result<Scan> {
    let mut scan = Scan::default();
    let file_bytes = io.file.len()?;
    let mut at = DATA_BEGIN;
    while at < file_bytes {
        let bytes = PIECE_BYTES.min(file_bytes - at);
        match io.file.read(at, bytes) {
            Ok(piece) => scan.piece(io, at, &piece),
            Err(_) => unreadable.push(at),
        }
        at += bytes;
    }
    Ok(scan)
}

impl Scan {
    fn piece(&mut self, io: &Io, begin: u64, piece: &[u8]) {
        for (number, unit) in piece.chunks(UNIT as usize).enumerate() {
            let offset = begin + number as u64 * UNIT;
            if let Some(meta) = unit.get(..HEADER_BYTES).and_then(|header| TableMeta::from_header(offset, header)) {
                self.tables.entry(meta.tree).or_default().push(meta);
            } else if unit.starts_with(&catalog::MAGIC) {
                self.chunk(io, offset);
            }
        }
        let magic = node_block::MAGIC;
        let found = piece.windows(magic.len()).enumerate().filter(|(_, window)| *window == magic);
        for (at, _) in found {
            self.node(io, begin + at as u64, piece.get(at..).unwrap_or_default());
        }
    }

    fn chunk(&mut self, io: &Io, offset: u64) {
        let left = io.file.len().unwrap_or(0).saturating_sub(offset).min(CHUNK_BYTES as u64);
        let Some(chunk) = io.file.read(offset, left).ok().and_then(|bytes| Chunk::decode(&bytes)) else { return };
        let newest = self.chunks.values().map(|chunk| chunk.generation).max().unwrap_or(0);
        if chunk.generation > newest {
            self.chunks.clear();
        }
        if chunk.generation >= newest {
            self.chunks.insert(chunk.number, chunk);
        }
    }

    fn node(&mut self, io: &Io, offset: u64, rest: &[u8]) {
        let Some(bytes) = node_block::bytes_of_block(rest).and_then(|bytes| u32::try_from(bytes).ok()) else { return };
        let decoded = match rest.get(..bytes as usize) {
            Some(block) => NodeBlock::decode(block),
            None => io.file.read(offset, u64::from(bytes)).ok().and_then(|block| NodeBlock::decode(&block)),
        };
        let Some((block, checksum)) = decoded else { return };
        let pointer = NodePointer { extent_offset: offset, extent_bytes: bytes, start: 0, bytes, checksum };
        let found = Root { pointer, generation: block.generation, level: block.level };
        let root = self.roots.entry(block.tree).or_insert(found);
        if (found.generation, found.level) > (root.generation, root.level) {
            *root = found;
        }
    }
}
