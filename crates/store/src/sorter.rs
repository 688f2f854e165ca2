//! External merge sort of index rows: runs are sorted in memory, spilled to files, and merged while they are read.
//!
//! A run file is a row of rows: u32 length of the key, u32 length of the value (little-endian), key, value. Runs are
//! scratch: nothing is synced, and what a crash leaves is removed at the next start.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{BufReader, BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::{Error, Result};

pub(crate) type Row = (Vec<u8>, Vec<u8>);

/// Memory of one row beside its bytes.
const ROW_OVERHEAD: usize = 64;
const RUN_PREFIX: &str = "arbor-build-";

fn spill(context: &'static str) -> impl Fn(std::io::Error) -> Error {
    move |source| Error::Spill { context: context.to_owned(), source }
}

/// Removes runs that an earlier process left.
pub(crate) fn remove_runs(folder: &Path) -> Result<()> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(spill("list the scratch folder")(error)),
    };
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().starts_with(RUN_PREFIX) && !is_of_this_process(&entry.path()) {
            // A run of another live process in a shared folder may be gone already.
            let _gone = std::fs::remove_file(entry.path());
        }
    }
    Ok(())
}

fn is_of_this_process(path: &Path) -> bool {
    let own = format!("{RUN_PREFIX}{}-", std::process::id());
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&own))
}

pub(crate) struct Sorter {
    folder: PathBuf,
    bytes_max: usize,
    rows: Vec<Row>,
    bytes: usize,
    runs: Vec<Run>,
}

/// A run's file, removed when dropped.
struct Run {
    path: PathBuf,
}

impl Drop for Run {
    fn drop(&mut self) {
        let _gone = std::fs::remove_file(&self.path);
    }
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

    fn spill(&mut self) -> Result<()> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        self.rows.sort_unstable();
        std::fs::create_dir_all(&self.folder).map_err(spill("create the scratch folder"))?;
        let name = format!("{RUN_PREFIX}{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let run = Run { path: self.folder.join(name) };
        let file = File::create(&run.path).map_err(spill("create a sorted run"))?;
        self.runs.push(run);
        write_run(file, &self.rows).map_err(spill("write a sorted run"))?;
        self.rows.clear();
        self.bytes = 0;
        Ok(())
    }

    /// All rows in order of their keys.
    pub fn finish(mut self) -> Result<Merge> {
        self.rows.sort_unstable();
        let mut sources = vec![Source::Memory(self.rows.into_iter())];
        for run in &self.runs {
            let file = File::open(&run.path).map_err(spill("open a sorted run"))?;
            sources.push(Source::File(BufReader::with_capacity(256 << 10, file)));
        }
        let mut merge = Merge { heap: BinaryHeap::with_capacity(sources.len()), sources, _runs: self.runs };
        for source in 0..merge.sources.len() {
            merge.refill(source)?;
        }
        Ok(merge)
    }
}

fn write_run(file: File, rows: &[Row]) -> std::io::Result<()> {
    let mut out = BufWriter::with_capacity(256 << 10, file);
    for (key, value) in rows {
        out.write_all(&(key.len() as u32).to_le_bytes())?;
        out.write_all(&(value.len() as u32).to_le_bytes())?;
        out.write_all(key)?;
        out.write_all(value)?;
    }
    out.flush()
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

pub(crate) struct Merge {
    heap: BinaryHeap<Reverse<Head>>,
    sources: Vec<Source>,
    _runs: Vec<Run>,
}

impl Merge {
    fn refill(&mut self, source: usize) -> Result<()> {
        let next = self.sources.get_mut(source).map_or(Ok(None), Source::next);
        if let Some(row) = next.map_err(spill("read a sorted run"))? {
            self.heap.push(Reverse(Head { row, source }));
        }
        Ok(())
    }

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
            drop(merge);
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        }
    }
}
