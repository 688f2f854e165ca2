//! An accumulator over a window that moves forward.
//!
//! Two stacks, as a queue of them: `front` holds for each of its rows what the rows from there to its end come to, `back`
//! what its rows come to together. A row that leaves is popped off the front; when that is empty, the back is turned
//! over. Each row is merged a fixed number of times, whatever the size of the window, and nothing is ever subtracted.

use std::ops::Range;

use arbor_bson::{Value, ValueRef};

use crate::Result;
use crate::accumulator::{State, value_bytes};

/// The gathered state: how it starts and what a row adds to it.
pub(super) trait Gather {
    fn start(&self) -> Box<dyn State>;

    fn add(&self, state: &mut dyn State, at: usize) -> Result<()>;
}

#[derive(Debug, Default)]
pub(super) struct Sliding {
    low: usize,
    high: usize,
    /// Partial states, the one of the whole front last.
    front: Vec<Value>,
    back: Option<Box<dyn State>>,
    /// Partial states of the single rows of the back; left out when no row ever leaves.
    back_rows: Vec<Value>,
    bytes: usize,
    last: Option<(Range<usize>, Value)>,
}

impl Sliding {
    /// The value over a window, whose ends are not before those of the last one.
    pub(super) fn over(&mut self, window: Range<usize>, lets_go: bool, gather: &impl Gather) -> Result<Value> {
        if let Some((last, value)) = &self.last
            && *last == window
        {
            return Ok(value.clone());
        }
        if window.start >= self.high {
            *self = Sliding { low: window.start, high: window.start, ..Sliding::default() };
        }
        while self.high < window.end {
            self.enter(lets_go, gather)?;
        }
        while self.low < window.start {
            self.leave(gather)?;
        }
        let value = self.value(gather)?;
        self.last = Some((window, value.clone()));
        Ok(value)
    }

    pub(super) fn size_bytes(&self) -> usize {
        self.bytes + self.back.as_ref().map_or(0, |back| back.size_bytes())
    }

    fn enter(&mut self, lets_go: bool, gather: &impl Gather) -> Result<()> {
        let at = self.high;
        let back = self.back.get_or_insert_with(|| gather.start());
        if lets_go {
            let mut own = gather.start();
            gather.add(&mut *own, at)?;
            let own = own.partial();
            back.absorb(own.as_ref())?;
            self.bytes += value_bytes(&own);
            self.back_rows.push(own);
        } else {
            gather.add(&mut **back, at)?;
        }
        self.high += 1;
        Ok(())
    }

    fn leave(&mut self, gather: &impl Gather) -> Result<()> {
        if self.front.is_empty() {
            self.turn_over(gather)?;
        }
        if let Some(gone) = self.front.pop() {
            self.bytes = self.bytes.saturating_sub(value_bytes(&gone));
        }
        self.low += 1;
        Ok(())
    }

    fn turn_over(&mut self, gather: &impl Gather) -> Result<()> {
        self.back = None;
        self.bytes = 0;
        while let Some(row) = self.back_rows.pop() {
            let mut both = gather.start();
            both.absorb(row.as_ref())?;
            if let Some(behind) = self.front.last() {
                both.absorb(behind.as_ref())?;
            }
            let partial = both.partial();
            self.bytes += value_bytes(&partial);
            self.front.push(partial);
        }
        Ok(())
    }

    fn value(&self, gather: &impl Gather) -> Result<Value> {
        let mut whole = gather.start();
        let front = self.front.last().map(Value::as_ref);
        let back = self.back.as_ref().map(|back| back.partial());
        let parts: [Option<ValueRef>; 2] = [front, back.as_ref().map(Value::as_ref)];
        parts.into_iter().flatten().try_for_each(|part| whole.absorb(part))?;
        Ok(whole.finish())
    }
}
