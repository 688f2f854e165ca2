//! Rows of bytes on disk in their order of arrival, to be read repeatedly.
//!
//! Layout: u32 length (little-endian), the bytes; one after the other. The file is scratch as the runs of `sorter.rs` are:
//! nothing is synced and its name is gone as soon as it is open.

use std::fs::File;
use std::io::{BufReader, BufWriter, ErrorKind, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use arbor_base::work;

use crate::Result;
use crate::sort::sorter::{BUFFER_BYTES, spill, unlinked_file};

/// Being written.
pub struct SpoolWriter {
    out: BufWriter<File>,
}

/// Written; shared by its readers.
#[derive(Clone)]
pub struct Spool(Arc<File>);

/// One pass over the rows.
pub struct SpoolReader {
    input: BufReader<At>,
}

/// A place in the file of its own.
struct At {
    file: Arc<File>,
    offset: u64,
}

impl SpoolWriter {
    pub fn new(directory: &Path) -> Result<SpoolWriter> {
        let file = unlinked_file(directory).map_err(spill("create a spool"))?;
        work::note(|work| work.spills += 1);
        Ok(SpoolWriter { out: BufWriter::with_capacity(BUFFER_BYTES, file) })
    }

    pub fn push(&mut self, row: &[u8]) -> Result<()> {
        assert!(row.len() <= u32::MAX as usize, "lengths in a spool are 4 bytes");
        let length = (row.len() as u32).to_le_bytes();
        self.out.write_all(&length).and_then(|()| self.out.write_all(row)).map_err(spill("write a spool"))
    }

    pub fn finish(self) -> Result<Spool> {
        let file = self.out.into_inner().map_err(|error| spill("write a spool")(error.into_error()))?;
        Ok(Spool(Arc::new(file)))
    }
}

impl Spool {
    pub fn read(&self) -> SpoolReader {
        let at = At { file: self.0.clone(), offset: 0 };
        SpoolReader { input: BufReader::with_capacity(BUFFER_BYTES, at) }
    }
}

impl SpoolReader {
    #[expect(clippy::should_implement_trait, reason = "returns errors")]
    pub fn next(&mut self) -> Result<Option<Vec<u8>>> {
        self.read_row().map_err(spill("read a spool"))
    }

    fn read_row(&mut self) -> std::io::Result<Option<Vec<u8>>> {
        let mut length = [0u8; 4];
        match self.input.read_exact(&mut length) {
            Ok(()) => {}
            // rows are written whole, so this is their end
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
        let mut row = vec![0; u32::from_le_bytes(length) as usize];
        self.input.read_exact(&mut row)?;
        Ok(Some(row))
    }
}

impl Read for At {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.file.read_at(buffer, self.offset)?;
        self.offset += count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_can_be_read_repeatedly_in_order() {
        let directory = tempfile::tempdir().unwrap();
        let mut writer = SpoolWriter::new(directory.path()).unwrap();
        let rows: Vec<Vec<u8>> = (0..300usize).map(|n| vec![n as u8; n * 37]).collect();
        rows.iter().for_each(|row| writer.push(row).unwrap());
        let spool = writer.finish().unwrap();
        let (mut one, mut other) = (spool.read(), spool.read());
        for row in &rows {
            assert_eq!(one.next().unwrap().as_ref(), Some(row));
            assert_eq!(other.next().unwrap().as_ref(), Some(row));
        }
        assert_eq!((one.next().unwrap(), other.next().unwrap()), (None, None));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
