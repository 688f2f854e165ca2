//! External merge sort of rows of bytes, for index builds and for queries: runs are sorted in memory, spilled to files, and merged while they are read.
//!
//! A run file is a row of rows: u32 length of the key, u32 length of the value (little-endian), key, value. Runs are
//! scratch: nothing is synced, and a run's name is removed as soon as the file is open, so that nothing stays behind
//! however the process ends.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{BufReader, BufWriter, ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::{Error, Result};

/// Key and value.
pub type Row = (Vec<u8>, Vec<u8>);

/// Memory of one row beside its bytes.
const ROW_OVERHEAD: usize = 64;
/// Of one file being written or read.
pub(crate) const BUFFER_BYTES: usize = 256 << 10;

pub(crate) fn spill(context: &'static str) -> impl Fn(std::io::Error) -> Error {
    move |source| Error::Spill { context: context.to_owned(), source }
}

/// Rows to be sorted.
pub struct Sorter {
    folder: PathBuf,
    bytes_max: usize,
    rows: Vec<Row>,
    bytes: usize,
    runs: Vec<File>,
}

impl Sorter {
    pub fn new(folder: &Path, bytes_max: usize) -> Sorter {
        Sorter { folder: folder.to_owned(), bytes_max, rows: Vec::new(), bytes: 0, runs: Vec::new() }
    }

    pub fn push(&mut self, row: Row) -> Result<()> {
        self.bytes += row.0.len() + row.1.len() + ROW_OVERHEAD;
        self.rows.push(row);
        if self.bytes > self.bytes_max { self.spill() } else { Ok(()) }
    }

    /// Writes the rows in memory to a run of their own.
    pub fn spill(&mut self) -> Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        self.rows.sort_unstable();
        let mut run = nameless_file(&self.folder).map_err(spill("create a sorted run"))?;
        write_run(&mut run, &self.rows).map_err(spill("write a sorted run"))?;
        self.runs.push(run);
        self.rows.clear();
        self.bytes = 0;
        Ok(())
    }

    /// Runs on disk so far.
    pub fn runs(&self) -> usize {
        self.runs.len()
    }

    /// All rows in order of their keys.
    pub fn finish(mut self) -> Result<Merge> {
        self.rows.sort_unstable();
        let mut sources = vec![Source::Memory(self.rows.into_iter())];
        sources.extend(self.runs.into_iter().map(|run| Source::File(BufReader::with_capacity(BUFFER_BYTES, run))));
        let mut merge = Merge { heap: BinaryHeap::with_capacity(sources.len()), sources };
        for source in 0..merge.sources.len() {
            merge.refill(source)?;
        }
        Ok(merge)
    }
}

/// A file that nobody else can open and that is gone once it is closed.
pub(crate) fn nameless_file(folder: &Path) -> std::io::Result<File> {
    std::fs::create_dir_all(folder)?;
    let path = folder.join(format!("sorted-run-{}", Uuid::new_v4()));
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

/// Leaves the file at its start.
fn write_run(file: &mut File, rows: &[Row]) -> std::io::Result<()> {
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, &mut *file);
    for (key, value) in rows {
        out.write_all(&(key.len() as u32).to_le_bytes())?;
        out.write_all(&(value.len() as u32).to_le_bytes())?;
        out.write_all(key)?;
        out.write_all(value)?;
    }
    out.flush()?;
    drop(out);
    file.rewind()
}

enum Source {
    Memory(std::vec::IntoIter<Row>),
    File(BufReader<File>),
}

impl Source {
    fn next(&mut self) -> std::io::Result<Option<Row>> {
        match self {
            Source::Memory(rows) => Ok(rows.next()),
            Source::File(file) => read_row(file),
        }
    }
}

fn read_row(file: &mut BufReader<File>) -> std::io::Result<Option<Row>> {
    let mut lengths = [0u8; 8];
    let mut filled = 0;
    while filled < lengths.len() {
        match file.read(lengths.get_mut(filled..).unwrap_or_default())? {
            0 if filled == 0 => return Ok(None),
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            n => filled += n,
        }
    }
    let [a, b, c, d, e, f, g, h] = lengths;
    let mut key = vec![0; u32::from_le_bytes([a, b, c, d]) as usize];
    let mut value = vec![0; u32::from_le_bytes([e, f, g, h]) as usize];
    file.read_exact(&mut key)?;
    file.read_exact(&mut value)?;
    Ok(Some((key, value)))
}

#[derive(PartialEq, Eq)]
struct Head {
    row: Row,
    source: usize,
}

impl Ord for Head {
    fn cmp(&self, other: &Head) -> Ordering {
        self.row.cmp(&other.row).then(self.source.cmp(&other.source))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Head) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Rows in order of their keys.
pub struct Merge {
    heap: BinaryHeap<Reverse<Head>>,
    sources: Vec<Source>,
}

impl Merge {
    fn refill(&mut self, source: usize) -> Result<()> {
        let next = self.sources.get_mut(source).map_or(Ok(None), Source::next);
        if let Some(row) = next.map_err(spill("read a sorted run"))? {
            self.heap.push(Reverse(Head { row, source }));
        }
        Ok(())
    }

    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<Row>> {
        let Some(Reverse(Head { row, source })) = self.heap.pop() else { return Ok(None) };
        self.refill(source)?;
        Ok(Some(row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_in_order_from_memory_and_from_runs() {
        let folder = tempfile::tempdir().unwrap();
        for bytes_max in [usize::MAX, 2000, 1] {
            let mut sorter = Sorter::new(folder.path(), bytes_max);
            for i in 0..500u32 {
                let key = (i * 7919 % 500).to_be_bytes().to_vec();
                sorter.push((key, vec![i as u8; (i % 5) as usize])).unwrap();
            }
            let mut merge = sorter.finish().unwrap();
            for i in 0..500u32 {
                assert_eq!(merge.next().unwrap().unwrap().0, i.to_be_bytes());
            }
            assert_eq!(merge.next().unwrap(), None);
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        }
    }
}
