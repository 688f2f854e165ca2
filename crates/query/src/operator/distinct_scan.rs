//! DISTINCT_SCAN: one entry for each value of an index's first component; the entries between are skipped.

use arbor_bson::keystring::{Decoder, component_len, successor};
use arbor_bson::{Doc, DocBuf, Value};
use arbor_lang::path::Path;

use super::fetch::record_of_entry;
use super::run::EntryCursor;
use super::{Detail, IndexScan, Run};
use crate::{Error, Result};

pub(crate) struct DistinctScan {
    scan: IndexScan,
    descending: bool,
    path: Path,
}

impl DistinctScan {
    pub(crate) fn new(scan: IndexScan) -> DistinctScan {
        let first = scan.access().shape.parts.first();
        let descending = first.is_some_and(|part| part.descending);
        let path = Path::new(first.map_or("", |part| part.path.as_str()));
        DistinctScan { scan, descending, path }
    }

    /// The next value.
    pub(crate) fn next(&mut self, run: &mut Run<'_>) -> Result<Option<Value>> {
        while self.scan.advance(run)? {
            let Some(EntryCursor::Index(entry)) = self.scan.entry(run) else { return Ok(None) };
            let key = entry.key();
            let unreadable = |error| Error::internal(format!("an index key does not decode: {error}"));
            let value = Decoder::new(key, entry.type_bits()).next(self.descending).map_err(unreadable)?;
            let length = component_len(key, self.descending).map_err(unreadable)?;
            let behind = key.get(..length).and_then(successor);
            if self.is_present(&value, run)? {
                self.scan.skip_to(behind);
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    /// Returns true if the value exists: null may also be the key of a missing field.
    fn is_present(&self, value: &Value, run: &mut Run<'_>) -> Result<bool> {
        if !matches!(value, Value::Null | Value::Undefined) {
            return Ok(true);
        }
        run.examined.documents += 1;
        let record = record_of_entry(&self.scan, run)?;
        Ok(self.path.get_strict(Doc::trusted(&record)).is_some())
    }

    pub(crate) fn explain(&self, detail: Detail) -> DocBuf {
        self.scan.explain("DISTINCT_SCAN", detail)
    }
}
