//! The first `n` rows.

use arbor_bson::DocBuf;

use super::stage_doc::int;
use super::{Detail, Operator, Row, Run, StageDoc, Tally};
use crate::Result;

pub(crate) struct Limit {
    input: Box<dyn Operator>,
    limit: u64,
    tally: Tally,
}

impl Limit {
    pub(crate) fn new(input: Box<dyn Operator>, limit: u64) -> Limit {
        Limit { input, limit, tally: Tally::default() }
    }
}

impl Operator for Limit {
    fn next(&mut self, run: &mut Run<'_>) -> Result<Option<Row>> {
        let row = if self.tally.advanced < self.limit { self.input.next(run)? } else { None };
        Ok(self.tally.answer(row))
    }

    fn suspend(&mut self, run: &mut Run<'_>) {
        self.input.suspend(run);
    }

    fn is_done(&self) -> bool {
        self.tally.advanced >= self.limit || self.input.is_done()
    }

    fn has_read_all(&self) -> bool {
        self.input.has_read_all()
    }

    fn can_change_snapshot(&self) -> bool {
        self.input.can_change_snapshot()
    }

    fn explain(&self, detail: Detail) -> DocBuf {
        let stage = StageDoc::new("LIMIT", detail).tally(&self.tally);
        stage.with("limitAmount", int(self.limit).as_ref()).input(self.input.explain(detail))
    }
}
