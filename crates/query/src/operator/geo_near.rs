//! GEO_NEAR_2DSPHERE, GEO_NEAR_2D: documents by their distance, ring by ring around the point.
//!
//! A ring's documents are read through the index, sorted in memory and returned before the next ring is read, so that
//! a limit reads no more than it needs. The cover of a ring holds more than the ring: nearer documents were returned
//! before, farther ones are found again. A ring without much in it is followed by a wider one; one with too much is
//! restarted, narrower.
//!
//! N1: a document whose nearest place is at distance `d` is found by the ring around `d`, since the cell of that place
//! intersects the ring; it is returned there and nowhere else.

use std::sync::Arc;
use std::vec::IntoIter;

use arbor_bson::{Doc, DocBuf};
use arbor_lang::{Filter, MetaKind, Metadata};

use super::fetch::record_of_entry;
use super::{Detail, IndexScan, Operator, Row, Run, Slot, StageDoc, Tally};
use crate::Result;
use crate::explain::filter_doc;
use crate::plan::NearAccess;

/// Rows of one ring, unless it cannot be narrower.
const RING_ROWS_MAX: usize = 4096;
const RING_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Below this the next ring is wider, above it narrower.
const RING_ROWS_FEW: usize = 64;
const RING_ROWS_MANY: usize = 1024;
/// Rings that explain shows.
const RINGS_SHOWN: usize = 32;

pub(crate) struct GeoNear {
    slot: Slot,
    access: Box<NearAccess>,
    filter: Option<Filter>,
    /// Everything nearer was returned.
    done: f64,
    width: f64,
    ended: bool,
    ready: IntoIter<Found>,
    examined: u64,
    scans: Vec<DocBuf>,
    tally: Tally,
}

struct Found {
    distance: f64,
    row: Row,
}

impl GeoNear {
    pub(crate) fn new(slot: Slot, access: Box<NearAccess>, filter: Option<Filter>) -> GeoNear {
        let (done, width) = (access.near.min, access.first_width);
        GeoNear {
            slot,
            access,
            filter,
            done,
            width,
            ended: false,
            ready: Vec::new().into_iter(),
            examined: 0,
            scans: Vec::new(),
            tally: Tally::default(),
        }
    }

    /// Reads the next ring.
    fn look(&mut self, run: &mut Run<'_>) -> Result<()> {
        run.interrupt.check()?;
        let farthest = self.access.farthest();
        let far = (self.done + self.width).min(farthest);
        let is_last = far >= farthest;
        let Some(mut found) = self.ring(run, far, is_last)? else {
            self.width /= 4.0;
            return Ok(());
        };
        found.sort_by(|a, b| a.distance.total_cmp(&b.distance).then_with(|| a.row.id_key.cmp(&b.row.id_key)));
        match found.len() {
            0 => self.width *= 4.0,
            few if few < RING_ROWS_FEW => self.width *= 2.0,
            many if many > RING_ROWS_MANY => self.width /= 2.0,
            _ => {}
        }
        self.ready = found.into_iter();
        self.done = far;
        self.ended = is_last;
        Ok(())
    }

    /// The documents between what is done and `far`. None: they are too many.
    fn ring(&mut self, run: &mut Run<'_>, far: f64, is_last: bool) -> Result<Option<Vec<Found>>> {
        let Some(access) = self.access.ring(self.done, far) else { return Ok(Some(Vec::new())) };
        let mut scan = IndexScan::new(self.slot, access);
        let (mut found, mut bytes) = (Vec::new(), 0);
        let may_shrink = self.width > self.access.width_min();
        while scan.advance(run)? {
            self.examined += 1;
            run.examined.documents += 1;
            self.tally.passed_over();
            let record = record_of_entry(&scan, run)?;
            let doc = Doc::trusted(&record);
            let Some(place) = self.access.near.find(doc) else { continue };
            let distance = place.distance;
            let inside = distance >= self.done && (distance < far || (is_last && distance <= far));
            if !inside || !self.filter.as_ref().map_or(Ok(true), |filter| filter.matches(doc))? {
                continue;
            }
            let known = Metadata::new()
                .with(MetaKind::GeoNearDistance, distance)
                .with(MetaKind::GeoNearPoint, place.place.as_ref());
            let document = DocBuf::from_trusted(record.into_owned());
            let id_key = scan.entry(run).map(|entry| entry.id_key().to_vec()).unwrap_or_default();
            let row = Row { metadata: Some(Arc::new(known)), ..Row::stored(document, id_key) };
            bytes += row.bytes();
            found.push(Found { distance, row });
            if may_shrink && (found.len() > RING_ROWS_MAX || bytes > RING_BYTES_MAX) {
                return Ok(None);
            }
        }
        if self.scans.len() < RINGS_SHOWN {
            self.scans.push(scan.explain("IXSCAN", Detail::Execution));
        }
        Ok(Some(found))
    }

    /// Returns MongoDB's name of the stage.
    fn stage_name(&self) -> &'static str {
        match self.access.shape.geo.as_ref().and_then(|geo| geo.grid.as_ref()) {
            Some(_) => "GEO_NEAR_2D",
            None => "GEO_NEAR_2DSPHERE",
        }
    }
}

impl Operator for GeoNear {
    fn next(&mut self, run: &mut Run<'_>) -> Result<Option<Row>> {
        loop {
            if let Some(found) = self.ready.next() {
                return Ok(self.tally.answer(Some(found.row)));
            }
            if self.ended || self.done > self.access.farthest() {
                self.ended = true;
                return Ok(self.tally.answer(None));
            }
            self.look(run)?;
        }
    }

    /// Rings are read whole: between two calls there is nothing open.
    fn suspend(&mut self, _run: &mut Run<'_>) {}

    fn is_done(&self) -> bool {
        self.ended && self.ready.len() == 0
    }

    fn explain(&self, detail: Detail) -> DocBuf {
        let filter = self.filter.as_ref().map(filter_doc::of_filter);
        let stage = StageDoc::new(self.stage_name(), detail)
            .with_some("filter", filter.as_ref())
            .tally(&self.tally)
            .with("keyPattern", &self.access.shape.key_pattern())
            .with("indexName", &self.access.shape.name)
            .with("indexVersion", 2i32)
            .counter("docsExamined", self.examined);
        match (detail, self.scans.is_empty()) {
            (Detail::Execution, false) => stage.inputs(self.scans.iter().cloned()),
            _ => match self.access.ring(self.done, self.done + self.width) {
                Some(first) => stage.inputs([IndexScan::new(self.slot, first).explain("IXSCAN", detail)]),
                None => stage.finish(),
            },
        }
    }
}
