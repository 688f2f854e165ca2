//! `$facet`: one row from several pipelines over the rows of the input.

use arbor_bson::DocBuf;

use super::{Detail, Operator, Row, Run, Shared, Sharing, StageDoc, Tally};
use crate::aggregate::facet::Facet;
use crate::{Result, Settings};

pub(crate) struct FacetRow {
    input: Box<dyn Operator>,
    facet: Facet,
    settings: Settings,
    done: bool,
    used_disk: bool,
    tally: Tally,
}

impl FacetRow {
    pub(crate) fn new(input: Box<dyn Operator>, facet: Facet, settings: Settings) -> FacetRow {
        FacetRow { input, facet, settings, done: false, used_disk: false, tally: Tally::default() }
    }

    fn collect(&mut self, run: &mut Run<'_>) -> Result<Shared> {
        let mut sharing = Sharing::new(self.settings.group_memory());
        while let Some(row) = self.input.next(run)? {
            run.tick()?;
            self.tally.passed_over();
            sharing.push(row)?;
        }
        sharing.finish()
    }
}

impl Operator for FacetRow {
    fn next(&mut self, run: &mut Run<'_>) -> Result<Option<Row>> {
        if std::mem::replace(&mut self.done, true) {
            return Ok(self.tally.answer(None));
        }
        let input = self.collect(run)?;
        self.used_disk = input.used_disk();
        let document = self.facet.document(&input, &self.settings, run)?;
        Ok(self.tally.answer(Some(Row::computed(document)?)))
    }

    fn suspend(&mut self, run: &mut Run<'_>) {
        if !self.done {
            self.input.suspend(run);
        }
    }

    fn is_done(&self) -> bool {
        self.done
    }

    fn explain(&self, detail: Detail) -> DocBuf {
        StageDoc::new("FACET", detail)
            .tally(&self.tally)
            .disk_use(u64::from(self.used_disk))
            .input(self.input.explain(detail))
    }
}
