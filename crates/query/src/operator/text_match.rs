//! TEXT_MATCH: the documents of a text search, in the order of their keys.
//!
//! The entries of each term are in the order of the records, so the scans of all terms are merged: a document comes once,
//! with the sum of its scores, and nothing is held but one entry per term. A search of very many terms reads them one after
//! the other instead and holds the scores of all documents, up to a limit.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;
use std::vec::IntoIter;

use arbor_bson::{ArrayBuf, Doc, DocBuf};
use arbor_lang::{Code, Filter, Input, MetaKind, Metadata};
use arbor_store::{IndexCursor, text_score};

use super::run::EntryCursor;
use super::{Detail, IndexScan, Operator, Row, Run, Slot, StageDoc, Tally};
use crate::explain::filter_doc;
use crate::plan::{IndexSource, Slots, TextAccess};
use crate::{Error, Result};

/// Scans that are merged.
const SCANS_MAX: usize = 128;
/// Memory of the scores of a search that is not merged. COMPAT: that of MongoDB's TEXT_OR.
const BYTES_MAX: usize = 100 << 20;
/// Memory of one score in addition to the record's key.
const SCORE_BYTES: usize = 64;

pub(crate) struct TextMatch {
    access: Box<TextAccess>,
    filter: Option<Filter>,
    postings: Postings,
    examined: u64,
    rejected: u64,
    tally: Tally,
}

/// Keys of records with their scores.
enum Postings {
    Merged(Merged),
    /// To be read one term after the other.
    Many,
    Collected(IntoIter<(Vec<u8>, f64)>),
}

struct Merged {
    scans: Vec<IndexScan>,
    /// The next entry of each scan: key of the record, number of the scan, score.
    heads: BinaryHeap<Reverse<(Vec<u8>, usize, u64)>>,
    /// Scans whose first entry is in the heap.
    begun: usize,
}

impl TextMatch {
    pub(crate) fn new(access: Box<TextAccess>, filter: Option<Filter>, slots: &mut Slots) -> TextMatch {
        let postings = match access.spans.len() {
            0..=SCANS_MAX => {
                let scan = |span| IndexScan::new(slots.allot(), access.scan(span));
                Postings::Merged(Merged {
                    scans: access.spans.iter().map(scan).collect(),
                    heads: BinaryHeap::new(),
                    begun: 0,
                })
            }
            _ => Postings::Many,
        };
        TextMatch { access, filter, postings, examined: 0, rejected: 0, tally: Tally::default() }
    }

    fn next_posting(&mut self, run: &mut Run<'_>) -> Result<Option<(Vec<u8>, f64)>> {
        if matches!(self.postings, Postings::Many) {
            self.postings = Postings::Collected(collect(&self.access, run)?);
        }
        match &mut self.postings {
            Postings::Merged(merged) => merged.next(run),
            Postings::Collected(scores) => Ok(scores.next()),
            Postings::Many => Ok(None),
        }
    }

    /// The row of a record, if it matches.
    fn row(&mut self, id_key: Vec<u8>, score: f64, run: &mut Run<'_>) -> Result<Option<Row>> {
        let collection = run.collection()?;
        self.examined += 1;
        run.examined.documents += 1;
        let record = arbor_store::record(run.view, collection, &id_key)?.ok_or_else(|| {
            let place = format!("index {} of {}", self.access.shape.name, collection.namespace);
            Error::Store(arbor_store::Error::Corrupt { place, reason: "an entry has no document".to_owned() })
        })?;
        let doc = Doc::trusted(&record);
        let metadata = self.access.scored.then(|| Arc::new(Metadata::new().with(MetaKind::TextScore, score)));
        let input = Input::new(doc, metadata.as_deref());
        if !self.filter.as_ref().map_or(Ok(true), |filter| filter.matches(input))? {
            return Ok(None);
        }
        if !self.access.matcher.verify(doc)? {
            self.rejected += 1;
            return Ok(None);
        }
        Ok(Some(Row { document: DocBuf::from_trusted(record.into_owned()), id_key, metadata }))
    }

    fn scans(&self, detail: Detail) -> Vec<DocBuf> {
        match &self.postings {
            Postings::Merged(merged) => merged.scans.iter().map(|scan| scan.explain("IXSCAN", detail)).collect(),
            _ => {
                let first = self.access.spans.iter().take(SCANS_MAX);
                first.map(|span| IndexScan::new(Slot(0), self.access.scan(span)).explain("IXSCAN", detail)).collect()
            }
        }
    }

    fn parsed(&self) -> DocBuf {
        let query = self.access.matcher.query();
        let list = |texts: &[String]| texts.iter().collect::<ArrayBuf>();
        DocBuf::new()
            .with("terms", &list(&query.terms))
            .with("negatedTerms", &list(&query.negated_terms))
            .with("phrases", &list(&query.phrases))
            .with("negatedPhrases", &list(&query.negated_phrases))
    }

