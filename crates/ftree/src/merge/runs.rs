//! Cutting runs: at the bounds of the slots that receive them, and by size.
//!
//! A run is cut at a slot's end once it holds `run_bytes`; what slots get less than that share a run with their neighbours. So a
//! slot gets one run, unless it gets much: a run is cut inside of a slot, between two keys, once it holds eight times
//! `run_bytes`, so that no job has to hold more than that.
//!
//! - (C1) The runs of one job are disjoint, range tombstones included: a tombstone that reaches over a cut is cut there too.
//!   (A reader ends at the first tombstone it finds; one with a lower number must not come before a newer row of another run.)

use std::ops::Range;

use arbor_base::sometimes;

use super::large_values::LargeValues;
use super::rewrite::{Output, Rewrite};
use super::{Fragments, Sink};
use crate::block::Block;
use crate::key_index::KeyIndex;
use crate::table::TableWriter;
use crate::{Entry, RangeTombstone, Result};

/// A run is cut inside of a slot when it holds this many times `run_bytes`.
pub const RUN_MAX: u64 = 8;

/// Takes messages and writes runs.
pub(super) struct Runs<'a> {
    job: &'a Rewrite<'a>,
    large_values: LargeValues<'a>,
    level: u8,
    pivots: &'a KeyIndex,
    /// The tombstones that move on with the messages.
    carried: &'a Fragments,
    writer: Option<TableWriter<'a>>,
    /// Slots and bytes of the run in progress before the current slot.
    slots: Vec<(usize, u64)>,
    /// Begin of the current slot in the run in progress.
    slot_begin: u64,
    tombstone_bytes: u64,
    slot: usize,
    /// The last cut in the current slot.
    slot_from: Option<Vec<u8>>,
    /// Like `slot_from`, but of the run in progress.
    run_from: Option<Vec<u8>>,
    run_bytes_max: u64,
    outputs: Vec<Output>,
}

impl<'a> Runs<'a> {
    pub(super) fn new(job: &'a Rewrite<'a>, level: u8, pivots: &'a KeyIndex, carried: &'a Fragments) -> Runs<'a> {
        Runs {
            job,
            large_values: LargeValues::of(job),
            level,
            pivots,
            carried,
            writer: None,
            slots: Vec::new(),
            slot_begin: 0,
            tombstone_bytes: 0,
            slot: pivots.upper_bound(job.from),
            slot_from: None,
            run_from: None,
            run_bytes_max: u64::from(job.settings.run_bytes) * RUN_MAX,
            outputs: Vec::new(),
        }
    }

    pub(super) fn finish(mut self) -> Result<Vec<Output>> {
        let last = self.job.to.map_or(self.pivots.len(), |to| self.pivots.lower_bound(to));
        self.go_to(last)?;
        self.end_slot()?;
        self.end_run()?;
        debug_assert!(self.outputs.is_sorted_by(Output::precedes), "C1: the runs of a job are disjoint");
        let has_slots = |output: &Output| output.slots.is_sorted_by(|one, next| one.0 < next.0);
        debug_assert!(self.outputs.iter().all(has_slots), "a run counts once for each slot");
        Ok(self.outputs)
    }

    /// Ends all slots before this one.
    fn go_to(&mut self, slot: usize) -> Result<()> {
        while self.slot < slot {
            self.end_slot()?;
            self.slot_from = None;
            self.slot = if self.carried.is_empty() { slot } else { self.slot + 1 };
        }
        Ok(())
    }

    /// The bounds of the current slot.
    fn bounds(&self) -> (&'a [u8], Option<&'a [u8]>) {
        let from = self.slot.checked_sub(1).map_or(self.job.from, |before| self.pivots.key(before));
        let to = if self.slot < self.pivots.len() { Some(self.pivots.key(self.slot)) } else { self.job.to };
        (from, to)
    }

    fn end_slot(&mut self) -> Result<()> {
        let end = self.end_part(None);
        if end >= u64::from(self.job.settings.run_bytes) { self.end_run() } else { Ok(()) }
    }

    /// Cuts inside of the slot, before the key.
    #[cold]
    fn cut_slot(&mut self, key: &[u8]) -> Result<()> {
        sometimes!("ftree: a run is cut inside of a slot");
        self.end_part(Some(key));
        self.end_run()?;
        (self.slot_from, self.run_from) = (Some(key.to_vec()), Some(key.to_vec()));
        Ok(())
    }

    /// The run in progress has what it gets of the slot up to `before`, or to the slot's end. Returns what it holds now.
    fn end_part(&mut self, before: Option<&[u8]>) -> u64 {
        if !self.carried.is_empty() {
            let (from, to) = self.bounds();
            let cut = self.slot_from.take();
            for tombstone in self.carried.within(cut.as_deref().unwrap_or(from), before.or(to)) {
                debug_assert!(tombstone.to.as_ref().is_none_or(|to| tombstone.from < *to), "C1: {tombstone:?}");
                self.tombstone_bytes += weight(&tombstone);
                self.writer().tombstone(tombstone);
            }
        }
        let Some(writer) = &self.writer else { return 0 };
        let end = writer.raw_bytes() + self.tombstone_bytes;
        if end > self.slot_begin {
            self.slots.push((self.slot, end - self.slot_begin));
            self.slot_begin = end;
        }
        end
    }

    fn end_run(&mut self) -> Result<()> {
        let Some(writer) = self.writer.take() else { return Ok(()) };
        let slots = std::mem::take(&mut self.slots);
        (self.slot_begin, self.tombstone_bytes) = (0, 0);
        let first = slots.first().map_or(self.slot, |slot| slot.0);
        let begin = || first.checked_sub(1).map_or(self.job.from, |before| self.pivots.key(before)).to_vec();
        let from = self.run_from.take().unwrap_or_else(begin);
        let table = writer.finish(self.job.as_of())?;
        self.outputs.extend(table.map(|table| Output { table, from, slots }));
        Ok(())
    }

    #[inline]
    fn writer(&mut self) -> &mut TableWriter<'a> {
        let Rewrite { io, tree, settings, keep_cached, .. } = *self.job;
        self.writer.get_or_insert_with(|| TableWriter::new(io, tree, self.level, settings, keep_cached))
    }
}

/// Returns the bytes that a tombstone counts for.
fn weight(tombstone: &RangeTombstone) -> u64 {
    (tombstone.from.len() + tombstone.to.as_ref().map_or(0, Vec::len)) as u64 + 16
}

impl Sink for Runs<'_> {
    #[inline]
    fn begin(&mut self, key: &[u8]) -> Result<()> {
        if self.slot < self.pivots.len() && key >= self.pivots.key(self.slot) {
            self.go_to(self.pivots.upper_bound(key))?;
        }
        if self.writer().raw_bytes() >= self.run_bytes_max {
            self.cut_slot(key)?;
        }
        self.writer();
        Ok(())
    }

    #[inline]
    fn push(&mut self, entry: Entry<'_>) -> Result<()> {
        match &mut self.writer {
            Some(writer) => self.large_values.push(writer, entry),
            None => Ok(()),
        }
    }

    fn push_rows(&mut self, block: &Block, mut rows: Range<usize>) -> Result<()> {
        rows.try_for_each(|row| self.push(block.entry(row)))
    }
}
