//! A candidate plan that a trial began: first the rows that it found there.

use std::collections::VecDeque;

use arbor_bson::DocBuf;

use super::{Detail, Examined, Operator, Row, Run};
use crate::Result;

pub(crate) struct Resumed {
    input: Box<dyn Operator>,
    found: VecDeque<Row>,
    /// Reads that the trial made for them, until they are counted.
    examined: Option<Examined>,
}

impl Resumed {
    pub(crate) fn new(input: Box<dyn Operator>, found: VecDeque<Row>, examined: Examined) -> Resumed {
        Resumed { input, found, examined: Some(examined) }
    }
}

impl Operator for Resumed {
    fn next(&mut self, run: &mut Run<'_>) -> Result<Option<Row>> {
        if let Some(examined) = self.examined.take() {
            run.examined.keys += examined.keys;
            run.examined.documents += examined.documents;
        }
        match self.found.pop_front() {
            Some(row) => Ok(Some(row)),
            None => self.input.next(run),
        }
    }

    fn suspend(&mut self, run: &mut Run<'_>) {
        self.input.suspend(run);
    }

    fn is_done(&self) -> bool {
        self.found.is_empty() && self.input.is_done()
    }

    fn can_change_snapshot(&self) -> bool {
        self.input.can_change_snapshot()
    }

    fn explain(&self, detail: Detail) -> DocBuf {
        self.input.explain(detail)
    }
}
