//! RETURN_KEY: the index key that found each document, in the place of the document. What no index found is `{}`.

use std::sync::Arc;

use arbor_bson::keystring;
use arbor_bson::{Doc, DocBuf, ValueRef};
use arbor_lang::MetaKind;

use super::run::EntryCursor;
use super::{Detail, Fetch, Operator, Row, Run, StageDoc, Tally};
use crate::plan::IndexShape;
use crate::{Error, Result};

/// The rows of an access, with the index key that found each in its metadata.
pub(crate) struct NotedKeys {
    input: Input,
}

enum Input {
    Entries(Box<Fetch>),
    /// Found by its `_id` alone.
    ById(Box<dyn Operator>),
}

impl NotedKeys {
    pub(crate) fn of_entries(fetch: Fetch) -> NotedKeys {
        NotedKeys { input: Input::Entries(Box::new(fetch)) }
    }

    pub(crate) fn of_record(input: Box<dyn Operator>) -> NotedKeys {
        NotedKeys { input: Input::ById(input) }
    }

    fn input(&self) -> &dyn Operator {
        match &self.input {
            Input::Entries(fetch) => fetch.as_ref(),
            Input::ById(input) => input.as_ref(),
        }
    }

    fn input_mut(&mut self) -> &mut dyn Operator {
        match &mut self.input {
            Input::Entries(fetch) => fetch.as_mut(),
            Input::ById(input) => input.as_mut(),
        }
    }
}

impl Operator for NotedKeys {
    fn next(&mut self, run: &mut Run<'_>) -> Result<Option<Row>> {
        let Some(mut row) = self.input_mut().next(run)? else { return Ok(None) };
        let key = match &self.input {
            Input::Entries(fetch) => {
                let scan = fetch.scan()?;
                match scan.entry(run) {
                    Some(EntryCursor::Index(entry)) => {
                        key_document(&scan.access().shape, entry.key(), entry.type_bits())?
                    }
                    _ => id_of(row.document.as_doc()),
                }
            }
            Input::ById(_) => id_of(row.document.as_doc()),
        };
        let known = row.metadata.as_deref().cloned().unwrap_or_default();
        row.metadata = Some(Arc::new(known.with(MetaKind::IndexKey, &key)));
        Ok(Some(row))
    }

    fn suspend(&mut self, run: &mut Run<'_>) {
        self.input_mut().suspend(run);
    }

    fn is_done(&self) -> bool {
        self.input().is_done()
    }

    fn explain(&self, detail: Detail) -> DocBuf {
        self.input().explain(detail)
    }
}

/// The noted keys in the place of their documents.
pub(crate) struct ReturnKey {
    input: Box<dyn Operator>,
    tally: Tally,
}

impl ReturnKey {
    pub(crate) fn new(input: Box<dyn Operator>) -> ReturnKey {
        ReturnKey { input, tally: Tally::default() }
    }
}

impl Operator for ReturnKey {
    fn next(&mut self, run: &mut Run<'_>) -> Result<Option<Row>> {
        let Some(mut row) = self.input.next(run)? else { return Ok(self.tally.answer(None)) };
        row.document = match row.input().meta(MetaKind::IndexKey) {
            Some(ValueRef::Document(key)) => key.to_buf(),
            _ => DocBuf::new(),
        };
        Ok(self.tally.answer(Some(row)))
    }

    fn suspend(&mut self, run: &mut Run<'_>) {
        self.input.suspend(run);
    }

    fn is_done(&self) -> bool {
        self.input.is_done()
    }

    fn explain(&self, detail: Detail) -> DocBuf {
        StageDoc::new("RETURN_KEY", detail).tally(&self.tally).input(self.input.explain(detail))
    }
}

fn key_document(shape: &IndexShape, key: &[u8], type_bits: &[u8]) -> Result<DocBuf> {
    let values = keystring::decode(key, type_bits, &shape.descending())
        .map_err(|error| Error::internal(format!("an index key does not decode: {error}")))?;
    let shown = shape.parts.iter().zip(&values).map(|(part, value)| (part.path.as_str(), part.shown(value, shape)));
    Ok(shown.collect::<Vec<_>>().iter().map(|(path, value)| (*path, value)).collect())
}

fn id_of(document: Doc<'_>) -> DocBuf {
    document.get("_id").map(|id| DocBuf::new().with("_id", id)).unwrap_or_default()
}
