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

use arbor_base::memory::Allowance;
use arbor_base::work;
use arbor_lang::stop;
use uuid::Uuid;

use crate::{Error, Result};

/// Key and value.
pub(crate) type Row = (Vec<u8>, Vec<u8>);

/// Memory of one row in addition to its bytes.
const ROW_OVERHEAD: usize = 64;
/// Buffer of one file being written, or of one of few that are read together.
pub(crate) const BUFFER_BYTES: usize = 256 << 10;
/// Buffers of all files that are read together.
const BUFFERS_BYTES_MAX: usize = 4 << 20;
/// Maximum number of runs merged at a time.
const RUNS_MAX: usize = 64;
/// Fewer would be merged again and again.
const RUNS_MIN: usize = 3;
const _: () = assert!(2 <= RUNS_MIN && RUNS_MIN <= RUNS_MAX, "a merge makes one run of several");

pub(crate) fn spill(context: &'static str) -> impl Fn(std::io::Error) -> Error {
    move |source| Error::Spill { context: context.to_owned(), source }
}

/// Rows to be sorted.
pub struct Sorter {
    directory: PathBuf,
    allowance: Allowance,
    rows: Vec<Row>,
    bytes: usize,
    runs: Vec<Run>,
    spills: u64,
    /// Bytes of the largest row so far, and of the rows of the largest run.
    row_most: usize,
    run_most: usize,
}

impl Sorter {
    pub fn new(directory: &Path, allowance: Allowance) -> Sorter {
        let (rows, runs) = (Vec::new(), Vec::new());
        Sorter { directory: directory.to_owned(), allowance, rows, bytes: 0, runs, spills: 0, row_most: 0, run_most: 0 }
    }

    /// Adds a row. What the allowance does not cover is spilled.
    pub fn push(&mut self, row: Row) -> Result<()> {
        let bytes = row.0.capacity() + row.1.capacity() + ROW_OVERHEAD;
        self.bytes += bytes;
        self.row_most = self.row_most.max(bytes);
        self.rows.push(row);
        if self.allowance.covers(self.bytes) { Ok(()) } else { self.spill() }
    }

    /// Writes the rows in memory to a run of their own.
    pub fn spill(&mut self) -> Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        stop::sort_unstable_by(&mut self.rows, Row::cmp)?;
        let mut rows = std::mem::take(&mut self.rows).into_iter();
        let file = run_of(&self.directory, || Ok(rows.next()))?;
        self.runs.push(Run { merges: 0, file });
        self.spills += 1;
        work::note(|work| work.spills += 1);
        self.run_most = self.run_most.max(self.bytes);
        self.bytes = 0;
        self.allowance.release();
        self.merge_equals()
    }

    /// Merges runs that were merged equally often, once there are many of them, so that a row is merged a logarithmic number of
    /// times.
    fn merge_equals(&mut self) -> Result<()> {
        while let Some(last) = self.runs.last() {
            let equals = self.runs.iter().rev().take_while(|run| run.merges == last.merges).count();
            if equals < self.runs_max() {
                break;
            }
            self.merge_last(equals)?;
        }
        debug_assert!(self.runs.is_sorted_by(|one, next| one.merges >= next.merges), "the smallest runs are the last");
        Ok(())
    }

    /// Makes one run of the last ones, which are the smallest.
    fn merge_last(&mut self, count: usize) -> Result<()> {
        assert!(2 <= count && count <= self.runs.len(), "a merge of {count} of {} runs ends", self.runs.len());
        let runs = self.runs.split_off(self.runs.len().saturating_sub(count));
        let merges = 1 + runs.first().map_or(0, |run| run.merges);
        let mut merge = Merge::of(Vec::new(), runs, None)?;
        let file = run_of(&self.directory, || merge.next())?;
        self.runs.push(Run { merges, file });
        Ok(())
    }

    /// A merge holds a row of each run, so there are fewer runs of large rows: together they hold what was in memory before.
    fn runs_max(&self) -> usize {
        (self.run_most / self.row_most.max(1)).clamp(RUNS_MIN, RUNS_MAX)
    }

    /// Returns the number of times that rows went to the disk so far.
    pub fn spills(&self) -> u64 {
        self.spills
    }

    /// All rows in order of their keys.
    pub fn finish(mut self) -> Result<Merge> {
        let most = self.runs_max();
        while self.runs.len() > most {
            self.merge_last(most.min(1 + self.runs.len() - most))?;
        }
        stop::sort_unstable_by(&mut self.rows, Row::cmp)?;
        Merge::of(self.rows, self.runs, Some(self.allowance))
    }
}

/// Values from this size on stay in their file until their row is due: a merge holds a row of each run.
const LARGE_VALUE_BYTES: usize = 64 << 10;

/// Sorted rows on disk.
struct Run {
    /// Number of merges of its rows.
    merges: u32,
    file: File,
}

