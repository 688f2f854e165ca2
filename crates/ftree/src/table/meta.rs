//! The meta that a parent keeps about a table, and the header at the table's begin that repeats the most of it for salvage.
//!
//! | header | bytes |
//! |---|---|
//! | "ARBORTBL" | 8 |
//! | tree | 8 |
//! | format version (2), level (1), zero (1), index bytes (4) | 8 |
//! | index offset in the file | 8 |
//! | xxh3 of the index | 8 |
//! | least, greatest sequence number | 16 |
//! | xxh3 of the 56 bytes before | 8 |
//!
//! Little-endian.

use arbor_base::{TreeId, paranoid};

use crate::{Error, Result, Seq};

pub const HEADER_BYTES: usize = 64;
const _: () = assert!(HEADER_BYTES == MAGIC.len() + 7 * size_of::<u64>());
const MAGIC: &[u8; 8] = b"ARBORTBL";
const VERSION: u16 = 1;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableMeta {
    /// Offset of the extent in the data file.
    pub offset: u64,
    pub bytes: u64,
    /// In the data file.
    pub index_offset: u64,
    pub index_bytes: u32,
    pub index_checksum: u64,
    pub rows: u64,
    /// Keys, values and what belongs to them, before compression.
    pub raw_bytes: u64,
    /// Least number of the entries and range tombstones.
    pub min_seq: Seq,
    /// Greatest number of everything that was merged in, be it visible or not: the table's `as_of`.
    pub max_seq: Seq,
    /// First key of the rows; range tombstones may reach beyond. Empty when there are no rows.
    pub first_key: Vec<u8>,
    pub last_key: Vec<u8>,
    /// 0: a leaf; else the level of the node whose slot the run was written for.
    pub level: u8,
    pub tree: TreeId,
    /// Range tombstones.
    pub has_tombstones: bool,
    /// In a leaf: some entry is there for old snapshots only.
    pub has_versions: bool,
    /// [`crate::TreeSettings::mark`] of the settings that all of it was written with; 0: unknown, or of several.
    pub made_with: u32,
    /// Offset and bytes of the extents of large values.
    pub blobs: Vec<(u64, u64)>,
}

/// Bits of the stored flags: the level is in the lowest eight, `made_with` in the upper half.
const HAS_TOMBSTONES: u64 = 1 << 8;
const HAS_VERSIONS: u64 = 1 << 9;
const KNOWN_FLAGS: u64 = 0xffff_ffff_0000_03ff;

impl TableMeta {
    /// The index is not in the extent: the contents of a damaged node, to be kept.
    pub fn is_elsewhere(&self) -> bool {
        !(self.offset..self.offset.saturating_add(self.bytes)).contains(&self.index_offset)
    }

    /// Bytes in the data file, those of large values included.
    pub fn disk_bytes(&self) -> u64 {
        self.bytes + self.blobs.iter().map(|(_, bytes)| bytes).sum::<u64>()
    }

    /// Returns true if the table may hold something about the key. Range tombstones may reach beyond its rows.
    #[inline]
    pub fn may_hold(&self, key: &[u8]) -> bool {
        self.has_tombstones || (self.first_key.as_slice() <= key && key <= self.last_key.as_slice())
    }

