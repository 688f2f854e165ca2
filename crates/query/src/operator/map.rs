//! Pipeline stages that turn each document into one document.

use arbor_bson::DocBuf;
use arbor_lang::stage::Map;

use super::{Detail, Operator, Row, Run, StageDoc, Tally};
use crate::Result;

pub(crate) struct MapRows {
    input: Box<dyn Operator>,
    map: Map,
    tally: Tally,
}

impl MapRows {
    pub(crate) fn new(input: Box<dyn Operator>, map: Map) -> MapRows {
        MapRows { input, map, tally: Tally::default() }
    }
}

impl Operator for MapRows {
    fn next(&mut self, run: &mut Run<'_>) -> Result<Option<Row>> {
        let Some(row) = self.input.next(run)? else { return Ok(self.tally.answer(None)) };
        let document = self.map.apply(row.input())?;
        Ok(self.tally.answer(Some(Row { document, ..row })))
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
        StageDoc::new("PROJECTION_DEFAULT", detail).tally(&self.tally).input(self.input.explain(detail))
    }
}
