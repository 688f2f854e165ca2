//! `$lookup`: each row with the documents of another collection that belong to it.

use arbor_bson::{ArrayBuf, DocBuf};

use super::{Detail, Examined, Operator, Row, Run, StageDoc, Tally};
use crate::aggregate::{HashJoin, Lookup, Strategy};
use crate::{Result, Settings};

pub struct LookupRows {
    input: Box<dyn Operator>,
    lookup: Lookup,
    settings: Settings,
    state: State,
    rows: u64,
    /// What the other collection was asked for.
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
    pub fn new(input: Box<dyn Operator>, lookup: Lookup, settings: Settings) -> LookupRows {
        let (state, examined, tally) = (State::Undecided, Examined::default(), Tally::default());
        LookupRows { input, lookup, settings, state, rows: 0, examined, scans: 0, tally }
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
        let Some(row) = self.input.next(run)? else { return Ok(self.tally.answer(None)) };
        run.tick()?;
        let before = run.examined;
        let found = self.find(&row, run)?;
        self.examined.keys += run.examined.keys - before.keys;
        self.examined.documents += run.examined.documents - before.documents;
        let document = self.lookup.add_to(&row.document, &found)?;
        Ok(self.tally.answer(Some(row.made(document))))
    }

    fn suspend(&mut self, run: &mut Run<'_>) {
        self.input.suspend(run);
    }

    fn is_done(&self) -> bool {
        self.input.is_done()
    }

    fn explain(&self, detail: Detail) -> DocBuf {
        StageDoc::new("EQ_LOOKUP", detail)
            .tally(&self.tally)
            .with("as", self.lookup.into.as_str())
            .with_some("strategy", self.strategy())
            .figure("totalDocsExamined", self.examined.documents)
            .figure("totalKeysExamined", self.examined.keys)
            .figure("collectionScans", self.scans)
            .with_some("indexesUsed", self.indexes_used(detail).as_ref())
            .input(self.input.explain(detail))
    }
}
