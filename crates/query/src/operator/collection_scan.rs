//! COLLSCAN: every record in natural order, forward or backward.

use arbor_bson::DocBuf;
use arbor_lang::Filter;

use super::place::Walk;
use super::{Detail, Operator, Row, Run, Slot, StageDoc, Tally};
use crate::Result;
use crate::explain::filter_doc;
use crate::plan::{Direction, IndexSource};

pub(crate) struct CollectionScan {
    walk: Walk,
    filter: Option<Filter>,
    examined: u64,
    tally: Tally,
}

impl CollectionScan {
    /// `rows`: how many are likely read, if it is known.
    pub(crate) fn new(slot: Slot, direction: Direction, filter: Option<Filter>, rows: Option<u64>) -> CollectionScan {
        let mut walk = Walk::new(slot, IndexSource::Natural, direction);
        walk.expect_rows(rows);
        CollectionScan { walk, filter, examined: 0, tally: Tally::default() }
    }
}

impl Operator for CollectionScan {
    fn next(&mut self, run: &mut Run<'_>) -> Result<Option<Row>> {
        loop {
            run.tick()?;
            if !self.walk.step(run, &[], None)? {
                return Ok(self.tally.answer(None));
            }
            self.examined += 1;
            run.examined.documents += 1;
            let Some(cursor) = self.walk.entry(run) else { return Ok(self.tally.answer(None)) };
            let Some(doc) = cursor.doc() else { return Ok(self.tally.answer(None)) };
            let bytes = doc.as_bytes().len();
            if self.filter.as_ref().map_or(Ok(true), |filter| filter.matches(doc))? {
                let row = Row::stored(doc.to_buf(), cursor.id_key().to_vec());
                run.tick_for(bytes)?;
                return Ok(self.tally.answer(Some(row)));
            }
            run.tick_for(bytes)?;
            self.tally.passed_over();
        }
    }

    fn suspend(&mut self, run: &mut Run<'_>) {
        self.walk.suspend(run);
    }

    fn is_done(&self) -> bool {
        self.walk.is_ended()
    }

    fn can_change_snapshot(&self) -> bool {
        true
    }

    fn explain(&self, detail: Detail) -> DocBuf {
        StageDoc::new("COLLSCAN", detail)
            .with_some("filter", self.filter.as_ref().map(filter_doc::of_filter).as_ref())
            .tally(&self.tally)
            .with("direction", self.walk.direction().name())
            .counter("docsExamined", self.examined)
            .finish()
    }
}
