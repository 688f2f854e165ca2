//! Rows that exist already: the output of a stage about the server.

use std::vec::IntoIter;

use arbor_bson::DocBuf;

use super::{Detail, Operator, Row, Run, StageDoc, Tally};
use crate::Result;

pub(crate) struct Documents {
    documents: IntoIter<DocBuf>,
    tally: Tally,
}

impl Documents {
    pub(crate) fn new(documents: Vec<DocBuf>) -> Documents {
        Documents { documents: documents.into_iter(), tally: Tally::default() }
    }
}

impl Operator for Documents {
    fn next(&mut self, _run: &mut Run<'_>) -> Result<Option<Row>> {
        let row = self.documents.next().map(Row::of);
        Ok(self.tally.answer(row))
    }

    fn suspend(&mut self, _run: &mut Run<'_>) {}

    fn is_done(&self) -> bool {
        self.documents.len() == 0
    }

    fn can_change_snapshot(&self) -> bool {
        true
    }

    fn explain(&self, detail: Detail) -> DocBuf {
        StageDoc::new("QUEUED_DATA", detail).tally(&self.tally).finish()
    }
}
