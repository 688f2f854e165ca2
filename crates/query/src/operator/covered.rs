//! PROJECTION_COVERED: documents made from index keys alone.
//!
//! A key has null for a missing field. Only the document can distinguish the two, so entries with a null are
//! fetched.

use arbor_bson::keystring;
use arbor_bson::{Doc, DocBuf, Value};
use arbor_lang::Projection;

use super::fetch::record_of_entry;
use super::run::EntryCursor;
use super::{Detail, IndexScan, Operator, Row, Run, StageDoc, Tally};
use crate::{Error, Result};

pub(crate) struct Covered {
    scan: IndexScan,
    projection: Projection,
    /// Each field shown and the component that holds it.
    fields: Vec<(String, usize)>,
    descending: Vec<bool>,
    spec: DocBuf,
    tally: Tally,
}

impl Covered {
    /// `fields`: what the projection shows, as components of the index.
    pub(crate) fn new(scan: IndexScan, projection: Projection, fields: Vec<(String, usize)>, spec: DocBuf) -> Covered {
        let descending = scan.access().shape.descending();
        Covered { scan, projection, fields, descending, spec, tally: Tally::default() }
    }

    /// None: only the document knows.
    fn document_of_key(&self, run: &mut Run<'_>) -> Result<Option<DocBuf>> {
        let Some(EntryCursor::Index(entry)) = self.scan.entry(run) else { return Ok(None) };
        let values = keystring::decode(entry.key(), entry.type_bits(), &self.descending)
            .map_err(|error| Error::internal(format!("an index key does not decode: {error}")))?;
        let mut doc = DocBuf::new();
        for (name, component) in &self.fields {
            match values.get(*component) {
                None | Some(Value::Null | Value::Undefined) => return Ok(None),
                Some(value) => doc.append(name, value),
            };
        }
        Ok(Some(doc))
    }
}

impl Operator for Covered {
    fn next(&mut self, run: &mut Run<'_>) -> Result<Option<Row>> {
        if !self.scan.advance(run)? {
            return Ok(self.tally.answer(None));
        }
        let document = match self.document_of_key(run)? {
            Some(document) => document,
            None => {
                run.examined.documents += 1;
                let record = record_of_entry(&self.scan, run)?;
                self.projection.apply(Doc::trusted(&record), None)?
            }
        };
        Ok(self.tally.answer(Some(Row::of(document))))
    }

    fn suspend(&mut self, run: &mut Run<'_>) {
        self.scan.suspend(run);
    }

    fn is_done(&self) -> bool {
        self.scan.is_done()
    }

    fn can_change_snapshot(&self) -> bool {
        true
    }

    fn explain(&self, detail: Detail) -> DocBuf {
        StageDoc::new("PROJECTION_COVERED", detail)
            .tally(&self.tally)
            .with("transformBy", &self.spec)
            .input(self.scan.explain("IXSCAN", detail))
    }
}
