//! `$graphLookup`: each row with the documents that are reached from it.

use arbor_bson::DocBuf;

use super::{Detail, Operator, Row, Run, StageDoc, Tally};
use crate::aggregate::graph_lookup::GraphLookup;
use crate::{Result, Settings};

pub(crate) struct GraphLookupRows {
    input: Box<dyn Operator>,
    lookup: GraphLookup,
    settings: Settings,
    tally: Tally,
}

impl GraphLookupRows {
    pub(crate) fn new(input: Box<dyn Operator>, lookup: GraphLookup, settings: Settings) -> GraphLookupRows {
        GraphLookupRows { input, lookup, settings, tally: Tally::default() }
    }
}

impl Operator for GraphLookupRows {
    fn next(&mut self, run: &mut Run<'_>) -> Result<Option<Row>> {
        let Some(row) = self.input.next(run)? else { return Ok(self.tally.answer(None)) };
        run.tick()?;
        let document = self.lookup.extended(row.document.as_doc(), &self.settings, run)?;
        Ok(self.tally.answer(Some(row.made(document)?)))
    }

    fn suspend(&mut self, run: &mut Run<'_>) {
        self.input.suspend(run);
    }

    fn is_done(&self) -> bool {
        self.input.is_done()
    }

    fn explain(&self, detail: Detail) -> DocBuf {
        StageDoc::new("GRAPH_LOOKUP", detail).tally(&self.tally).input(self.input.explain(detail))
    }
}
