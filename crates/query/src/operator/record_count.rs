//! RECORD_STORE_COUNT: as many empty rows as the collection has documents, from its counter.

use arbor_bson::DocBuf;

use super::{Detail, Operator, Row, Run, StageDoc, Tally};
use crate::Result;

#[derive(Default)]
pub(crate) struct RecordCount {
    left: Option<u64>,
    tally: Tally,
}

impl Operator for RecordCount {
    fn next(&mut self, run: &mut Run<'_>) -> Result<Option<Row>> {
        run.tick()?;
        let left = match self.left {
            Some(left) => left,
            None => arbor_store::count(run.view, run.collection()?)?,
        };
        self.left = Some(left.saturating_sub(1));
        let row = (left > 0).then(Row::default);
        Ok(self.tally.answer(row))
    }

    fn suspend(&mut self, _run: &mut Run<'_>) {}

    fn is_done(&self) -> bool {
        self.left == Some(0)
    }

    fn explain(&self, detail: Detail) -> DocBuf {
        StageDoc::new("RECORD_STORE_COUNT", detail).tally(&self.tally).finish()
    }
}
