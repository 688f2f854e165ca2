//! IXSCAN: the entries of one index inside bounds, in either direction.
//!
//! Not an operator of its own: [`super::Fetch`], [`super::Covered`], [`super::CountScan`] and [`super::DistinctScan`]
//! each own one and read the entry in place.

use std::collections::HashSet;

use arbor_bson::{ArrayBuf, DocBuf};
use arbor_lang::Collation;

use super::place::Walk;
use super::run::EntryCursor;
use super::{Detail, Run, Slot, StageDoc, Tally};
use crate::Result;
use crate::plan::{IndexAccess, KeyBounds, ScanRange, Span, Verdict, WILDCARD_PATH};

pub(crate) struct IndexScan {
    access: IndexAccess,
    walk: Walk,
    bounds: Bounds,
    /// Documents returned so far, when one may have several keys inside the bounds.
    seen: Option<HashSet<Vec<u8>>>,
    /// Target of the next step, if it is not the next entry.
    skip: Option<Vec<u8>>,
    keys_examined: u64,
    seeks: u64,
    dropped: u64,
    tally: Tally,
}

enum Bounds {
    /// One range of keys: no look into the keys is needed.
    Range(Span),
    Components {
        bounds: KeyBounds,
        low: Vec<u8>,
        high: Option<Vec<u8>>,
    },
}

impl IndexScan {
    pub(crate) fn new(slot: Slot, access: IndexAccess) -> IndexScan {
        let bounds = match &access.range {
            ScanRange::Keys(span) => Bounds::Range(span.clone()),
            ScanRange::Components(bounds) => match bounds.contiguous() {
                Some(span) => Bounds::Range(span),
                None => Bounds::Components { low: bounds.first(), high: bounds.end(), bounds: bounds.clone() },
            },
        };
        let single = matches!(&bounds, Bounds::Range(span) if span.point);
        let seen = (access.shape.is_multikey() && !single).then(HashSet::new);
        let walk = Walk::new(slot, access.shape.source, access.direction);
        IndexScan {
            access,
            walk,
            bounds,
            seen,
            skip: None,
            keys_examined: 0,
            seeks: 0,
            dropped: 0,
            tally: Tally::default(),
        }
    }

    /// Notes how many entries are likely read, if it is known.
    pub(crate) fn expecting(mut self, rows: Option<u64>) -> IndexScan {
        self.walk.expect_rows(rows);
        self
    }

    pub(crate) fn access(&self) -> &IndexAccess {
        &self.access
    }

    /// Moves to the next entry; returns false if there is none.
    pub(crate) fn advance(&mut self, run: &mut Run<'_>) -> Result<bool> {
        while self.advance_to_key(run)? {
            let Some(seen) = &mut self.seen else { return Ok(self.found(true)) };
            let id_key = self.walk.entry(run).map(|entry| entry.id_key().to_vec()).unwrap_or_default();
            if seen.insert(id_key) {
                return Ok(self.found(true));
            }
            self.dropped += 1;
            self.tally.passed_over();
        }
        Ok(self.found(false))
    }

    fn found(&mut self, found: bool) -> bool {
        self.tally.answer(found.then_some(())).is_some()
    }

    fn advance_to_key(&mut self, run: &mut Run<'_>) -> Result<bool> {
        run.tick()?;
        let backward = self.access.direction.is_backward();
        let (low, high) = match &self.bounds {
            Bounds::Range(span) => (&span.low, span.high.as_deref()),
            Bounds::Components { low, high, .. } => (low, high.as_deref()),
        };
        let mut found = match self.skip.take() {
            Some(target) => self.walk.seek(run, &target)?,
            None => self.walk.step(run, low, high)?,
        };
        while found {
            let Some(entry) = self.walk.entry(run) else { return Ok(false) };
            let verdict = match &self.bounds {
                Bounds::Range(span) => in_range(span, entry.position(), backward),
                Bounds::Components { bounds, .. } => bounds.check(entry.position(), backward),
            };
            // COMPAT: the key after the end of a plain range is not counted, since MongoDB stops the cursor before it
            if !matches!((&verdict, &self.bounds), (Verdict::Done, Bounds::Range(_))) {
                self.keys_examined += 1;
                run.examined.keys += 1;
            }
            match verdict {
                Verdict::Inside => return Ok(true),
                Verdict::Done => {
                    self.walk.end();
                    return Ok(false);
                }
                Verdict::Seek(target) => {
                    self.seeks += 1;
                    self.tally.passed_over();
                    run.tick()?;
                    found = self.walk.seek(run, &target)?;
                }
            }
        }
        Ok(false)
    }

