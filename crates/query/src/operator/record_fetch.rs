//! IDHACK: the one record with a given `_id`.

use arbor_bson::{Doc, DocBuf};
use arbor_lang::Filter;

use super::{Detail, Operator, Row, Run, StageDoc, Tally};
use crate::Result;
use crate::explain::filter_doc;

pub(crate) struct RecordFetch {
    id_key: Option<Vec<u8>>,
    /// Conditions of the query other than the `_id`.
    filter: Option<Filter>,
    examined: u64,
    tally: Tally,
}

impl RecordFetch {
    pub(crate) fn new(id_key: Vec<u8>, filter: Option<Filter>) -> RecordFetch {
        RecordFetch { id_key: Some(id_key), filter, examined: 0, tally: Tally::default() }
    }
}

impl Operator for RecordFetch {
    fn next(&mut self, run: &mut Run<'_>) -> Result<Option<Row>> {
        let Some(id_key) = self.id_key.take() else { return Ok(self.tally.answer(None)) };
        let record = arbor_store::record(run.view, run.collection()?, &id_key)?;
        let Some(record) = record else { return Ok(self.tally.answer(None)) };
        self.examined += 1;
        run.examined.keys += 1;
        run.examined.documents += 1;
        let matches = self.filter.as_ref().map_or(Ok(true), |filter| filter.matches(Doc::trusted(&record)))?;
        let row = matches.then(|| Row::stored(DocBuf::from_trusted(record.into_owned()), id_key));
        Ok(self.tally.answer(row))
    }

    fn suspend(&mut self, _run: &mut Run<'_>) {}

    fn is_done(&self) -> bool {
        self.id_key.is_none()
    }

    fn explain(&self, detail: Detail) -> DocBuf {
        StageDoc::new("IDHACK", detail)
            .with_some("filter", self.filter.as_ref().map(filter_doc::of_filter).as_ref())
            .tally(&self.tally)
            .counter("keysExamined", self.examined)
            .counter("docsExamined", self.examined)
            .finish()
    }
}