/// Creates an unlinked temporary file: no other process can open it, and it is gone once it is closed.
pub(crate) fn unlinked_file(directory: &Path) -> std::io::Result<File> {
    std::fs::create_dir_all(directory)?;
    let path = directory.join(format!("sorted-run-{}", Uuid::new_v4()));
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

/// Writes rows to a file of their own, which is left at its start.
fn run_of(directory: &Path, mut next: impl FnMut() -> Result<Option<Row>>) -> Result<File> {
    let mut file = unlinked_file(directory).map_err(spill("create a sorted run"))?;
    let failed = spill("write a sorted run");
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, &mut file);
    while let Some(row) = next()? {
        stop::tick_for(row.0.len() + row.1.len())?;
        write_row(&mut out, &row).map_err(&failed)?;
    }
    out.flush().map_err(&failed)?;
    drop(out);
    file.rewind().map_err(&failed)?;
    Ok(file)
}

fn write_row(out: &mut impl Write, (key, value): &Row) -> std::io::Result<()> {
    assert!(key.len().max(value.len()) <= u32::MAX as usize, "lengths in a run are 4 bytes");
    out.write_all(&(key.len() as u32).to_le_bytes())?;
    out.write_all(&(value.len() as u32).to_le_bytes())?;
    out.write_all(key)?;
    out.write_all(value)
}

enum Source {
    Memory(std::vec::IntoIter<Row>),
    File(BufReader<File>),
}

impl Source {
    /// The key of the next row, and its value unless that is a large one.
    fn next(&mut self) -> std::io::Result<Option<(Vec<u8>, HeadValue)>> {
        match self {
            Source::Memory(rows) => Ok(rows.next().map(|(key, value)| (key, HeadValue::Read(value)))),
            Source::File(file) => read_head(file),
        }
    }

    /// Reads the value that was left, before the next key.
    fn value(&mut self, value: HeadValue) -> std::io::Result<Vec<u8>> {
        match (value, self) {
            (HeadValue::Read(value), _) => Ok(value),
            (HeadValue::Left(length), Source::File(file)) => read_bytes(file, length),
            (HeadValue::Left(_), Source::Memory(_)) => Err(ErrorKind::UnexpectedEof.into()),
        }
    }
}

