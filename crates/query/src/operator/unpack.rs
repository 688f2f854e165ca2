//! The measurements of buckets.

use std::vec::IntoIter;

use arbor_bson::DocBuf;
use arbor_lang::time_series::Unpack;

use super::{Detail, Operator, Row, Run, StageDoc, Tally};
use crate::Result;

pub(crate) struct UnpackRows {
    input: Box<dyn Operator>,
    unpack: Unpack,
    waiting: IntoIter<DocBuf>,
    buckets: u64,
    tally: Tally,
}

impl UnpackRows {
    pub(crate) fn new(input: Box<dyn Operator>, unpack: Unpack) -> UnpackRows {
        UnpackRows { input, unpack, waiting: Vec::new().into_iter(), buckets: 0, tally: Tally::default() }
    }
}

impl Operator for UnpackRows {
    fn next(&mut self, run: &mut Run<'_>) -> Result<Option<Row>> {
        loop {
            run.tick()?;
            if let Some(document) = self.waiting.next() {
                return Ok(self.tally.answer(Some(Row::of(document))));
            }
            let Some(row) = self.input.next(run)? else { return Ok(self.tally.answer(None)) };
            self.buckets += 1;
            let mut measurements = Vec::new();
            self.unpack.apply(row.document.as_doc(), &mut measurements)?;
            self.waiting = measurements.into_iter();
        }
    }

    fn suspend(&mut self, run: &mut Run<'_>) {
        self.input.suspend(run);
    }

    fn is_done(&self) -> bool {
        self.waiting.len() == 0 && self.input.is_done()
    }

    fn can_change_snapshot(&self) -> bool {
        self.input.can_change_snapshot()
    }

    fn explain(&self, detail: Detail) -> DocBuf {
        StageDoc::new("UNPACK_BUCKET", detail)
            .tally(&self.tally)
            .counter("nBucketsUnpacked", self.buckets)
            .input(self.input.explain(detail))
    }
}
