//! `showRecordId`: the key of each record, added to its document.

use arbor_bson::{DocBuf, ValueRef};

use super::{Detail, Operator, Row, Run};
use crate::Result;

pub(crate) struct RecordIds {
    input: Box<dyn Operator>,
}

impl RecordIds {
    pub(crate) fn new(input: Box<dyn Operator>) -> RecordIds {
        RecordIds { input }
    }
}

impl Operator for RecordIds {
    fn next(&mut self, run: &mut Run<'_>) -> Result<Option<Row>> {
        let Some(mut row) = self.input.next(run)? else { return Ok(None) };
        row.document.append("$recordId", ValueRef::Binary { subtype: 0, bytes: &row.id_key });
        Ok(Some(row))
    }

    fn suspend(&mut self, run: &mut Run<'_>) {
        self.input.suspend(run);
    }

    fn is_done(&self) -> bool {
        self.input.is_done()
    }

    fn explain(&self, detail: Detail) -> DocBuf {
        self.input.explain(detail)
    }
}
