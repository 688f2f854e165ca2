//! Blocking sort. With a limit it keeps the best `n` rows only (top-k). What does not fit into memory goes to sorted runs
//! on disk, if the statement allows it.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::vec::IntoIter;

use arbor_base::memory::Allowance;
use arbor_bson::DocBuf;
use arbor_lang::stage::Arrange;
use arbor_lang::{Code, Input, SortPattern, stop};
use arbor_store::{Merge, Sorter};

use super::stage_doc::int;
use super::{Detail, Operator, Row, Run, StageDoc, Tally};
use crate::{Error, Memory, Result};

pub(crate) struct Sort {
    input: Box<dyn Operator>,
    order: Order,
    limit: Option<u64>,
    memory: Memory,
    /// Memory of the rows that are not on disk.
    allowance: Allowance,
    state: State,
    /// Bytes of the rows in memory, and of all.
    bytes: usize,
    bytes_in_all: u64,
    read: u64,
    spills: u64,
    tally: Tally,
}

/// Keys from this size on hold no more memory than they need.
const LARGE_KEY_BYTES: usize = 64 << 10;

/// Sort key of the rows.
enum Order {
    Pattern(SortPattern),
    Arranged(Arrange),
}

enum State {
    Collecting,
    Sorted(IntoIter<Entry>),
    Merging(Merge),
}

struct Entry {
    key: Vec<u8>,
    /// Rows with equal keys stay in the order of the input.
    order: u64,
    row: Row,
}

impl Sort {
    pub(crate) fn new(input: Box<dyn Operator>, pattern: SortPattern, limit: Option<u64>, memory: Memory) -> Sort {
        Sort::by(input, Order::Pattern(pattern), limit, memory)
    }

    /// The order that the stage above needs.
    pub(crate) fn arranged(input: Box<dyn Operator>, arrange: Arrange, memory: Memory) -> Sort {
        Sort::by(input, Order::Arranged(arrange), None, memory)
    }

    fn by(input: Box<dyn Operator>, order: Order, limit: Option<u64>, memory: Memory) -> Sort {
        let (state, tally, allowance) = (State::Collecting, Tally::default(), memory.allowance());
        Sort { input, order, limit, memory, allowance, state, bytes: 0, bytes_in_all: 0, read: 0, spills: 0, tally }
    }

    fn collect(&mut self, run: &mut Run<'_>) -> Result<State> {
        let limit = self.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        if limit == 0 {
            return Ok(State::Sorted(Vec::new().into_iter()));
        }
        let mut best = Best { heap: BinaryHeap::new(), all: Vec::new(), limit };
        while let Some(entry) = self.next_entry(run)? {
            self.bytes += entry.bytes();
            self.bytes -= best.add(entry).map_or(0, |worst| worst.bytes());
            if !self.allowance.covers(self.bytes) {
                return self.spill(best, run);
            }
        }
        Ok(State::Sorted(best.into_sorted()?.into_iter()))
    }

    fn next_entry(&mut self, run: &mut Run<'_>) -> Result<Option<Entry>> {
        let Some(row) = self.input.next(run)? else { return Ok(None) };
        run.tick()?;
        self.tally.passed_over();
        let mut key = self.order.key(row.input())?;
        if key.len() >= LARGE_KEY_BYTES {
            // it has grown in steps
            key.shrink_to(key.len() + size_of::<u64>());
        }
        let entry = Entry { key, order: self.read, row };
        self.read += 1;
        self.bytes_in_all += entry.bytes() as u64;
        Ok(Some(entry))
    }

    /// The rest of the rows goes to runs, as do those that were kept. A limit is kept by the operator above.
    fn spill(&mut self, best: Best, run: &mut Run<'_>) -> Result<State> {
        let Some(directory) = &self.memory.scratch else { return Err(self.too_large()) };
        // the rows move from here into the sorter
        self.allowance.release();
        let mut sorter = Sorter::new(directory, self.memory.allowance());
        for entry in best.into_sorted()? {
            stop::tick_for(entry.bytes())?;
            sorter.push(entry.into_pair())?;
        }
        while let Some(entry) = self.next_entry(run)? {
            sorter.push(entry.into_pair())?;
        }
        self.bytes = 0;
        self.spills = sorter.spills();
        Ok(State::Merging(sorter.finish()?))
    }

    /// Moves rows in memory to the disk while the client is awaited, if they take more than may idle.
    fn make_idle(&mut self) -> Result<()> {
        let Some(directory) = &self.memory.scratch else { return Ok(()) };
        match &mut self.state {
            State::Sorted(entries) if self.allowance.is_too_large_to_idle() => {
                let rest = entries.as_slice().iter().map(Entry::pair);
                self.state = State::Merging(Merge::of_sorted(directory, rest)?);
                self.allowance.release();
                self.spills += 1;
            }
            State::Merging(merge) => merge.make_idle(directory)?,
            State::Sorted(_) | State::Collecting => {}
        }
        Ok(())
    }

