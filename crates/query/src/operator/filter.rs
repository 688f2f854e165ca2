//! Rows that match a filter, for inputs that do not filter themselves.

use arbor_bson::DocBuf;
use arbor_lang::Filter;

use super::{Detail, Operator, Row, Run, StageDoc, Tally};
use crate::Result;
use crate::explain::filter_doc;

pub(crate) struct FilterRows {
    input: Box<dyn Operator>,
    filter: Filter,
    tally: Tally,
}

impl FilterRows {
    pub(crate) fn new(input: Box<dyn Operator>, filter: Filter) -> FilterRows {
        FilterRows { input, filter, tally: Tally::default() }
    }
}

impl Operator for FilterRows {
    fn next(&mut self, run: &mut Run<'_>) -> Result<Option<Row>> {
        loop {
            let row = self.input.next(run)?;
            match row {
                Some(row) if !self.filter.matches(row.input())? => self.tally.passed_over(),
                row => return Ok(self.tally.answer(row)),
            }
        }
    }

    fn suspend(&mut self, run: &mut Run<'_>) {
        self.input.suspend(run);
    }

    fn is_done(&self) -> bool {
        self.input.is_done()
    }

    fn can_change_snapshot(&self) -> bool {
        self.input.can_change_snapshot()
    }

    fn explain(&self, detail: Detail) -> DocBuf {
        let filter = filter_doc::of_filter(&self.filter);
        StageDoc::new("MATCH", detail).with("filter", &filter).tally(&self.tally).input(self.input.explain(detail))
    }
}
