//! `$unwind`: a document per element of an array.

use std::iter::Enumerate;
use std::vec::IntoIter;

use arbor_bson::{DocBuf, Value};
use arbor_lang::stage::{Unwind, Unwound};

use super::{Detail, Operator, Row, Run, StageDoc, Tally};
use crate::Result;

pub(crate) struct UnwindRows {
    input: Box<dyn Operator>,
    unwind: Unwind,
    /// The row that is being unwound, and what is left of its elements.
    waiting: Option<(Row, Enumerate<IntoIter<Value>>)>,
    tally: Tally,
}

impl UnwindRows {
    pub(crate) fn new(input: Box<dyn Operator>, unwind: Unwind) -> UnwindRows {
        UnwindRows { input, unwind, waiting: None, tally: Tally::default() }
    }
}

impl Operator for UnwindRows {
    fn next(&mut self, run: &mut Run<'_>) -> Result<Option<Row>> {
        loop {
            run.tick()?;
            if let Some((row, elements)) = &mut self.waiting {
                if let Some((at, element)) = elements.next() {
                    let document = self.unwind.with_element(row.document.as_doc(), at, &element);
                    let row = row.made(document)?;
                    return Ok(self.tally.answer(Some(row)));
                }
                self.waiting = None;
            }
            let Some(row) = self.input.next(run)? else { return Ok(self.tally.answer(None)) };
            match self.unwind.split(row.document.as_doc()) {
                Unwound::One(None) => {}
                Unwound::One(Some(document)) => {
                    return Ok(self.tally.answer(Some(row.made(document)?)));
                }
                Unwound::Each(elements) => self.waiting = Some((row, elements.into_iter().enumerate())),
            }
        }
    }

    fn suspend(&mut self, run: &mut Run<'_>) {
        self.input.suspend(run);
    }

    fn is_done(&self) -> bool {
        self.waiting.as_ref().is_none_or(|(_, elements)| elements.len() == 0) && self.input.is_done()
    }

    fn can_change_snapshot(&self) -> bool {
        self.input.can_change_snapshot()
    }

    fn explain(&self, detail: Detail) -> DocBuf {
        StageDoc::new("UNWIND", detail).tally(&self.tally).input(self.input.explain(detail))
    }
}
