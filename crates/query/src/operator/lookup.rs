//! `$lookup`: each row with the documents of another collection that belong to it.

use arbor_bson::DocBuf;

use super::{Detail, Operator, Row, Run, StageDoc, Tally};
use crate::aggregate::Lookup;
use crate::{Result, Settings};

pub struct LookupRows {
    input: Box<dyn Operator>,
    lookup: Lookup,
    settings: Settings,
    tally: Tally,
}

impl LookupRows {
    pub fn new(input: Box<dyn Operator>, lookup: Lookup, settings: Settings) -> LookupRows {
        LookupRows { input, lookup, settings, tally: Tally::default() }
    }
}

impl Operator for LookupRows {
    fn next(&mut self, run: &mut Run<'_>) -> Result<Option<Row>> {
        let Some(row) = self.input.next(run)? else { return Ok(self.tally.answer(None)) };
        run.tick()?;
        let found = self.lookup.find(row.input(), &self.settings, run)?;
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
            .input(self.input.explain(detail))
    }
}
