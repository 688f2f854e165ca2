//! `$lookup`: each row with the documents of another collection that belong to it. With an `$unwind` of these after it, a row
//! for each of them: the array that would hold them is never made.

use std::iter::Enumerate;
use std::vec::IntoIter;

use arbor_bson::{ArrayBuf, DocBuf, Value, ValueRef};
use arbor_lang::stage::{Unwind, Unwound};

use super::{Detail, Examined, Operator, Row, Run, StageDoc, Tally};
use crate::aggregate::hash_join::HashJoin;
use crate::aggregate::lookup::{Lookup, Strategy};
use crate::{Result, Settings};

pub(crate) struct LookupRows {
    input: Box<dyn Operator>,
    lookup: Lookup,
    unwind: Option<Unwind>,
    /// The row that is being unwound, and what is left of what it found.
    waiting: Option<(Row, Enumerate<IntoIter<Value>>)>,
    settings: Settings,
    state: State,
    rows: u64,
    /// Reads from the other collection.
    examined: Examined,
    scans: u64,
    tally: Tally,
}

enum State {
    Undecided,
    Decided(Strategy),
    Hashed(Box<HashJoin>),
}

impl LookupRows {
    pub(crate) fn new(
        input: Box<dyn Operator>,
        lookup: Lookup,
        unwind: Option<Unwind>,
        settings: Settings,
    ) -> LookupRows {
        let (state, examined, tally) = (State::Undecided, Examined::default(), Tally::default());
        let lookup = if unwind.is_some() { lookup.unwinds(settings.group_bytes_max) } else { lookup };
        LookupRows { input, lookup, unwind, waiting: None, settings, state, rows: 0, examined, scans: 0, tally }
    }

    fn find_counted(&mut self, row: &Row, run: &mut Run<'_>) -> Result<ArrayBuf> {
        let before = run.examined;
        let found = self.find(row, run)?;
        self.examined.keys += run.examined.keys - before.keys;
        self.examined.documents += run.examined.documents - before.documents;
        Ok(found)
    }

    /// The next row of those that wait.
    fn unwound(&mut self) -> Result<Option<Row>> {
        let (Some(unwind), Some((row, found))) = (&self.unwind, &mut self.waiting) else { return Ok(None) };
        match found.next() {
            Some((at, element)) => row.made(unwind.with_element(row.document.as_doc(), at, &element)).map(Some),
            None => {
                self.waiting = None;
                Ok(None)
            }
        }
    }

    fn find(&mut self, row: &Row, run: &mut Run<'_>) -> Result<ArrayBuf> {
        if matches!(self.state, State::Undecided) {
            self.state = State::Decided(self.lookup.strategy(run.view)?);
        }
        // one row is found by one scan
        if matches!(self.state, State::Decided(Strategy::Hash)) && self.rows > 0 {
            self.scans += 1;
            self.state = match self.lookup.hash_join(&self.settings, run)? {
                Some(table) => State::Hashed(Box::new(table)),
                None => State::Decided(Strategy::Pipelines),
            };
        }
        self.rows += 1;
        match &self.state {
            State::Hashed(table) => self.lookup.find_hashed(row.input(), table),
            State::Decided(Strategy::Index(shape)) => {
                self.lookup.find_by_index(row.input(), shape, &self.settings, run)
            }
            _ => self.lookup.find(row.input(), &self.settings, run),
        }
    }

    fn indexes_used(&self, detail: Detail) -> Option<ArrayBuf> {
        let used: ArrayBuf = match &self.state {
            State::Decided(Strategy::Index(shape)) => [shape.name.as_str()].into_iter().collect(),
            _ => ArrayBuf::new(),
        };
        (detail == Detail::Execution).then_some(used)
    }

    /// As MongoDB names them.
    fn strategy(&self) -> Option<&'static str> {
        match &self.state {
            State::Undecided => None,
            State::Hashed(_) => Some("HashJoin"),
            State::Decided(Strategy::Hash) => Some("NestedLoopJoin"),
            State::Decided(Strategy::Index(_)) => Some("IndexedLoopJoin"),
            State::Decided(Strategy::Pipelines) => None,
        }
    }
}

impl Operator for LookupRows {
    fn next(&mut self, run: &mut Run<'_>) -> Result<Option<Row>> {
        loop {
            run.tick()?;
            if let Some(row) = self.unwound()? {
                return Ok(self.tally.answer(Some(row)));
            }
            let Some(row) = self.input.next(run)? else { return Ok(self.tally.answer(None)) };
            let found = self.find_counted(&row, run)?;
            let Some(unwind) = &self.unwind else {
                let document = self.lookup.add_to(&row.document, &found)?;
                return Ok(self.tally.answer(Some(row.made(document)?)));
            };
            let document = self.lookup.add_to(&row.document, &ArrayBuf::new())?;
            if !found.is_empty() {
                let found: Vec<Value> = found.as_array().iter().map(ValueRef::to_value).collect();
                self.waiting = Some((row.made(document)?, found.into_iter().enumerate()));
            } else if let Unwound::One(Some(document)) = unwind.split(document.as_doc()) {
                return Ok(self.tally.answer(Some(row.made(document)?)));
            }
        }
    }

    fn suspend(&mut self, run: &mut Run<'_>) {
        self.input.suspend(run);
    }

    fn is_done(&self) -> bool {
        self.waiting.as_ref().is_none_or(|(_, found)| found.len() == 0) && self.input.is_done()
    }

    fn explain(&self, detail: Detail) -> DocBuf {
        let preserve = |unwind: &Unwind| DocBuf::new().with("preserveNullAndEmptyArrays", unwind.preserve);
        let unwinding = self.unwind.as_ref().map(preserve);
        StageDoc::new("EQ_LOOKUP", detail)
            .tally(&self.tally)
            .with("as", self.lookup.into.as_str())
            .with_some("unwinding", unwinding.as_ref())
            .with_some("strategy", self.strategy())
            .counter("totalDocsExamined", self.examined.documents)
            .counter("totalKeysExamined", self.examined.keys)
            .counter("collectionScans", self.scans)
            .with_some("indexesUsed", self.indexes_used(detail).as_ref())
            .input(self.input.explain(detail))
    }
}
