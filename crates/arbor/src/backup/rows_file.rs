//! `tree-N.rows`: the rows of a tree as the server has sent them.
//!
//! | offset | size | content |
//! |---|---|---|
//! | 0 | 8 | magic `ARBORROW` |
//! | 8 | 4 | format version (1), little-endian |
//! | 12 | ... | the blocks: 4 bytes with the length of the block (little-endian), and the block ([`arbor_txn::fetch`], which compresses it and checks it by a CRC-32C of its own) |
//!
//! The manifest has the size of the file and the CRC-32C of all its bytes.

use std::io::{BufReader, Read};
use std::path::PathBuf;

use arbor_txn::fetch::{Row, RowsChecksum, decode_block};

use super::files::{Files, NewFile};
use super::manifest::{TreeFile, shown};
use super::{Result, damaged, io};

const MAGIC: [u8; 8] = *b"ARBORROW";
const VERSION: u32 = 1;
const HEAD_BYTES: usize = 12;
/// More than any block has: a length beyond it is damage.
const BLOCK_BYTES_MAX: usize = 1 << 28;
const BUFFER_BYTES: usize = 1 << 20;

fn head() -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..8].copy_from_slice(&MAGIC);
    head[8..].copy_from_slice(&VERSION.to_le_bytes());
    head
}

pub(super) struct RowsWriter {
    name: String,
    file: Box<dyn NewFile>,
    bytes: u64,
    crc: u32,
    rows: RowsChecksum,
}

impl RowsWriter {
    pub(super) fn create(files: &dyn Files, directory: &str, name: &str) -> Result<RowsWriter> {
        let file = files.create(&format!("{directory}/{name}"))?;
        let mut writer = RowsWriter { name: name.to_owned(), file, bytes: 0, crc: 0, rows: RowsChecksum::default() };
        writer.put(&head())?;
        Ok(writer)
    }

    /// `rows` are those of the block.
    pub(super) fn push(&mut self, block: &[u8], rows: &[Row]) -> Result<()> {
        assert!(block.len() <= BLOCK_BYTES_MAX, "a block of {} bytes", block.len());
        rows.iter().for_each(|(key, value)| self.rows.add(key, value));
        self.put(&(block.len() as u32).to_le_bytes())?;
        self.put(block)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes += bytes.len() as u64;
        self.crc = crc32c::crc32c_append(self.crc, bytes);
        self.file.write(bytes)
    }

    /// Ensures on `Ok`: the file is durable.
    pub(super) fn finish(self, tree: u64, settings: Vec<(String, String)>) -> Result<TreeFile> {
        self.file.finish()?;
        Ok(TreeFile {
            name: self.name,
            tree,
            settings,
            rows: self.rows.rows,
            rows_checksum: shown(self.rows.crc),
            bytes: self.bytes,
            checksum: shown(self.crc),
        })
    }
}

/// Reads the blocks of a file. All errors name it.
pub(super) struct RowsReader {
    path: PathBuf,
    file: BufReader<Box<dyn Read + Send>>,
    expected: TreeFile,
    bytes: u64,
    crc: u32,
}

impl RowsReader {
    /// Opens a file of the backup in `directory`. Errors: it is missing, or has another size than the manifest says.
    pub(super) fn open(files: &dyn Files, directory: &str, expected: &TreeFile) -> Result<RowsReader> {
        let name = format!("{directory}/{}", expected.name);
        let path = files.path(&name);
        let opened = files.open(&name, 0)?.ok_or_else(|| damaged(&path, "the file is missing"))?;
        let bytes = opened.bytes;
        if bytes != expected.bytes {
            return Err(damaged(&path, format!("the file has {bytes} bytes; the manifest says {}", expected.bytes)));
        }
        let file = BufReader::with_capacity(BUFFER_BYTES, opened.reader);
        let mut reader = RowsReader { path, file, expected: expected.clone(), bytes: 0, crc: 0 };
        match reader.take(HEAD_BYTES)? {
            found if found == head() => Ok(reader),
            _ => Err(reader.damaged("its head is not that of a file of rows")),
        }
    }

