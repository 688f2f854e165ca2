//! `$integral`: `{ input, unit }`; the area below the rows of a window, by trapezoids.

use std::sync::Arc;

use arbor_bson::{Number, Value};

use super::derivative::{input_and_unit, number_at};
use super::sliding::{Gather, Sliding};
use super::{Bounds, Call, Column, Rows, Window, WindowFunction};
use crate::accumulator::{State, Sum};
use crate::{Expression, Result};

#[derive(Clone, Debug)]
struct Integral {
    input: Expression,
    unit_millis: Option<i64>,
    bounds: Bounds,
}

pub(super) fn parse(call: &Call) -> Result<Arc<dyn WindowFunction>> {
    call.require_single_sort(9)?;
    let (input, unit_millis) = input_and_unit(call)?;
    Ok(Arc::new(Integral { input, unit_millis, bounds: call.bounds()? }))
}

impl WindowFunction for Integral {
    fn start(&self) -> Box<dyn Column> {
        Box::new(Area { function: self.clone(), window: self.bounds.start(), sliding: Sliding::default() })
    }

    fn look_back(&self) -> Option<usize> {
        self.bounds.rows_back().map(|(last, _)| last + 1)
    }
}

struct Area {
    function: Integral,
    window: Window,
    sliding: Sliding,
}

impl Column for Area {
    fn value(&mut self, at: usize, rows: &Rows) -> Result<Value> {
        let window = self.window.of(at, rows)?;
        if window.is_empty() {
            return Ok(Value::Null);
        }
        // the piece before the first row of the window is not in it
        let pieces = window.start + 1..window.end;
        if pieces.is_empty() {
            return Ok(Value::Double(0.0));
        }
        let gather = Pieces { function: &self.function, rows };
        self.sliding.over(pieces, self.function.bounds.lets_go(), &gather)
    }

    fn size_bytes(&self) -> usize {
        self.sliding.size_bytes()
    }
}

/// Piece `at` is between row `at - 1` and row `at`.
struct Pieces<'r> {
    function: &'r Integral,
    rows: &'r Rows,
}

impl Gather for Pieces<'_> {
    fn start(&self) -> Box<dyn State> {
        Box::<Sum>::default()
    }

    fn add(&self, state: &mut dyn State, at: usize) -> Result<()> {
        let Some(before) = at.checked_sub(1) else { return Ok(()) };
        let Integral { input, unit_millis, .. } = self.function;
        let place = |at| self.rows.coordinate(at, "$integral", *unit_millis, 5423900);
        let width = place(at)? - place(before)?;
        let left = number_at(input, self.rows, before, "$integral")?;
        let right = number_at(input, self.rows, at, "$integral")?;
        if let (Some(left), Some(right)) = (left, right) {
            let mut piece = Sum::default();
            piece.add_number(Number::Double((left + right) / 2.0 * width));
            state.absorb(piece.partial().as_ref())?;
        }
        Ok(())
    }
}
