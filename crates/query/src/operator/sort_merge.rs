//! SORT_MERGE: the entries of several index scans, each in the order of the sort, merged into one order.
//!
//! The bytes of index keys are compared: those of each field sorted by, inverted where the index has the
//! other direction. So no document is read before its turn.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};

use arbor_bson::DocBuf;
use arbor_bson::keystring::component_len;
use arbor_lang::SortPattern;

use super::sort::pattern_doc;
use super::{Detail, IndexScan, Run, StageDoc, Tally};
use crate::{Error, Result};

pub(crate) struct SortMerge {
    inputs: Vec<Input>,
    pattern: SortPattern,
    /// Inputs whose next entry is not read yet.
    pending: Vec<usize>,
    /// The current entries of the others, smallest first.
    heads: BinaryHeap<Reverse<(Vec<u8>, usize)>>,
    /// The input with the entry that was returned last.
    current: Option<usize>,
    /// Documents returned so far, when several inputs may find one.
    seen: Option<HashSet<Vec<u8>>>,
    dropped: u64,
    tally: Tally,
}

struct Input {
    scan: IndexScan,
    /// For each field of the sort its component.
    components: Vec<usize>,
    descending: Vec<bool>,
}

impl SortMerge {
    /// `distinct`: no document is in two of them. Requires that each has all fields of the pattern.
    pub(crate) fn new(scans: Vec<IndexScan>, pattern: SortPattern, distinct: bool) -> SortMerge {
        let inputs: Vec<Input> = scans.into_iter().map(|scan| Input::new(scan, &pattern)).collect();
        SortMerge {
            pending: (0..inputs.len()).rev().collect(),
            inputs,
            pattern,
            heads: BinaryHeap::new(),
            current: None,
            seen: (!distinct).then(HashSet::new),
            dropped: 0,
            tally: Tally::default(),
        }
    }

    pub(crate) fn advance(&mut self, run: &mut Run<'_>) -> Result<bool> {
        loop {
            self.pending.extend(self.current.take());
            self.fill(run)?;
            let Some(Reverse((_, at))) = self.heads.pop() else { return Ok(self.tally.answer(None::<()>).is_some()) };
            let Some(input) = self.inputs.get_mut(at) else { return Ok(false) };
            input.scan.reposition(run)?;
            self.current = Some(at);
            let mut id_key = || input.scan.entry(run).map(|entry| entry.id_key().to_vec()).unwrap_or_default();
            if self.seen.as_mut().is_none_or(|seen| seen.insert(id_key())) {
                self.tally.answer(Some(()));
                return Ok(true);
            }
            self.dropped += 1;
            self.tally.passed_over();
        }
    }

    /// May be interrupted between any two inputs.
    fn fill(&mut self, run: &mut Run<'_>) -> Result<()> {
        while let Some(at) = self.pending.last().copied() {
            if let Some(input) = self.inputs.get_mut(at)
                && input.scan.advance(run)?
            {
                self.heads.push(Reverse((input.key(&self.pattern, run)?, at)));
            }
            self.pending.pop();
        }
        Ok(())
    }

    /// Returns the scan that is on the current entry.
    pub(crate) fn scan(&self) -> Option<&IndexScan> {
        self.current.and_then(|at| self.inputs.get(at)).map(|input| &input.scan)
    }

    pub(crate) fn suspend(&mut self, run: &mut Run<'_>) {
        self.inputs.iter_mut().for_each(|input| input.scan.suspend(run));
    }

    pub(crate) fn is_done(&self) -> bool {
        self.tally.ended
    }

    pub(crate) fn explain(&self, detail: Detail) -> DocBuf {
        let mut stage =
            StageDoc::new("SORT_MERGE", detail).tally(&self.tally).with("sortPattern", &pattern_doc(&self.pattern));
        if self.seen.is_some() {
            stage =
                stage.counter("dupsTested", self.tally.advanced + self.dropped).counter("dupsDropped", self.dropped);
        }
        stage.inputs(self.inputs.iter().map(|input| input.scan.explain("IXSCAN", detail)))
    }
}

impl Input {
    fn new(scan: IndexScan, pattern: &SortPattern) -> Input {
        let shape = &scan.access().shape;
        let place = |path: &str| shape.parts.iter().position(|part| part.path == path);
        let components = pattern.parts().iter().filter_map(|part| place(part.path.as_str())).collect();
        Input { components, descending: shape.descending(), scan }
    }

    /// The fields of the sort as bytes in its order.
    fn key(&self, pattern: &SortPattern, run: &mut Run<'_>) -> Result<Vec<u8>> {
        let Some(entry) = self.scan.entry(run) else {
            return Err(Error::internal("an index scan has no current entry"));
        };
        let mut parts = Vec::with_capacity(self.descending.len());
        let mut rest = entry.position();
        for descending in &self.descending {
            let length = component_len(rest, *descending).unwrap_or(rest.len());
            let (part, behind) = rest.split_at_checked(length).unwrap_or((rest, &[]));
            parts.push(part);
            rest = behind;
        }
        let mut key = Vec::new();
        for (component, sort) in self.components.iter().zip(pattern.parts()) {
            let turned = self.descending.get(*component) != Some(&sort.descending);
            let mask = if turned { 0xFF } else { 0 };
            key.extend(parts.get(*component).copied().unwrap_or_default().iter().map(|byte| byte ^ mask));
        }
        Ok(key)
    }
}
