//! No rows at all: a missing collection, or a filter that nothing can match.

use arbor_bson::DocBuf;

use super::{Detail, Operator, Row, Run, StageDoc, Tally};
use crate::Result;

#[derive(Default)]
pub(crate) struct Eof {
    tally: Tally,
}

impl Operator for Eof {
    fn next(&mut self, _run: &mut Run<'_>) -> Result<Option<Row>> {
        Ok(self.tally.answer(None))
    }

    fn suspend(&mut self, _run: &mut Run<'_>) {}

    fn is_done(&self) -> bool {
        true
    }

    fn can_change_snapshot(&self) -> bool {
        true
    }

    fn explain(&self, detail: Detail) -> DocBuf {
        StageDoc::new("EOF", detail).tally(&self.tally).finish()
    }
}
