//! COUNT_SCAN: how many documents have a key inside exact bounds, without reading them.

use arbor_bson::DocBuf;

use super::{Detail, IndexScan, Operator, Row, Run};
use crate::Result;

pub(crate) struct CountScan {
    scan: IndexScan,
}

impl CountScan {
    pub(crate) fn new(scan: IndexScan) -> CountScan {
        CountScan { scan }
    }
}

impl Operator for CountScan {
    /// One empty row per document.
    fn next(&mut self, run: &mut Run<'_>) -> Result<Option<Row>> {
        Ok(self.scan.advance(run)?.then(Row::default))
    }

    fn suspend(&mut self, run: &mut Run<'_>) {
        self.scan.suspend(run);
    }

    fn is_done(&self) -> bool {
        self.scan.is_done()
    }

    fn can_change_snapshot(&self) -> bool {
        true
    }

    fn explain(&self, detail: Detail) -> DocBuf {
        self.scan.explain("COUNT_SCAN", detail)
    }
}
