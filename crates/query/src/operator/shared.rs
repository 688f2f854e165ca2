//! Rows that several operators read one after the other: the input of `$facet`.

use std::sync::Arc;

use arbor_bson::DocBuf;

use super::{Detail, Operator, Row, Run, StageDoc, Tally};
use crate::Result;

/// Documents in memory; copies share them.
#[derive(Clone)]
pub struct Shared(Arc<Vec<DocBuf>>);

impl Shared {
    pub fn new(documents: Vec<DocBuf>) -> Shared {
        Shared(Arc::new(documents))
    }
}

pub struct SharedRows {
    rows: Shared,
    at: usize,
    tally: Tally,
}

impl SharedRows {
    pub fn new(rows: Shared) -> SharedRows {
        SharedRows { rows, at: 0, tally: Tally::default() }
    }
}

impl Operator for SharedRows {
    fn next(&mut self, run: &mut Run<'_>) -> Result<Option<Row>> {
        run.tick()?;
        let row = self.rows.0.get(self.at).map(|document| Row { document: document.clone(), id_key: Vec::new() });
        self.at += 1;
        Ok(self.tally.answer(row))
    }

    fn suspend(&mut self, _run: &mut Run<'_>) {}

    fn explain(&self, detail: Detail) -> DocBuf {
        StageDoc::new("SHARED", detail).tally(&self.tally).finish()
    }
}