fn read_bytes(file: &mut BufReader<File>, length: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn read_head(file: &mut BufReader<File>) -> std::io::Result<Option<(Vec<u8>, HeadValue)>> {
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
    let key = read_bytes(file, u32::from_le_bytes([a, b, c, d]) as usize)?;
    let value_bytes = u32::from_le_bytes([e, f, g, h]) as usize;
    let value = match value_bytes > LARGE_VALUE_BYTES {
        true => HeadValue::Left(value_bytes),
        false => HeadValue::Read(read_bytes(file, value_bytes)?),
    };
    Ok(Some((key, value)))
}

/// The first row of a source.
#[derive(PartialEq, Eq)]
struct Head {
    key: Vec<u8>,
    value: HeadValue,
    source: usize,
}

#[derive(PartialEq, Eq)]
enum HeadValue {
    Read(Vec<u8>),
    /// It is still in the file, with this length.
    Left(usize),
}

impl HeadValue {
    /// Large values do not order rows of equal keys.
    fn ordering_bytes(&self) -> &[u8] {
        match self {
            HeadValue::Read(value) if value.len() <= LARGE_VALUE_BYTES => value,
            HeadValue::Read(_) | HeadValue::Left(_) => &[],
        }
    }
}

impl Ord for Head {
    fn cmp(&self, other: &Head) -> Ordering {
        let values = || self.value.ordering_bytes().cmp(other.value.ordering_bytes());
        self.key.cmp(&other.key).then_with(values).then(self.source.cmp(&other.source))
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
    /// Memory of the rows that are not on disk.
    allowance: Option<Allowance>,
}

impl Merge {
    /// Rows that are sorted already, from a run on disk.
    pub fn of_sorted(directory: &Path, mut rows: impl Iterator<Item = Row>) -> Result<Merge> {
        let run = Run { merges: 0, file: run_of(directory, || Ok(rows.next()))? };
        Merge::of(Vec::new(), vec![run], None)
    }

    /// Moves the rows that are in memory to a run of their own if they take more than may idle. After an error they are still
    /// in memory.
    pub fn make_idle(&mut self, directory: &Path) -> Result<()> {
        if !self.allowance.as_ref().is_some_and(Allowance::is_too_large_to_idle) {
            return Ok(());
        }
        for source in &mut self.sources {
            if let Source::Memory(rows) = source {
                let mut rest = rows.as_slice().iter();
                let file = run_of(directory, || Ok(rest.next().cloned()))?;
                *source = Source::File(BufReader::with_capacity(BUFFER_BYTES, file));
            }
        }
        self.allowance = None;
        Ok(())
    }

    fn of(rows: Vec<Row>, runs: Vec<Run>, allowance: Option<Allowance>) -> Result<Merge> {
        let mut sources = vec![Source::Memory(rows.into_iter())];
        let buffer_bytes = BUFFER_BYTES.min(BUFFERS_BYTES_MAX / runs.len().max(1));
        sources.extend(runs.into_iter().map(|run| Source::File(BufReader::with_capacity(buffer_bytes, run.file))));
        let heap = BinaryHeap::with_capacity(sources.len());
        let mut merge = Merge { heap, sources, allowance };
        for source in 0..merge.sources.len() {
            merge.refill(source)?;
        }
        Ok(merge)
    }

    fn refill(&mut self, source: usize) -> Result<()> {
        let next = self.sources.get_mut(source).map_or(Ok(None), Source::next);
        if let Some((key, value)) = next.map_err(spill("read a sorted run"))? {
            stop::tick_for(key.len())?;
            self.heap.push(Reverse(Head { key, value, source }));
        }
        Ok(())
    }

    #[expect(clippy::should_implement_trait, reason = "returns errors")]
    pub fn next(&mut self) -> Result<Option<Row>> {
        let Some(Reverse(Head { key, value, source })) = self.heap.pop() else { return Ok(None) };
        let Some(from) = self.sources.get_mut(source) else { return Ok(None) };
        let value = from.value(value).map_err(spill("read a sorted run"))?;
        stop::tick_for(value.len())?;
        self.refill(source)?;
        debug_assert!(self.heap.peek().is_none_or(|Reverse(head)| key <= head.key), "each run is sorted");
        Ok(Some((key, value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arbor_base::memory::{self, Class};

    #[test]
    fn a_sorter_spills_when_the_budget_has_no_more_for_it() {
        let directory = tempfile::tempdir().unwrap();
        let budget: &'static memory::Budget = Box::leak(Box::new(memory::Budget::unlimited()));
        budget.set_limit(32 << 20);
        let mut sorter = Sorter::new(directory.path(), budget.allowance(Class::Build, usize::MAX));
        for i in (0..30_000u32).rev() {
            sorter.push((i.to_be_bytes().to_vec(), vec![7; 1000])).unwrap();
            assert!(budget.held(Class::Build) <= budget.room() / 2);
        }
        assert!(sorter.spills() > 3, "{}", sorter.spills());
        let mut merge = sorter.finish().unwrap();
        (0..30_000u32).for_each(|i| assert_eq!(merge.next().unwrap().unwrap().0, i.to_be_bytes()));
        drop(merge);
        assert_eq!(budget.reserved(), 0);
    }

    #[test]
    fn large_values_stay_on_disk_until_their_row_is_due() {
        let directory = tempfile::tempdir().unwrap();
        let mut sorter = Sorter::new(directory.path(), memory::process().allowance(Class::Build, 1));
        let value = |i: u32| vec![i as u8; if i.is_multiple_of(3) { 10 } else { LARGE_VALUE_BYTES + i as usize }];
        (0..20u32).rev().for_each(|i| sorter.push((i.to_be_bytes().to_vec(), value(i))).unwrap());
        let mut merge = sorter.finish().unwrap();
        for i in 0..20u32 {
            let held = |head: &Reverse<Head>| matches!(&head.0.value, HeadValue::Read(value) if value.len() > 10);
            assert!(!merge.heap.iter().any(held));
            assert_eq!(merge.next().unwrap(), Some((i.to_be_bytes().to_vec(), value(i))));
        }
        assert_eq!(merge.next().unwrap(), None);
    }

    #[test]
    fn an_idle_merge_gives_its_memory_back_and_keeps_its_place() {
        let directory = tempfile::tempdir().unwrap();
        let budget: &'static memory::Budget = Box::leak(Box::new(memory::Budget::unlimited()));
        budget.set_limit(64 << 20);
        let mut sorter = Sorter::new(directory.path(), budget.allowance(Class::Statement, usize::MAX));
        (0..25_000u32).rev().for_each(|i| sorter.push((i.to_be_bytes().to_vec(), vec![7; 1000])).unwrap());
        let mut merge = sorter.finish().unwrap();
        let check = |merge: &mut Merge, from: u32, to: u32| {
            (from..to).for_each(|i| assert_eq!(merge.next().unwrap().unwrap().0, i.to_be_bytes()));
        };
        check(&mut merge, 0, 3000);
        assert!(budget.reserved() > budget.idle_bytes_max());
        assert!(merge.make_idle(&directory.path().join("sorted-run\0")).is_err(), "the rows stay where they are");
        check(&mut merge, 3000, 6000);
        merge.make_idle(directory.path()).unwrap();
        assert_eq!(budget.reserved(), 0);
        check(&mut merge, 6000, 25_000);
        assert_eq!(merge.next().unwrap(), None);
    }

    #[test]
    fn rows_come_back_in_order_from_memory_and_from_runs() {
        let directory = tempfile::tempdir().unwrap();
        for bytes_max in [usize::MAX, 2000, 1] {
            let mut sorter = Sorter::new(directory.path(), memory::process().allowance(Class::Build, bytes_max));
            for i in 0..500u32 {
                let key = (i * 7919 % 500).to_be_bytes().to_vec();
                sorter.push((key, vec![i as u8; (i % 5) as usize])).unwrap();
                assert!(sorter.runs.len() < 2 * RUNS_MAX);
            }
            let mut merge = sorter.finish().unwrap();
            for i in 0..500u32 {
                assert_eq!(merge.next().unwrap().unwrap().0, i.to_be_bytes());
            }
            assert_eq!(merge.next().unwrap(), None);
            assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        }
    }
}
