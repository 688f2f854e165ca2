//! Blobs: values in extents of their own.
//!
//! | pointer | bytes |
//! |---|---|
//! | offset in the data file | 8 |
//! | stored bytes | 4 |
//! | bytes of the value | 4 |
//! | xxh3 of the stored bytes | 8 |
//!
//! Little-endian. The stored bytes are a piece of [`crate::codec`]. An extent of a blob is owned by every table that holds
//! a row pointing to it.

use std::sync::Arc;

use arbor_base::paranoid;
use arbor_disk::Buffer;
use xxhash_rust::xxh3::Xxh3Default;

use crate::counters::Counter;
use crate::io::Io;
use crate::space::{Extent, UNIT};
use crate::table::{corrupt_at, located};
use crate::{Codec, Error, Result, codec};

/// Values are written in pieces of this size: each is copied for the write.
const PIECE_BYTES: usize = 1 << 20;
const _: () = assert!(PIECE_BYTES.is_multiple_of(UNIT as usize));

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlobPointer {
    pub offset: u64,
    pub bytes: u32,
    pub raw_bytes: u32,
    pub checksum: u64,
}

impl BlobPointer {
    pub const BYTES: usize = 24;
    const _FIELDS: () = assert!(BlobPointer::BYTES == 2 * size_of::<u64>() + 2 * size_of::<u32>());

    pub fn encode(&self) -> [u8; BlobPointer::BYTES] {
        let mut bytes = [0; BlobPointer::BYTES];
        let (offset, rest) = bytes.split_at_mut(8);
        let (stored, rest) = rest.split_at_mut(4);
        let (raw, checksum) = rest.split_at_mut(4);
        offset.copy_from_slice(&self.offset.to_le_bytes());
        stored.copy_from_slice(&self.bytes.to_le_bytes());
        raw.copy_from_slice(&self.raw_bytes.to_le_bytes());
        checksum.copy_from_slice(&self.checksum.to_le_bytes());
        bytes
    }

    /// `None`: not a pointer.
    pub fn decode(mut bytes: &[u8]) -> Option<BlobPointer> {
        let mut number = |len: usize| -> Option<u64> {
            Some(bytes.split_off(..len)?.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
        };
        let (offset, stored, raw, checksum) = (number(8)?, number(4)?, number(4)?, number(8)?);
        let pointer = BlobPointer { offset, bytes: stored as u32, raw_bytes: raw as u32, checksum };
        bytes.is_empty().then_some(pointer)
    }
}

/// Writes a value of at most 1 GiB. It stays as long as the extent is held.
pub fn write(io: &Io, value: &[u8]) -> Result<(BlobPointer, Arc<Extent>)> {
    write_with(io, Codec::Zstd(1), value)
}

pub fn write_with(io: &Io, codec: Codec, value: &[u8]) -> Result<(BlobPointer, Arc<Extent>)> {
    if value.len() > codec::RAW_BYTES_MAX {
        return Err(Error::Other(format!("a value of {} bytes is too large", value.len())));
    }
    let mut compressed = Vec::new();
    let stored: [&[u8]; 2] = match codec::is_incompressible(codec, value) {
        true => [codec::RAW_HEAD, value],
        false => {
            codec::compress(codec, value, &mut compressed);
            [&[], &compressed]
        }
    };
    let _charge = io.cache.charge(compressed.capacity() as u64);
    let bytes: usize = stored.iter().map(|part| part.len()).sum();
    let extent = io.space.allocate(bytes.next_multiple_of(UNIT as usize) as u64)?;
    let checksum = write_stored(io, &extent, &stored)?;
    let pointer = BlobPointer { offset: extent.offset(), bytes: bytes as u32, raw_bytes: value.len() as u32, checksum };
    paranoid!(BlobPointer::decode(&pointer.encode()) == Some(pointer), "a pointer is read as it was written");
    Ok((pointer, Arc::new(extent)))
}

/// Fills an extent with the parts of a stored value and zeros, without a copy of all of it. Returns the checksum of the parts.
fn write_stored(io: &Io, extent: &Extent, parts: &[&[u8]]) -> Result<u64> {
    let mut checksum = Xxh3Default::new();
    let mut piece = Vec::with_capacity(PIECE_BYTES.min(extent.bytes() as usize));
    let mut offset = extent.offset();
    let mut write = |piece: &[u8]| {
        let written = io.file.write(offset, piece);
        offset += piece.len() as u64;
        written
    };
    for mut rest in parts.iter().copied() {
        checksum.update(rest);
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(PIECE_BYTES - piece.len()));
            piece.extend_from_slice(now);
            rest = later;
            if piece.len() == PIECE_BYTES {
                write(&piece)?;
                piece.clear();
            }
        }
    }
    piece.resize(piece.len().next_multiple_of(UNIT as usize), 0);
    if !piece.is_empty() {
        write(&piece)?;
    }
    assert_eq!(offset, extent.offset() + extent.bytes(), "the value fills its extent: no older bytes are in it");
    io.counters.add(Counter::BlobBytesWritten, extent.bytes());
    Ok(checksum.digest())
}

/// Writes a value as it is stored to free space before where it is. `None`: there is none. Requires: someone holds the blob's extent.
pub fn move_down(io: &Io, pointer: &BlobPointer) -> Result<Option<(BlobPointer, Arc<Extent>)>> {
    let Some(extent) = io.space.allocate_below(pointer.bytes.into(), pointer.offset) else { return Ok(None) };
    assert!(extent.offset() < pointer.offset, "{extent:?} is before {}", pointer.offset);
    let stored = read_stored(io, pointer)?;
    let _charge = io.cache.charge(stored.len() as u64);
    let checksum = write_stored(io, &extent, &[&stored])?;
    assert_eq!(checksum, pointer.checksum, "a value moves as it is stored");
    Ok(Some((BlobPointer { offset: extent.offset(), ..*pointer }, Arc::new(extent))))
}

/// Requires: someone holds the blob's extent.
pub fn read(io: &Io, pointer: &BlobPointer) -> Result<Vec<u8>> {
    let stored = read_stored(io, pointer)?;
    if let Some(payload) = codec::raw_payload(&stored, pointer.raw_bytes as usize) {
        // no second copy of a large value
        return Ok(stored.narrowed(payload).into());
    }
    codec::decompress(&stored, pointer.raw_bytes as usize).map_err(|error| located(error, io, pointer.offset))
}

fn read_stored(io: &Io, pointer: &BlobPointer) -> Result<Buffer> {
    let stored = io.file.read(pointer.offset, pointer.bytes.into())?;
    io.counters.add(Counter::BlobBytesRead, stored.len() as u64);
    if xxhash_rust::xxh3::xxh3_64(&stored) != pointer.checksum {
        return Err(corrupt_at(io, pointer.offset, "the checksum of a large value does not match"));
    }
    Ok(stored)
}

/// Reads what the value of a [`crate::Kind::PutBlob`] points to.
pub fn load(io: &Io, value: &[u8]) -> Result<Vec<u8>> {
    read(io, &pointer_of(value)?)
}

/// Returns the length of what the value of a [`crate::Kind::PutBlob`] points to.
pub fn value_bytes(value: &[u8]) -> Result<usize> {
    pointer_of(value).map(|pointer| pointer.raw_bytes as usize)
}

fn pointer_of(value: &[u8]) -> Result<BlobPointer> {
    let broken = || Error::Corrupt { place: "a row with a large value".into(), context: "its pointer".into() };
    BlobPointer::decode(value).ok_or_else(broken)
}
