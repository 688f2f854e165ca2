//! Rows that come from other servers.

use std::sync::Arc;

use arbor_bson::DocBuf;

use super::{Detail, Operator, Row, Run, StageDoc, Tally};
use crate::elsewhere::{ElsewhereSource, with_metadata};
use crate::{Interrupt, Result};

/// Documents that come one after another, from wherever they are.
pub trait Rows: Send {
    /// Returns the next document; none: there are no more. May wait, as long as the interrupt is not raised.
    fn next(&mut self, interrupt: &Interrupt) -> Result<Option<DocBuf>>;
}

pub(crate) struct Remote {
    rows: Box<dyn Rows>,
    has_scores: bool,
    tally: Tally,
}

impl Remote {
    pub(crate) fn new(rows: Box<dyn Rows>) -> Remote {
        Remote { rows, has_scores: false, tally: Tally::default() }
    }

    /// The rows come with metadata.
    pub(crate) fn scored(self) -> Remote {
        Remote { has_scores: true, ..self }
    }

    pub(crate) fn of_elsewhere(source: &ElsewhereSource) -> Remote {
        Remote { has_scores: source.has_scores, ..Remote::new(source.rows()) }
    }
}

impl Operator for Remote {
    fn next(&mut self, run: &mut Run<'_>) -> Result<Option<Row>> {
        let row = self.rows.next(run.interrupt)?.map(|sent| match self.has_scores {
            false => Row::of(sent),
            true => {
                let (document, metadata) = with_metadata(sent);
                Row { metadata: metadata.map(Arc::new), ..Row::of(document) }
            }
        });
        Ok(self.tally.answer(row))
    }

    fn suspend(&mut self, _run: &mut Run<'_>) {}

    /// Nothing of the local snapshot is read.
    fn can_change_snapshot(&self) -> bool {
        true
    }

    fn explain(&self, detail: Detail) -> DocBuf {
        StageDoc::new("SHARD_MERGE", detail).tally(&self.tally).finish()
    }
}
