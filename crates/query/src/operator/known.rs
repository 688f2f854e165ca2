//! Metadata of a found document for `$meta`, other than scores and distances: its sort key, and the key of its record.

use std::sync::Arc;

use arbor_bson::{ArrayBuf, DocBuf, ValueRef};
use arbor_lang::{MetaKind, SortPattern};

use super::{Detail, Operator, Row, Run};
use crate::Result;

pub(crate) struct Known {
    input: Box<dyn Operator>,
    /// The order whose values are requested.
    sort: Option<SortPattern>,
    record_id: bool,
}

impl Known {
    pub(crate) fn new(input: Box<dyn Operator>, sort: Option<SortPattern>, record_id: bool) -> Known {
        Known { input, sort, record_id }
    }
}

impl Operator for Known {
    fn next(&mut self, run: &mut Run<'_>) -> Result<Option<Row>> {
        let Some(mut row) = self.input.next(run)? else { return Ok(None) };
        let mut known = row.metadata.as_deref().cloned().unwrap_or_default();
        if let Some(sort) = &self.sort {
            let value = |kind: Option<MetaKind>, by_path| match kind {
                Some(kind) => row.input().meta(kind).unwrap_or(ValueRef::Null),
                None => by_path,
            };
            let doc = row.document.as_doc();
            let key: ArrayBuf =
                sort.parts().iter().map(|part| value(part.meta, part.value(doc, sort.collation()))).collect();
            known = known.with(MetaKind::SortKey, &key);
        }
        if self.record_id {
            known = known.with(MetaKind::RecordId, ValueRef::Binary { subtype: 0, bytes: &row.id_key });
        }
        row.metadata = Some(Arc::new(known));
        Ok(Some(row))
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
        self.input.explain(detail)
    }
}
