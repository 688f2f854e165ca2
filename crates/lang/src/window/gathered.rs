//! The accumulators of `$group` over windows.

use std::ops::Range;
use std::sync::Arc;

use arbor_bson::{Doc, Value};

use super::sliding::{Gather, Sliding};
use super::{Bounds, Call, Column, Rows, Window, WindowFunction};
use crate::Result;
use crate::accumulator::{Accumulator, Moving, State, value_bytes};
use crate::stop::tick;

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
        let (function, window) = (self.clone(), self.bounds.start());
        match self.accumulator.start_moving() {
            Some(rows) => Box::new(MovingColumn { function, window, covered: 0..0, rows, last: None }),
            None => Box::new(GatheredColumn { function, window, sliding: Sliding::default() }),
        }
    }

    fn look_back(&self) -> Option<usize> {
        self.bounds.rows_back().map(|(last, _)| last)
    }
}

/// Column of an accumulator whose states are small.
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
        self.accumulator.add(state, document(self.rows, at))
    }
}

impl Column for GatheredColumn {
    fn value(&mut self, at: usize, rows: &Rows) -> Result<Value> {
        let window = self.window.of(at, rows)?;
        let gather = OfRows { accumulator: &self.function.accumulator, rows };
        let value = self.sliding.over(window, self.function.bounds.lets_go(), &gather)?;
        // COMPAT: infinities and NaN that will leave the window again leave no deviation until then
        let unknown = matches!(value, Value::Double(deviation) if deviation.is_nan());
        let is_deviation = self.function.accumulator.is_deviation();
        Ok(if unknown && is_deviation && self.function.bounds.lets_go() { Value::Null } else { value })
    }

    fn size_bytes(&self) -> usize {
        self.sliding.size_bytes()
    }
}

/// Column of an accumulator that keeps the rows of the window.
struct MovingColumn {
    function: Gathered,
    window: Window,
    /// The rows that have entered and not left.
    covered: Range<usize>,
    rows: Box<dyn Moving>,
    /// The value over `covered`, for rows that share a window.
    last: Option<Value>,
}

impl MovingColumn {
    /// Requires a window whose ends are not before those of the last one (W1).
    fn move_to(&mut self, window: Range<usize>, rows: &Rows) -> Result<()> {
        assert!(self.covered.start <= window.start && self.covered.end <= window.end, "W1");
        while self.covered.end < window.end {
            tick()?;
            self.function.accumulator.enter(&mut *self.rows, document(rows, self.covered.end))?;
            self.covered.end += 1;
        }
        while self.covered.start < window.start {
            self.rows.leave();
            self.covered.start += 1;
        }
        Ok(())
    }
}

impl Column for MovingColumn {
    fn value(&mut self, at: usize, rows: &Rows) -> Result<Value> {
        let window = self.window.of(at, rows)?;
        if let Some(last) = self.last.as_ref().filter(|_| window == self.covered) {
            return Ok(last.clone());
        }
        self.move_to(window, rows)?;
        let value = self.rows.value();
        self.last = Some(value.clone());
        Ok(value)
    }

    fn size_bytes(&self) -> usize {
        self.rows.size_bytes() + self.last.as_ref().map_or(0, value_bytes)
    }
}

fn document(rows: &Rows, at: usize) -> Doc<'_> {
    rows.get(at).map_or(Doc::empty(), |doc| doc.as_doc())
}
