//! Windows: `{ documents: [-1, 1] }`, `{ range: ["unbounded", "current"] }`, `{ range: [-7, 0], unit: "day" }`.

use std::cmp::Ordering;
use std::ops::Range;

use arbor_bson::{Array, Number, ValueRef, compare};

use super::rows::{Place, Rows};
use crate::expression::date::Zone;
use crate::expression::{Evaluated, Unit};
use crate::{Error, Result, SortPattern, number, text};

/// Which rows belong to each row.
#[derive(Clone, Debug)]
pub(super) enum Bounds {
    /// Rows before and after the row; none for all.
    Documents(Option<i64>, Option<i64>),
    /// By the distance on the axis of `sortBy`.
    Range { low: Edge, high: Edge, unit: Option<Unit> },
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Edge {
    Unbounded,
    By(Number),
}

impl Bounds {
    pub(super) fn parse(window: Option<ValueRef>, sort_by: &SortPattern) -> Result<Bounds> {
        let Some(window) = window else { return Ok(Bounds::Documents(None, None)) };
        let ValueRef::Document(window) = window else {
            return Err(Error::failed_to_parse("'window' field must be an object"));
        };
        let (documents, range, unit) = (window.get("documents"), window.get("range"), window.get("unit"));
        let unknown = window.iter().any(|(name, _)| !matches!(name, "documents" | "range" | "unit"));
        if unknown
            || (documents.is_some() && (range.is_some() || unit.is_some()))
            || (unit.is_some() && range.is_none())
        {
            let message = "'window' field can only contain 'documents' as the only argument or 'range' with an optional \
                           'unit' field";
            return Err(Error::failed_to_parse(message));
        }
        match (documents, range) {
            (Some(documents), _) => Bounds::of_documents(documents, sort_by),
            (None, Some(range)) => Bounds::of_range(range, unit, sort_by),
            (None, None) => Ok(Bounds::Documents(None, None)),
        }
    }

    fn of_documents(bounds: ValueRef, sort_by: &SortPattern) -> Result<Bounds> {
        let [low, high] = two("documents", bounds)?;
        let read = |bound: ValueRef| match edge(bound)? {
            Edge::Unbounded => Ok(None),
            Edge::By(number) => match number.to_i64_exact() {
                Some(count) => Ok(Some(count)),
                None => Err(Error::failed_to_parse("Numeric document-based bounds must be an integer")),
            },
        };
        let (low, high) = (read(low)?, read(high)?);
        if sort_by.is_empty() && (low.is_some() || high.is_some()) {
            return Err(Error::location(5339901, "Document-based bounds require a sortBy"));
        }
        if let (Some(low), Some(high)) = (low, high) {
            check_order(low > high, bounds)?;
        }
        Ok(Bounds::Documents(low, high))
    }

    fn of_range(bounds: ValueRef, unit: Option<ValueRef>, sort_by: &SortPattern) -> Result<Bounds> {
        let [low, high] = two("range", bounds)?;
        let (low, high) = (edge(low)?, edge(high)?);
        match sort_by.parts() {
            [only] if !only.descending => {}
            [_] => return Err(Error::location(8947401, "Range-based bounds require an ascending sortBy")),
            _ => return Err(Error::location(5339902, "Range-based bounds require sortBy a single field")),
        }
        let unit = unit.map(|unit| Unit::of("$setWindowFields", &Evaluated::Borrowed(unit), 5339903)).transpose()?;
        if let (Edge::By(low), Edge::By(high)) = (low, high) {
            check_order(compare(low.as_value(), high.as_value()).is_gt(), bounds)?;
        }
        if unit.is_some() && [low, high].iter().any(|edge| matches!(edge, Edge::By(n) if n.to_i64_exact().is_none())) {
            let message = "With 'unit', range-based bounds must be an integer";
            return Err(Error::failed_to_parse(message));
        }
        Ok(Bounds::Range { low, high, unit })
    }

    pub(super) fn start(&self) -> Window {
        Window { bounds: self.clone(), low: 0, high: 0 }
    }

    /// Returns how many rows back the last row of the window is, and the first one (none: at the begin). None: the window may
    /// extend past its row, or peers of the row may belong to it.
    pub(super) fn rows_back(&self) -> Option<(usize, Option<usize>)> {
        match self {
            Bounds::Documents(low, Some(high)) if *high <= 0 => {
                Some((high.unsigned_abs() as usize, low.map(|low| low.unsigned_abs() as usize)))
            }
            _ => None,
        }
    }

