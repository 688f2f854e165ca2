//! `$facet`: one row from several pipelines over the rows of the input.

use arbor_bson::DocBuf;
use arbor_lang::Code;

use super::{Detail, Operator, Row, Run, Shared, StageDoc, Tally};
use crate::aggregate::Facet;
use crate::{Error, Result, Settings};

pub struct FacetRow {
    input: Box<dyn Operator>,
    facet: Facet,
    settings: Settings,
    done: bool,
    tally: Tally,
}

impl FacetRow {
    pub fn new(input: Box<dyn Operator>, facet: Facet, settings: Settings) -> FacetRow {
        FacetRow { input, facet, settings, done: false, tally: Tally::default() }
    }

    fn collect(&mut self, run: &mut Run<'_>) -> Result<Shared> {
        let (mut documents, mut bytes) = (Vec::new(), 0);
        while let Some(row) = self.input.next(run)? {
            run.tick()?;
            self.tally.passed_over();
            bytes += row.document.as_bytes().len() + size_of::<DocBuf>();
            if bytes > self.settings.group_bytes_max {
                let message = "Exceeded memory limit for $facet: its input does not fit into memory";
                return Err(Error::new(Code::EXCEEDED_MEMORY_LIMIT, message));
            }
            documents.push(row.document);
        }
        Ok(Shared::new(documents))
    }
}

impl Operator for FacetRow {
    fn next(&mut self, run: &mut Run<'_>) -> Result<Option<Row>> {
        if std::mem::replace(&mut self.done, true) {
            return Ok(self.tally.answer(None));
        }
        let input = self.collect(run)?;
        let document = self.facet.document(&input, &self.settings, run)?;
        Ok(self.tally.answer(Some(Row { document, id_key: Vec::new() })))
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
        StageDoc::new("FACET", detail).tally(&self.tally).input(self.input.explain(detail))
    }
}
