//! The client's projection of each document.

use arbor_bson::DocBuf;
use arbor_lang::{Filter, Input, Projection};

use super::{Detail, Operator, Row, Run, StageDoc, Tally};
use crate::Result;

pub(crate) struct Project {
    input: Box<dyn Operator>,
    projection: Projection,
    /// The whole filter of the query, when a positional `$` needs to know which element matched.
    filter: Option<Filter>,
    spec: DocBuf,
    tally: Tally,
}

impl Project {
    /// `filter` is the query's; it is kept only if the projection needs it.
    pub(crate) fn new(input: Box<dyn Operator>, projection: Projection, filter: &Filter, spec: DocBuf) -> Project {
        let filter = projection.needs_position().then(|| filter.clone());
        Project { input, projection, filter, spec, tally: Tally::default() }
    }
}

impl Operator for Project {
    fn next(&mut self, run: &mut Run<'_>) -> Result<Option<Row>> {
        let Some(mut row) = self.input.next(run)? else { return Ok(self.tally.answer(None)) };
        row.document = project(&self.projection, self.filter.as_ref(), row.input())?;
        Ok(self.tally.answer(Some(row)))
    }

    fn suspend(&mut self, run: &mut Run<'_>) {
        self.input.suspend(run);
    }

    fn is_done(&self) -> bool {
        self.input.is_done()
    }

    fn has_read_all(&self) -> bool {
        self.input.has_read_all()
    }

    fn can_change_snapshot(&self) -> bool {
        self.input.can_change_snapshot()
    }

    fn explain(&self, detail: Detail) -> DocBuf {
        let name = if is_simple(&self.projection) { "PROJECTION_SIMPLE" } else { "PROJECTION_DEFAULT" };
        StageDoc::new(name, detail).tally(&self.tally).with("transformBy", &self.spec).input(self.input.explain(detail))
    }
}

/// `filter` is needed when the projection has a positional `$`.
pub(crate) fn project(projection: &Projection, filter: Option<&Filter>, input: Input<'_>) -> Result<DocBuf> {
    let position = match filter {
        Some(filter) => filter.matches_with_position(input)?.and_then(|matched| matched.position),
        None => None,
    };
    Ok(projection.apply(input, position)?)
}

/// Shows top-level fields only, unchanged.
fn is_simple(projection: &Projection) -> bool {
    projection.covered_by().is_some_and(|paths| paths.iter().all(|path| path.components().len() == 1))
}