    fn too_large(&self) -> Error {
        let message = format!(
            "Sort exceeded memory limit of {} bytes, but did not opt in to external sorting.",
            self.allowance.bytes_max(self.bytes)
        );
        Error::new(Code::QUERY_EXCEEDED_MEMORY_LIMIT_NO_DISK_USE_ALLOWED, message)
    }
}

impl Order {
    fn key(&self, input: Input<'_>) -> Result<Vec<u8>> {
        match self {
            Order::Pattern(pattern) => Ok(pattern.key(input)?),
            Order::Arranged(arrange) => Ok(arrange.key(input)?),
        }
    }

    fn shown(&self) -> DocBuf {
        match self {
            Order::Pattern(pattern) => pattern_doc(pattern),
            Order::Arranged(arrange) => arrange.shown(),
        }
    }
}

/// As the client wrote it.
pub(crate) fn pattern_doc(pattern: &SortPattern) -> DocBuf {
    let mut shown = DocBuf::new();
    pattern.parts().iter().for_each(|part| part.show(&mut shown));
    shown
}

/// The best `limit` entries: a heap with the worst on top, or just all of them.
struct Best {
    heap: BinaryHeap<Entry>,
    all: Vec<Entry>,
    limit: usize,
}

impl Best {
    /// Returns the entry that had to go.
    fn add(&mut self, entry: Entry) -> Option<Entry> {
        if self.limit == usize::MAX {
            self.all.push(entry);
            return None;
        }
        if self.heap.len() < self.limit {
            self.heap.push(entry);
            return None;
        }
        match self.heap.peek_mut() {
            Some(mut worst) if entry < *worst => Some(std::mem::replace(&mut *worst, entry)),
            _ => Some(entry),
        }
    }

    fn into_sorted(self) -> Result<Vec<Entry>> {
        let mut all = self.all;
        all.extend(self.heap.into_vec());
        stop::sort_unstable_by(&mut all, Entry::cmp)?;
        Ok(all)
    }
}

impl Entry {
    fn bytes(&self) -> usize {
        // the list of entries doubles as it grows
        2 * size_of::<Entry>() + self.key.capacity() + self.row.bytes() - size_of::<Row>()
    }

    /// Like [`Entry::pair`], without another copy of a large row.
    fn into_pair(self) -> (Vec<u8>, Vec<u8>) {
        let mut key = self.key;
        key.reserve_exact(size_of::<u64>());
        key.extend_from_slice(&self.order.to_be_bytes());
        (key, self.row.into_encoded())
    }

    /// As a run keeps it: the key with the place in the input, and the row.
    fn pair(&self) -> (Vec<u8>, Vec<u8>) {
        let key = [self.key.as_slice(), &self.order.to_be_bytes()].concat();
        (key, self.row.encode())
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    fn cmp(&self, other: &Entry) -> Ordering {
        self.key.cmp(&other.key).then(self.order.cmp(&other.order))
    }
}

impl Operator for Sort {
    fn next(&mut self, run: &mut Run<'_>) -> Result<Option<Row>> {
        if matches!(self.state, State::Collecting) {
            self.state = self.collect(run)?;
        }
        let row = match &mut self.state {
            State::Sorted(entries) => entries.next().map(|entry| entry.row),
            State::Merging(merge) => {
                run.tick()?;
                merge.next()?.map(|(_, value)| Row::decode(value)).transpose()?
            }
            State::Collecting => None,
        };
        Ok(self.tally.answer(row))
    }

    fn suspend(&mut self, run: &mut Run<'_>) {
        if matches!(self.state, State::Collecting) {
            self.input.suspend(run);
        }
        // rows that could not be written stay in memory
        let _more_memory_is_held = self.make_idle();
    }

    fn is_done(&self) -> bool {
        matches!(&self.state, State::Sorted(entries) if entries.len() == 0)
    }

    fn has_read_all(&self) -> bool {
        !matches!(self.state, State::Collecting)
    }

    fn rows_in_all(&self) -> Option<u64> {
        (!matches!(self.state, State::Collecting)).then_some(self.read)
    }

    fn explain(&self, detail: Detail) -> DocBuf {
        StageDoc::new("SORT", detail)
            .tally(&self.tally)
            .with("sortPattern", &self.order.shown())
            .with("memLimit", int(self.memory.bytes_max as u64).as_ref())
            .with_some("limitAmount", self.limit.map(int).as_ref())
            .with("type", "simple")
            .counter("totalDataSizeSorted", self.bytes_in_all)
            .disk_use(self.spills)
            .input(self.input.explain(detail))
    }
}
