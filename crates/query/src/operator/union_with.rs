//! `$unionWith`: the rows of the input, then those of another pipeline.

use arbor_bson::DocBuf;

use super::{Detail, Operator, Row, Run, StageDoc, Tally};
use crate::aggregate::inner::{Inner, InnerRows};
use crate::{Result, Settings};

pub(crate) struct UnionRows {
    input: Box<dyn Operator>,
    inner: Inner,
    /// Once the input has ended.
    others: Option<InnerRows>,
    settings: Settings,
    tally: Tally,
}

impl UnionRows {
    pub(crate) fn new(input: Box<dyn Operator>, inner: Inner, settings: Settings) -> UnionRows {
        UnionRows { input, inner, others: None, settings, tally: Tally::default() }
    }
}

impl Operator for UnionRows {
    fn next(&mut self, run: &mut Run<'_>) -> Result<Option<Row>> {
        run.tick()?;
        if self.others.is_none() {
            if let Some(row) = self.input.next(run)? {
                return Ok(self.tally.answer(Some(Row { id_key: Vec::new(), ..row })));
            }
            self.others = Some(self.inner.open(run.view, &self.settings)?);
        }
        let row = match &mut self.others {
            Some(others) => others.next(run)?,
            None => None,
        };
        Ok(self.tally.answer(row))
    }

    fn suspend(&mut self, run: &mut Run<'_>) {
        if self.others.is_none() {
            self.input.suspend(run);
        }
    }

    fn explain(&self, detail: Detail) -> DocBuf {
        StageDoc::new("UNION_WITH", detail).tally(&self.tally).input(self.input.explain(detail))
    }
}