    /// The next entry is looked for at or after this key; None: there is none. Forward scans only.
    pub(crate) fn skip_to(&mut self, target: Option<Vec<u8>>) {
        match target {
            Some(_) => self.skip = target,
            None => self.walk.end(),
        }
    }

    pub(crate) fn entry<'r, 'v>(&self, run: &'r mut Run<'v>) -> Option<&'r mut EntryCursor<'v>> {
        self.walk.entry(run)
    }

    /// On the entry that was found last, in a new run.
    pub(crate) fn reposition(&mut self, run: &mut Run<'_>) -> Result<()> {
        self.walk.reposition(run)
    }

    pub(crate) fn suspend(&mut self, run: &mut Run<'_>) {
        self.walk.suspend(run);
    }

    pub(crate) fn is_done(&self) -> bool {
        self.walk.is_ended()
    }

    /// `stage`: IXSCAN, or COUNT_SCAN.
    pub(crate) fn explain(&self, stage: &str, detail: Detail) -> DocBuf {
        self.stage_doc(stage, detail, None, &self.tally)
    }

    /// Explains a clustering index, whose documents are filtered where they are found.
    pub(crate) fn explain_alone(&self, detail: Detail, filter: Option<&DocBuf>, tally: &Tally) -> DocBuf {
        self.stage_doc("IXSCAN", detail, filter, tally)
    }

    /// Explains the records of a clustered collection, from the lowest to the highest `_id`.
    pub(crate) fn explain_clustered(
        &self,
        detail: Detail,
        filter: Option<&DocBuf>,
        tally: &Tally,
        examined: u64,
    ) -> DocBuf {
        let bounds = self.access.intervals.first().filter(|bounds| !bounds.is_full());
        let ends = bounds.and_then(|bounds| Some((bounds.as_slice().first()?, bounds.as_slice().last()?)));
        StageDoc::new("CLUSTERED_IXSCAN", detail)
            .with_some("filter", filter)
            .tally(tally)
            .with("direction", self.access.direction.name())
            .with_some("minRecord", ends.map(|(lowest, _)| lowest.low.value.as_ref()))
            .with_some("maxRecord", ends.map(|(_, highest)| highest.high.value.as_ref()))
            .counter("docsExamined", examined)
            .finish()
    }

    fn stage_doc(&self, stage: &str, detail: Detail, filter: Option<&DocBuf>, tally: &Tally) -> DocBuf {
        let shape = &self.access.shape;
        let mut multikey_paths = DocBuf::new();
        for part in &shape.parts {
            multikey_paths.append(&part.path, &part.array_paths());
        }
        let collation = (!shape.collation.is_simple()).then(|| shape.collation.to_doc());
        let mut stage = StageDoc::new(stage, detail)
            .with_some("filter", filter)
            .tally(tally)
            .with("keyPattern", &shape.key_pattern())
            .with("indexName", &shape.name)
            .with_some("collation", collation.as_ref())
            .with("isMultiKey", shape.is_multikey())
            .with("multiKeyPaths", &multikey_paths)
            .with("isUnique", shape.unique)
            .with("isSparse", shape.sparse)
            .with("isPartial", shape.partial.is_some())
            .with_some("isClustering", shape.clustering.then_some(true))
            .with("indexVersion", 2i32)
            .with("direction", self.access.direction.name())
            .with("indexBounds", &self.bounds_doc())
            .counter("keysExamined", self.keys_examined)
            .counter("seeks", self.seeks + 1);
        if self.seen.is_some() {
            stage =
                stage.counter("dupsTested", self.tally.advanced + self.dropped).counter("dupsDropped", self.dropped);
        }
        stage.finish()
    }

    fn bounds_doc(&self) -> DocBuf {
        let mut doc = DocBuf::new();
        let backward = self.access.direction.is_backward();
        let shape = &self.access.shape;
        let simple = Collation::simple();
        for (part, intervals) in shape.parts.iter().zip(&self.access.intervals) {
            // the direction in which the values of this component are visited
            let collation = if part.path == WILDCARD_PATH { &simple } else { &shape.collation };
            let texts: ArrayBuf = intervals.texts(backward != part.descending, collation).iter().collect();
            doc.append(&part.path, &texts);
        }
        doc
    }
}

fn in_range(span: &Span, key: &[u8], backward: bool) -> Verdict {
    let inside = match backward {
        true => key >= span.low.as_slice(),
        false => span.high.as_deref().is_none_or(|high| key < high),
    };
    if inside { Verdict::Inside } else { Verdict::Done }
}