    /// Returns the stage that finds the documents: TEXT_OR with scores, FETCH without.
    fn fetched(&self, detail: Detail) -> DocBuf {
        let name = if self.access.scored { "TEXT_OR" } else { "FETCH" };
        let stage = StageDoc::new(name, detail)
            .with_some("filter", self.filter.as_ref().map(filter_doc::of_filter).as_ref())
            .counter("docsExamined", self.examined);
        let mut scans = self.scans(detail);
        match (self.access.scored, scans.len()) {
            (true, _) => stage.inputs(scans),
            (false, 1) => stage.input(scans.remove(0)),
            (false, _) => stage.input(StageDoc::new("OR", detail).inputs(scans)),
        }
    }
}

impl Merged {
    fn next(&mut self, run: &mut Run<'_>) -> Result<Option<(Vec<u8>, f64)>> {
        while self.begun < self.scans.len() {
            self.advance(self.begun, run)?;
            self.begun += 1;
        }
        let Some((id_key, mut score)) = self.pop(run)? else { return Ok(None) };
        while self.heads.peek().is_some_and(|Reverse((next, ..))| *next == id_key) {
            score += self.pop(run)?.map_or(0.0, |(_, score)| score);
        }
        Ok(Some((id_key, score)))
    }

    /// The first entry of all; its scan moves on.
    fn pop(&mut self, run: &mut Run<'_>) -> Result<Option<(Vec<u8>, f64)>> {
        let Some(Reverse((id_key, scan, score))) = self.heads.pop() else { return Ok(None) };
        self.advance(scan, run)?;
        Ok(Some((id_key, f64::from_bits(score))))
    }

    fn advance(&mut self, number: usize, run: &mut Run<'_>) -> Result<()> {
        let Some(scan) = self.scans.get_mut(number) else { return Ok(()) };
        if scan.advance(run)?
            && let Some(EntryCursor::Index(entry)) = scan.entry(run)
        {
            let score = text_score(entry.type_bits()).to_bits();
            self.heads.push(Reverse((entry.id_key().to_vec(), number, score)));
        }
        Ok(())
    }
}

/// The scores of all documents that have one of the terms, in order of their keys. The terms are in the order of the index,
/// so one cursor goes forward through it and passes over terms that it does not have.
fn collect(access: &TextAccess, run: &mut Run<'_>) -> Result<IntoIter<(Vec<u8>, f64)>> {
    let index = match access.shape.source {
        IndexSource::Secondary(at) => run.collection()?.indexes.get(at),
        _ => None,
    };
    let index = index.ok_or_else(|| Error::internal("a search in an index that does not exist"))?;
    let mut cursor = IndexCursor::new(run.view, index)?;
    let (mut begin, mut found) = (true, true);
    let mut scores = Scores::default();
    for span in &access.spans {
        run.tick()?;
        if begin || cursor.position() < span.low.as_slice() {
            found = cursor.seek(&span.low)?;
            begin = false;
        }
        while found && span.high.as_deref().is_none_or(|high| cursor.position() < high) {
            run.tick()?;
            run.examined.keys += 1;
            scores.add(cursor.id_key(), text_score(cursor.type_bits()))?;
            found = cursor.next()?;
        }
        if !found {
            break;
        }
    }
    Ok(scores.into_sorted())
}

#[derive(Default)]
struct Scores {
    by_key: HashMap<Vec<u8>, f64>,
    bytes: usize,
}

impl Scores {
    fn add(&mut self, id_key: &[u8], score: f64) -> Result<()> {
        if let Some(own) = self.by_key.get_mut(id_key) {
            *own += score;
            return Ok(());
        }
        self.bytes += id_key.len() + SCORE_BYTES;
        self.by_key.insert(id_key.to_vec(), score);
        if self.bytes > BYTES_MAX {
            let message = format!("Exceeded memory limit of {BYTES_MAX} bytes for a $text search of very many terms");
            return Err(Error::new(Code::QUERY_EXCEEDED_MEMORY_LIMIT_NO_DISK_USE_ALLOWED, message));
        }
        Ok(())
    }

    fn into_sorted(self) -> IntoIter<(Vec<u8>, f64)> {
        let mut scores: Vec<(Vec<u8>, f64)> = self.by_key.into_iter().collect();
        scores.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        scores.into_iter()
    }
}

impl Operator for TextMatch {
    fn next(&mut self, run: &mut Run<'_>) -> Result<Option<Row>> {
        loop {
            run.tick()?;
            let Some((id_key, score)) = self.next_posting(run)? else { return Ok(self.tally.answer(None)) };
            if let Some(row) = self.row(id_key, score, run)? {
                return Ok(self.tally.answer(Some(row)));
            }
            self.tally.passed_over();
        }
    }

    fn suspend(&mut self, run: &mut Run<'_>) {
        if let Postings::Merged(merged) = &mut self.postings {
            merged.scans.iter_mut().for_each(|scan| scan.suspend(run));
        }
    }

    fn explain(&self, detail: Detail) -> DocBuf {
        StageDoc::new("TEXT_MATCH", detail)
            .tally(&self.tally)
            .with("indexPrefix", &self.access.prefix)
            .with("indexName", &self.access.shape.name)
            .with("parsedTextQuery", &self.parsed())
            .with("textIndexVersion", 3i32)
            .counter("docsRejected", self.rejected)
            .input(self.fetched(detail))
    }
}
