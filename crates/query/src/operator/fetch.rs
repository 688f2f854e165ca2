//! FETCH: the documents of index entries, filtered by what the bounds do not say. Entries of a clustering index hold their
//! documents: nothing is fetched, and explain shows the scan alone.

use std::borrow::Cow;

use arbor_bson::{Doc, DocBuf};
use arbor_lang::Filter;

use super::run::EntryCursor;
use super::{Detail, Entries, IndexScan, Operator, Row, Run, StageDoc, Tally};
use crate::explain::filter_doc;
use crate::plan::IndexSource;
use crate::{Error, Result};

pub(crate) struct Fetch {
    entries: Entries,
    filter: Option<Filter>,
    examined: u64,
    tally: Tally,
}

impl Fetch {
    pub(crate) fn new(entries: Entries, filter: Option<Filter>) -> Fetch {
        Fetch { entries, filter, examined: 0, tally: Tally::default() }
    }

    /// The scan whose entry gave the last row.
    pub(crate) fn scan(&self) -> Result<&IndexScan> {
        self.entries.scan()
    }
}

impl Operator for Fetch {
    fn next(&mut self, run: &mut Run<'_>) -> Result<Option<Row>> {
        while self.entries.advance(run)? {
            let scan = self.entries.scan()?;
            let shape = &scan.access().shape;
            if !shape.clustering || shape.source == IndexSource::Records {
                self.examined += 1;
                run.examined.documents += 1;
            }
            let record = record_of_entry(scan, run)?;
            let bytes = record.len();
            if self.filter.as_ref().map_or(Ok(true), |filter| filter.matches(Doc::trusted(&record)))? {
                let document = DocBuf::from_trusted(record.into_owned());
                let id_key = scan.entry(run).map(|entry| entry.id_key().to_vec()).unwrap_or_default();
                run.tick_for(bytes)?;
                return Ok(self.tally.answer(Some(Row::stored(document, id_key))));
            }
            run.tick_for(bytes)?;
            self.tally.passed_over();
        }
        Ok(self.tally.answer(None))
    }

    fn suspend(&mut self, run: &mut Run<'_>) {
        self.entries.suspend(run);
    }

    fn is_done(&self) -> bool {
        self.entries.is_done()
    }

    fn can_change_snapshot(&self) -> bool {
        matches!(self.entries, Entries::Scan(_))
    }

    fn explain(&self, detail: Detail) -> DocBuf {
        let filter = self.filter.as_ref().map(filter_doc::of_filter);
        if let Entries::Scan(scan) = &self.entries
            && scan.access().shape.clustering
        {
            return match scan.access().shape.source {
                IndexSource::Records => scan.explain_clustered(detail, filter.as_ref(), &self.tally, self.examined),
                _ => scan.explain_alone(detail, filter.as_ref(), &self.tally),
            };
        }
        StageDoc::new("FETCH", detail)
            .with_some("filter", filter.as_ref())
            .tally(&self.tally)
            .counter("docsExamined", self.examined)
            .input(self.entries.explain(detail))
    }
}

/// Returns the document of the scan's current entry.
pub(super) fn record_of_entry<'r>(scan: &IndexScan, run: &'r mut Run<'_>) -> Result<Cow<'r, [u8]>> {
    let (view, collection) = (run.view, run.collection()?);
    let Some(entry) = scan.entry(run) else { return Err(Error::internal("an index scan has no current entry")) };
    let entry: &'r EntryCursor<'_> = entry;
    let held = match entry {
        EntryCursor::Records(records) => Some(records.doc()),
        EntryCursor::Order(records) => Some(records.doc()),
        EntryCursor::Index(entries) => entries.document(),
    };
    if let Some(doc) = held {
        return Ok(Cow::Borrowed(doc.as_bytes()));
    }
    arbor_store::record(view, collection, entry.id_key())?.ok_or_else(|| {
        let place = format!("index {} of {}", scan.access().shape.name, collection.namespace);
        Error::Store(arbor_store::Error::Corrupt { place, reason: "an entry has no document".to_owned() })
    })
}
