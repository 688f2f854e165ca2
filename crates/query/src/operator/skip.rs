//! All rows but the first `n`.

use arbor_bson::DocBuf;

use super::stage_doc::int;
use super::{Detail, Operator, Row, Run, StageDoc, Tally};
use crate::Result;

pub(crate) struct Skip {
    input: Box<dyn Operator>,
    skip: u64,
    skipped: u64,
    tally: Tally,
}

impl Skip {
    pub(crate) fn new(input: Box<dyn Operator>, skip: u64) -> Skip {
        Skip { input, skip, skipped: 0, tally: Tally::default() }
    }
}

impl Operator for Skip {
    fn next(&mut self, run: &mut Run<'_>) -> Result<Option<Row>> {
        while self.skipped < self.skip {
            if self.input.next(run)?.is_none() {
                return Ok(self.tally.answer(None));
            }
            self.skipped += 1;
            self.tally.passed_over();
        }
        let row = self.input.next(run)?;
        Ok(self.tally.answer(row))
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
        let stage = StageDoc::new("SKIP", detail).tally(&self.tally);
        stage.with("skipAmount", int(self.skip).as_ref()).input(self.input.explain(detail))
    }
}
