//! `$unwind`: a document per element of an array.

use std::sync::Arc;
use std::vec::IntoIter;

use arbor_bson::DocBuf;
use arbor_lang::Metadata;
use arbor_lang::stage::Unwind;

use super::{Detail, Operator, Row, Run, StageDoc, Tally};
use crate::Result;

pub struct UnwindRows {
    input: Box<dyn Operator>,
    unwind: Unwind,
    waiting: IntoIter<DocBuf>,
    /// What is known about the document that the waiting ones come from.
    metadata: Option<Arc<Metadata>>,
    tally: Tally,
}

impl UnwindRows {
    pub fn new(input: Box<dyn Operator>, unwind: Unwind) -> UnwindRows {
        UnwindRows { input, unwind, waiting: Vec::new().into_iter(), metadata: None, tally: Tally::default() }
    }
}

impl Operator for UnwindRows {
    fn next(&mut self, run: &mut Run<'_>) -> Result<Option<Row>> {
        loop {
            if let Some(document) = self.waiting.next() {
                let metadata = self.metadata.clone();
                return Ok(self.tally.answer(Some(Row { metadata, ..Row::of(document) })));
            }
            let Some(row) = self.input.next(run)? else { return Ok(self.tally.answer(None)) };
            run.tick()?;
            let mut documents = Vec::new();
            self.unwind.apply(row.document.as_doc(), &mut documents)?;
            self.waiting = documents.into_iter();
            self.metadata = row.metadata;
        }
    }

    fn suspend(&mut self, run: &mut Run<'_>) {
        self.input.suspend(run);
    }

    fn is_done(&self) -> bool {
        self.waiting.len() == 0 && self.input.is_done()
    }

    fn explain(&self, detail: Detail) -> DocBuf {
        StageDoc::new("UNWIND", detail).tally(&self.tally).input(self.input.explain(detail))
    }
}
