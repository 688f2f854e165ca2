//! The accumulators of `$group` over windows.

use std::sync::Arc;

use arbor_bson::{Doc, Value};

use super::sliding::{Gather, Sliding};
use super::{Bounds, Call, Column, Rows, Window, WindowFunction};
use crate::Result;
use crate::accumulator::{Accumulator, State};

#[derive(Clone, Debug)]
struct Gathered {
    accumulator: Accumulator,
    bounds: Bounds,
}

pub(super) fn parse(call: &Call, accumulator: Accumulator) -> Result<Arc<dyn WindowFunction>> {
    Ok(Arc::new(Gathered { accumulator, bounds: call.bounds()? }))
}

impl WindowFunction for Gathered {
    fn start(&self) -> Box<dyn Column> {
        Box::new(GatheredColumn { function: self.clone(), window: self.bounds.start(), sliding: Sliding::default() })
    }

    fn look_back(&self) -> Option<usize> {
        self.bounds.behind().map(|(last, _)| last)
    }
}

struct GatheredColumn {
    function: Gathered,
    window: Window,
    sliding: Sliding,
}

struct OfRows<'r> {
    accumulator: &'r Accumulator,
    rows: &'r Rows,
}

impl Gather for OfRows<'_> {
    fn start(&self) -> Box<dyn State> {
        self.accumulator.start()
    }

    fn add(&self, state: &mut dyn State, at: usize) -> Result<()> {
        let doc = self.rows.get(at).map_or(Doc::empty(), |doc| doc.as_doc());
        self.accumulator.add(state, doc)
    }
}

impl Column for GatheredColumn {
    fn value(&mut self, at: usize, rows: &Rows) -> Result<Value> {
        let window = self.window.of(at, rows)?;
        let gather = OfRows { accumulator: &self.function.accumulator, rows };
        self.sliding.over(window, self.function.bounds.lets_go(), &gather)
    }

    fn size_bytes(&self) -> usize {
        self.sliding.size_bytes()
    }
}