    fn damaged(&self, reason: impl Into<String>) -> super::Error {
        damaged(&self.path, reason)
    }

    fn take(&mut self, bytes: usize) -> Result<Vec<u8>> {
        let mut taken = vec![0; bytes];
        self.file.read_exact(&mut taken).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => self.damaged("the file is cut short"),
            _ => io("read", &self.path)(error),
        })?;
        self.bytes += bytes as u64;
        self.crc = crc32c::crc32c_append(self.crc, &taken);
        Ok(taken)
    }

    /// The next block, with its rows not decoded. The last one comes only if the whole file is as it was written. Requires that it has not come
    /// before.
    pub(super) fn next_block(&mut self) -> Result<Vec<u8>> {
        let mut length = [0; 4];
        length.copy_from_slice(&self.take(4)?);
        let length = u32::from_le_bytes(length) as usize;
        if length > BLOCK_BYTES_MAX || length as u64 > self.expected.bytes - self.bytes {
            return Err(self.damaged(format!("a block at {} is longer than the file", self.bytes - 4)));
        }
        let at = self.bytes;
        let block = self.take(length)?;
        let Some((checksum, rest)) = block.split_first_chunk::<4>() else {
            return Err(self.damaged(format!("the block at {at} is cut short")));
        };
        if crc32c::crc32c(rest) != u32::from_le_bytes(*checksum) {
            return Err(self.damaged(format!("the checksum of the block at {at} does not match")));
        }
        if is_last(&block) && (self.bytes != self.expected.bytes || shown(self.crc) != self.expected.checksum) {
            return Err(self.damaged("the checksum of the file does not match that of the manifest"));
        }
        Ok(block)
    }

    /// Reads all of it, and compares the rows with the manifest.
    pub(super) fn check(mut self) -> Result<()> {
        let mut sum = RowsChecksum::default();
        loop {
            let block = self.next_block()?;
            let (rows, is_last) = decode_block(&block).map_err(|reason| self.damaged(reason))?;
            rows.iter().for_each(|(key, value)| sum.add(key, value));
            if is_last {
                break;
            }
        }
        match (sum.rows, shown(sum.crc)) == (self.expected.rows, self.expected.rows_checksum.clone()) {
            true => Ok(()),
            false => Err(self.damaged("its rows are not those of the manifest")),
        }
    }
}

/// Returns true for the last block of a tree.
fn is_last(block: &[u8]) -> bool {
    block.get(4) == Some(&1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block of a tree without rows, as the server sends it.
    fn empty_block() -> Vec<u8> {
        let mut block = vec![0, 0, 0, 0, 1, 0, 0, 0, 0];
        // a zstd frame without content
        block.extend([0x28, 0xb5, 0x2f, 0xfd, 0x20, 0x00, 0x01, 0x00, 0x00]);
        let crc = crc32c::crc32c(&block[4..]);
        block[..4].copy_from_slice(&crc.to_le_bytes());
        block
    }

    #[test]
    fn every_damage_of_a_file_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let files = super::super::files::Directory::new(dir.path());
        files.create_directory("b").unwrap();
        let path = dir.path().join("b/tree-7.rows");
        let mut writer = RowsWriter::create(&files, "b", "tree-7.rows").unwrap();
        writer.push(&empty_block(), &[]).unwrap();
        let file = writer.finish(7, Vec::new()).unwrap();
        let check = || RowsReader::open(&files, "b", &file).and_then(RowsReader::check);
        check().unwrap();
        let whole = std::fs::read(&path).unwrap();
        assert_eq!(file.bytes, whole.len() as u64);
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            std::fs::write(&path, bytes).unwrap();
            let error = check().unwrap_err().to_string();
            assert!(error.contains("tree-7.rows"), "flipped at {at}: {error}");
            std::fs::write(&path, &whole[..at]).unwrap();
            assert!(check().unwrap_err().to_string().contains("tree-7.rows"), "cut at {at}");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(check().unwrap_err().to_string().contains("the file is missing"));
    }
}
