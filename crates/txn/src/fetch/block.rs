//! A block: consecutive rows of one tree on their way to another member.
//!
//! | size | what |
//! |---|---|
//! | 4 | CRC-32C of the rest, little-endian |
//! | 1 | 1 in the last block of a tree, else 0 |
//! | 4 | bytes of the rows, uncompressed, little-endian |
//! | ... | the rows, compressed with zstd |
//!
//! A row is a varint length and the key, a varint length and the value. Keys rise strictly over all blocks of a tree.

use arbor_base::Fields;

/// Rows beyond this many bytes are left to the next block; one row may be larger.
pub(crate) const BLOCK_BYTES: usize = 4 << 20;
/// A block with one row of the longest key and value.
const RAW_BYTES_MAX: usize =
    BLOCK_BYTES + arbor_engine::limits::KEY_BYTES_MAX + arbor_engine::limits::VALUE_BYTES_MAX + 20;
const CRC_BYTES: usize = 4;
/// Compression that costs less than the network saves.
pub(super) const LEVEL: i32 = 1;

/// Key and value.
pub type Row = (Vec<u8>, Vec<u8>);

/// Number and checksum of rows, in order: CRC-32C over the length (u32, little-endian) and the bytes of each key and value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowsChecksum {
    pub rows: u64,
    pub crc: u32,
}

impl RowsChecksum {
    pub fn add(&mut self, key: &[u8], value: &[u8]) {
        self.rows += 1;
        for part in [key, value] {
            self.crc = crc32c::crc32c_append(self.crc, &(part.len() as u32).to_le_bytes());
            self.crc = crc32c::crc32c_append(self.crc, part);
        }
    }
}

/// The rows of a block before it is compressed.
#[derive(Default)]
pub(crate) struct BlockWriter {
    raw: Vec<u8>,
}

pub(super) fn push_varint(out: &mut Vec<u8>, mut n: usize) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

impl BlockWriter {
    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) {
        for part in [key, value] {
            push_varint(&mut self.raw, part.len());
            self.raw.extend_from_slice(part);
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.raw.len() >= BLOCK_BYTES
    }

    pub(crate) fn finish(self, is_last: bool) -> std::io::Result<Vec<u8>> {
        assert!(self.raw.len() <= RAW_BYTES_MAX, "a block of {} bytes", self.raw.len());
        let mut out = vec![0; CRC_BYTES];
        out.push(u8::from(is_last));
        out.extend((self.raw.len() as u32).to_le_bytes());
        out.extend(zstd::bulk::compress(&self.raw, LEVEL)?);
        if let Some((crc, checked)) = out.split_first_chunk_mut::<CRC_BYTES>() {
            *crc = crc32c::crc32c(checked).to_le_bytes();
        }
        Ok(out)
    }
}

/// Returns the rows of a received block, and whether it is the last one. Errors: the reason why its bytes are not a block.
pub fn decode(block: &[u8]) -> Result<(Vec<Row>, bool), &'static str> {
    let (crc, checked) = block.split_first_chunk::<CRC_BYTES>().ok_or("the block is cut short")?;
    if crc32c::crc32c(checked) != u32::from_le_bytes(*crc) {
        return Err("the checksum of the block does not fit");
    }
    let ([last, raw_bytes @ ..], compressed) = checked.split_first_chunk::<5>().ok_or("the block is cut short")?;
    let raw_bytes = u32::from_le_bytes(*raw_bytes) as usize;
    if raw_bytes > RAW_BYTES_MAX || *last > 1 {
        return Err("the head of the block is not valid");
    }
    let raw = zstd::bulk::decompress(compressed, raw_bytes).map_err(|_| "the block does not decompress")?;
    if raw.len() != raw_bytes {
        return Err("the block has another length than it says");
    }
    let (mut fields, mut rows) = (Fields::new(&raw), Vec::new());
    while !fields.rest().is_empty() {
        let (Some(key), Some(value)) = (part(&mut fields), part(&mut fields)) else {
            return Err("the block ends inside a row");
        };
        rows.push((key, value));
    }
    Ok((rows, *last == 1))
}

fn part(fields: &mut Fields<'_>) -> Option<Vec<u8>> {
    let len = varint(fields)?;
    fields.bytes(len).map(<[u8]>::to_vec)
}

/// Reads a length of at most five bytes.
pub(super) fn varint(fields: &mut Fields<'_>) -> Option<usize> {
    let mut len = 0usize;
    for shift in (0..35).step_by(7) {
        let byte = fields.u8()?;
        len |= usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(len);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(rows: &[Row], is_last: bool) -> Vec<u8> {
        let mut writer = BlockWriter::default();
        rows.iter().for_each(|(key, value)| writer.push(key, value));
        writer.finish(is_last).unwrap()
    }

    #[test]
    fn rows_come_back_and_damage_is_found() {
        let rows: Vec<Row> =
            (0..200u16).map(|n| (n.to_be_bytes().to_vec(), vec![n as u8; usize::from(n) * 3])).collect();
        let bytes = block(&rows, true);
        assert_eq!(decode(&bytes), Ok((rows, true)));
        assert_eq!(decode(&block(&[], false)), Ok((Vec::new(), false)));
        assert_eq!(decode(&block(&[(Vec::new(), Vec::new())], false)).unwrap().0.len(), 1);
        (0..bytes.len()).for_each(|end| assert!(decode(&bytes[..end]).is_err(), "cut at {end}"));
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 0x10;
            assert!(decode(&flipped).is_err(), "flipped at {at}");
        }
    }

    #[test]
    fn the_checksum_depends_on_where_a_key_ends() {
        let sum = |rows: &[(&str, &str)]| {
            let mut sum = RowsChecksum::default();
            rows.iter().for_each(|(key, value)| sum.add(key.as_bytes(), value.as_bytes()));
            sum
        };
        assert_eq!(sum(&[("a", "b"), ("c", "d")]), sum(&[("a", "b"), ("c", "d")]));
        assert_ne!(sum(&[("ab", "c")]), sum(&[("a", "bc")]));
        assert_ne!(sum(&[("a", "b"), ("c", "d")]).crc, sum(&[("a", "b"), ("d", "c")]).crc);
    }
}
