//! RETURN_KEY: the index key that found each document, in the place of the document. What no index found is `{}`.

use arbor_bson::keystring;
use arbor_bson::{Doc, DocBuf};

use super::run::EntryCursor;
use super::{Detail, Fetch, Operator, Row, Run, StageDoc, Tally};
use crate::plan::IndexShape;
use crate::{Error, Result};

pub(crate) struct ReturnKey {
    input: Input,
    tally: Tally,
}

enum Input {
    Entries(Box<Fetch>),
    /// Found by its `_id` alone.
    ById(Box<dyn Operator>),
    WithoutIndex(Box<dyn Operator>),
}

impl ReturnKey {
    pub(crate) fn of_entries(fetch: Fetch) -> ReturnKey {
        ReturnKey { input: Input::Entries(Box::new(fetch)), tally: Tally::default() }
    }

    pub(crate) fn of_record(input: Box<dyn Operator>) -> ReturnKey {
        ReturnKey { input: Input::ById(input), tally: Tally::default() }
    }

    pub(crate) fn without_index(input: Box<dyn Operator>) -> ReturnKey {
        ReturnKey { input: Input::WithoutIndex(input), tally: Tally::default() }
    }

    fn input(&self) -> &dyn Operator {
        match &self.input {
            Input::Entries(fetch) => fetch.as_ref(),
            Input::ById(input) | Input::WithoutIndex(input) => input.as_ref(),
        }
    }

    fn input_mut(&mut self) -> &mut dyn Operator {
        match &mut self.input {
            Input::Entries(fetch) => fetch.as_mut(),
            Input::ById(input) | Input::WithoutIndex(input) => input.as_mut(),
        }
    }
}

impl Operator for ReturnKey {
    fn next(&mut self, run: &mut Run<'_>) -> Result<Option<Row>> {
        let Some(mut row) = self.input_mut().next(run)? else { return Ok(self.tally.answer(None)) };
        row.document = match &self.input {
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
            Input::WithoutIndex(_) => DocBuf::new(),
        };
        Ok(self.tally.answer(Some(row)))
    }

    fn suspend(&mut self, run: &mut Run<'_>) {
        self.input_mut().suspend(run);
    }

    fn is_done(&self) -> bool {
        self.input().is_done()
    }

    fn explain(&self, detail: Detail) -> DocBuf {
        StageDoc::new("RETURN_KEY", detail).tally(&self.tally).input(self.input().explain(detail))
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