    /// Returns true if rows that entered the window may leave it again.
    pub(super) fn lets_go(&self) -> bool {
        !matches!(self, Bounds::Documents(None, _) | Bounds::Range { low: Edge::Unbounded, .. })
    }
}

fn two<'v>(kind: &str, bounds: ValueRef<'v>) -> Result<[ValueRef<'v>; 2]> {
    let both = |array: Array<'v>| match (array.get(0), array.get(1), array.len()) {
        (Some(low), Some(high), 2) => Some([low, high]),
        _ => None,
    };
    match bounds {
        ValueRef::Array(array) => both(array),
        _ => None,
    }
    .ok_or_else(|| {
        let shown = text::shell(bounds);
        Error::failed_to_parse(format!("Window bounds must be a 2-element array: {kind}: {shown}"))
    })
}

fn edge(bound: ValueRef) -> Result<Edge> {
    match bound {
        ValueRef::String("unbounded") => Ok(Edge::Unbounded),
        ValueRef::String("current") => Ok(Edge::By(Number::Int32(0))),
        other => match Number::of(other).filter(|_| !number::is_nan(other)) {
            Some(number) => Ok(Edge::By(number)),
            None => {
                let message = "Window bounds must be 'unbounded', 'current', or a number.";
                Err(Error::failed_to_parse(message))
            }
        },
    }
}

fn check_order(wrong: bool, bounds: ValueRef) -> Result<()> {
    match wrong {
        true => {
            let message = format!("Lower bound must not exceed upper bound: {}", text::shell(bounds));
            Err(Error::location(5339900, message))
        }
        false => Ok(()),
    }
}

/// The window of one row after the other.
#[derive(Debug)]
pub(super) struct Window {
    bounds: Bounds,
    low: usize,
    /// After the last row.
    high: usize,
}

impl Window {
    /// The rows that belong to row `at`.
    pub(super) fn of(&mut self, at: usize, rows: &Rows) -> Result<Range<usize>> {
        match self.bounds {
            Bounds::Documents(low, high) => {
                let count = rows.len();
                let place = |by: i64| (at as i64).saturating_add(by).clamp(0, count as i64) as usize;
                self.low = low.map_or(0, place);
                self.high = high.map_or(count, |by| place(by.saturating_add(1)));
            }
            Bounds::Range { low, high, unit } => {
                let here = place_of(at, rows, unit)?;
                if let Edge::By(by) = low {
                    let limit = moved(here, by, unit)?;
                    self.low = advance(self.low, rows, |place| order(place, limit).is_lt());
                }
                self.high = match high {
                    Edge::Unbounded => rows.len(),
                    Edge::By(by) => {
                        let limit = moved(here, by, unit)?;
                        advance(self.high, rows, |place| order(place, limit).is_le())
                    }
                };
            }
        }
        Ok(self.low..self.high.max(self.low))
    }
}

fn advance(from: usize, rows: &Rows, passes: impl Fn(Place) -> bool) -> usize {
    let mut at = from;
    while at < rows.len() && rows.place(at).is_none_or(&passes) {
        at += 1;
    }
    at
}

fn place_of(at: usize, rows: &Rows, unit: Option<Unit>) -> Result<Place> {
    let found = || text::type_name(Some(rows.sort_value(at)));
    match (rows.place(at), unit) {
        (Some(Place::Number(number)), None) => Ok(Place::Number(number)),
        (Some(Place::Date(millis)), Some(_)) => Ok(Place::Date(millis)),
        (Some(Place::Date(_)), None) => {
            let message = "Invalid range: For windows that involve date or time ranges, a unit must be provided.";
            Err(Error::location(5429513, message))
        }
        (_, None) => {
            let message = format!("Invalid range: Expected the sortBy field to be a number, but it was {}", found());
            Err(Error::location(5429414, message))
        }
        (_, Some(_)) => {
            let message = format!("Invalid range: Expected the sortBy field to be a Date, but it was {}", found());
            Err(Error::location(5429513, message))
        }
    }
}

fn moved(place: Place, by: Number, unit: Option<Unit>) -> Result<Place> {
    match (place, unit) {
        (Place::Date(millis), Some(unit)) => {
            let overflow = || Error::location(5166406, "the bound of a window is beyond all dates");
            let later = by.to_i64_exact().and_then(|by| Zone::utc().later(millis, unit, by));
            Ok(Place::Date(later.ok_or_else(overflow)?))
        }
        (Place::Number(number), _) => Ok(Place::Number(number + by)),
        (place, None) => Ok(place),
    }
}

/// The order on the axis.
pub(crate) fn order(a: Place, b: Place) -> Ordering {
    match (a, b) {
        (Place::Number(a), Place::Number(b)) => compare(a.as_value(), b.as_value()),
        (Place::Date(a), Place::Date(b)) => a.cmp(&b),
        // numbers sort before dates
        (Place::Number(_), Place::Date(_)) => Ordering::Less,
        (Place::Date(_), Place::Number(_)) => Ordering::Greater,
    }
}