    /// Appends the stored form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let begin = out.len();
        let flag = |set: bool, flag: u64| if set { flag } else { 0 };
        let flags = flag(self.has_tombstones, HAS_TOMBSTONES) | flag(self.has_versions, HAS_VERSIONS);
        let flags = flags | u64::from(self.level) | u64::from(self.made_with) << 32;
        let index_bytes = u64::from(self.index_bytes);
        let numbers = [self.offset, self.bytes, self.index_offset, index_bytes, self.index_checksum, self.rows];
        let more = [self.raw_bytes, self.min_seq.0, self.max_seq.0, self.tree.0, flags, self.blobs.len() as u64];
        out.extend(numbers.into_iter().chain(more).flat_map(u64::to_le_bytes));
        out.extend(self.blobs.iter().flat_map(|blob| [blob.0, blob.1]).flat_map(u64::to_le_bytes));
        for key in [&self.first_key, &self.last_key] {
            out.extend_from_slice(&(key.len() as u32).to_le_bytes());
            out.extend_from_slice(key);
        }
        paranoid!(self.is_read_from(out.get(begin..).unwrap_or_default()), "a meta is read as it was written");
    }

    fn is_read_from(&self, bytes: &[u8]) -> bool {
        TableMeta::decode(bytes).is_some_and(|read| read == *self)
    }

    /// `None`: the bytes are no meta.
    pub fn decode(mut bytes: &[u8]) -> Option<TableMeta> {
        let input = &mut bytes;
        let [offset, bytes_, index_offset, index_bytes, index_checksum, rows] = numbers(input)?;
        let [raw_bytes, min_seq, max_seq, tree, flags, blob_count] = numbers(input)?;
        let mut blobs = Vec::new();
        for _ in 0..blob_count {
            let [offset, bytes] = numbers(input)?;
            blobs.push((offset, bytes));
        }
        let (first_key, last_key) = (text(input)?.to_vec(), text(input)?.to_vec());
        let is_valid = input.is_empty() && flags & !KNOWN_FLAGS == 0;
        is_valid.then_some(TableMeta {
            offset,
            bytes: bytes_,
            index_offset,
            index_bytes: u32::try_from(index_bytes).ok()?,
            index_checksum,
            rows,
            raw_bytes,
            min_seq: Seq(min_seq),
            max_seq: Seq(max_seq),
            first_key,
            last_key,
            level: flags as u8,
            tree: TreeId(tree),
            has_tombstones: flags & HAS_TOMBSTONES != 0,
            has_versions: flags & HAS_VERSIONS != 0,
            made_with: (flags >> 32) as u32,
            blobs,
        })
    }

    pub(super) fn header(&self) -> [u8; HEADER_BYTES] {
        let kinds = u64::from(VERSION) | u64::from(self.level) << 16 | u64::from(self.index_bytes) << 32;
        let numbers = [self.tree.0, kinds, self.index_offset, self.index_checksum, self.min_seq.0, self.max_seq.0];
        let mut bytes = MAGIC.to_vec();
        bytes.extend(numbers.into_iter().flat_map(u64::to_le_bytes));
        bytes.extend_from_slice(&xxhash_rust::xxh3::xxh3_64(&bytes).to_le_bytes());
        let mut header = [0; HEADER_BYTES];
        header.copy_from_slice(&bytes);
        let is_read = |read: TableMeta| read.tree == self.tree && read.index_checksum == self.index_checksum;
        debug_assert!(TableMeta::from_header(self.offset, &header).is_some_and(is_read), "salvage finds the table");
        header
    }

    /// For salvage: what the header at `offset` says. Rows, keys, tombstones and blobs are missing. `None`: no header.
    pub fn from_header(offset: u64, header: &[u8]) -> Option<TableMeta> {
        let header = header.get(..HEADER_BYTES)?;
        let (mut rest, checksum) = header.split_last_chunk::<8>()?;
        let is_header = xxhash_rust::xxh3::xxh3_64(rest) == u64::from_le_bytes(*checksum) && rest.starts_with(MAGIC);
        rest.split_off(..8)?;
        let [tree, kinds, index_offset, index_checksum, min_seq, max_seq] = numbers(&mut rest)?;
        let is_current = kinds as u16 == VERSION && index_offset > offset;
        (is_header && is_current).then(|| TableMeta {
            offset,
            bytes: (index_offset - offset).saturating_add(kinds >> 32),
            index_offset,
            index_bytes: (kinds >> 32) as u32,
            index_checksum,
            rows: 0,
            raw_bytes: 0,
            min_seq: Seq(min_seq),
            max_seq: Seq(max_seq),
            first_key: Vec::new(),
            last_key: Vec::new(),
            level: (kinds >> 16) as u8,
            tree: TreeId(tree),
            has_tombstones: false,
            has_versions: false,
            made_with: 0,
            blobs: Vec::new(),
        })
    }
}

pub(super) fn numbers<const N: usize>(input: &mut &[u8]) -> Option<[u64; N]> {
    let mut numbers = [0; N];
    for number in &mut numbers {
        *number = u64::from_le_bytes(*input.split_off(..8)?.first_chunk()?);
    }
    Some(numbers)
}

/// A length in four bytes and the bytes.
pub(super) fn text<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = u32::from_le_bytes(*input.split_off(..4)?.first_chunk()?);
    input.split_off(..len as usize)
}

pub(super) fn corrupt<T>(context: &str) -> Result<T> {
    Err(Error::Corrupt { place: String::new(), context: context.to_owned() })
}
