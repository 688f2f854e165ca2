//! Blocking sort. With a limit it keeps the best `n` rows only (top-k).

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::vec::IntoIter;

use arbor_bson::{Doc, DocBuf};
use arbor_lang::stage::Arrange;
use arbor_lang::{Code, SortPattern};

use super::stage_doc::int;
use super::{Detail, Operator, Row, Run, StageDoc, Tally};
use crate::{Error, Result};

pub struct Sort {
    input: Box<dyn Operator>,
    order: Order,
    limit: Option<u64>,
    bytes_max: usize,
    state: State,
    bytes: usize,
    read: u64,
    tally: Tally,
}

/// What rows are sorted by.
enum Order {
    Pattern(SortPattern),
    Arranged(Arrange),
}

enum State {
    Collecting,
    Sorted(IntoIter<Entry>),
}

struct Entry {
    key: Vec<u8>,
    /// Rows with equal keys stay in the order of the input.
    order: u64,
    row: Row,
}

impl Sort {
    pub fn new(input: Box<dyn Operator>, pattern: SortPattern, limit: Option<u64>, bytes_max: usize) -> Sort {
        Sort::by(input, Order::Pattern(pattern), limit, bytes_max)
    }

    /// The order that the stage above needs.
    pub fn arranged(input: Box<dyn Operator>, arrange: Arrange, bytes_max: usize) -> Sort {
        Sort::by(input, Order::Arranged(arrange), None, bytes_max)
    }

    fn by(input: Box<dyn Operator>, order: Order, limit: Option<u64>, bytes_max: usize) -> Sort {
        let (state, tally) = (State::Collecting, Tally::default());
        Sort { input, order, limit, bytes_max, state, bytes: 0, read: 0, tally }
    }

    fn collect(&mut self, run: &mut Run<'_>) -> Result<Vec<Entry>> {
        let limit = self.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        if limit == 0 {
            return Ok(Vec::new());
        }
        let mut best = Best { heap: BinaryHeap::new(), all: Vec::new(), limit };
        while let Some(row) = self.input.next(run)? {
            run.tick()?;
            self.tally.passed_over();
            let entry = Entry { key: self.order.key(row.document.as_doc())?, order: self.read, row };
            self.read += 1;
            self.bytes += entry.bytes();
            self.bytes -= best.add(entry).map_or(0, |worst| worst.bytes());
            if self.bytes > self.bytes_max {
                return Err(self.too_large());
            }
        }
        Ok(best.into_sorted())
    }

    fn too_large(&self) -> Error {
        let message = format!(
            "Executor error during find command :: caused by :: Sort exceeded memory limit of {} bytes, but did not \
             opt in to external sorting.",
            self.bytes_max
        );
        Error::new(Code::QUERY_EXCEEDED_MEMORY_LIMIT_NO_DISK_USE_ALLOWED, message)
    }
}

impl Order {
    fn key(&self, doc: Doc<'_>) -> Result<Vec<u8>> {
        match self {
            Order::Pattern(pattern) => Ok(pattern.key(doc)),
            Order::Arranged(arrange) => Ok(arrange.key(doc)?),
        }
    }

    fn shown(&self) -> DocBuf {
        match self {
            Order::Pattern(pattern) => {
                let direction = |descending: bool| if descending { -1i32 } else { 1 };
                pattern.parts().iter().map(|part| (part.path.as_str(), direction(part.descending))).collect()
            }
            Order::Arranged(arrange) => arrange.shown(),
        }
    }
}

/// The best `limit` entries: a heap with the worst on top, or just all of them.
struct Best {
    heap: BinaryHeap<Entry>,
    all: Vec<Entry>,
    limit: usize,
}

impl Best {
    /// Answers the entry that had to go.
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

    fn into_sorted(self) -> Vec<Entry> {
        let mut all = self.all;
        all.sort_unstable();
        all.extend(self.heap.into_sorted_vec());
        all
    }
}

impl Entry {
    fn bytes(&self) -> usize {
        size_of::<Entry>() + self.key.len() + self.row.document.as_bytes().len() + self.row.id_key.len()
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
            self.state = State::Sorted(self.collect(run)?.into_iter());
        }
        let row = match &mut self.state {
            State::Sorted(entries) => entries.next().map(|entry| entry.row),
            State::Collecting => None,
        };
        Ok(self.tally.answer(row))
    }

    fn suspend(&mut self, run: &mut Run<'_>) {
        if matches!(self.state, State::Collecting) {
            self.input.suspend(run);
        }
    }

    fn is_done(&self) -> bool {
        matches!(&self.state, State::Sorted(entries) if entries.len() == 0)
    }

    fn rows_in_all(&self) -> Option<u64> {
        matches!(self.state, State::Sorted(_)).then_some(self.read)
    }

    fn explain(&self, detail: Detail) -> DocBuf {
        StageDoc::new("SORT", detail)
            .tally(&self.tally)
            .with("sortPattern", &self.order.shown())
            .with("memLimit", int(self.bytes_max as u64).as_ref())
            .with_some("limitAmount", self.limit.map(int).as_ref())
            .with("type", "simple")
            .figure("totalDataSizeSorted", self.bytes as u64)
            .figure("usedDisk", 0)
            .input(self.input.explain(detail))
    }
}
