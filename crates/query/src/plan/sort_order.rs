//! Does an index scan give documents in the order of a sort pattern?

use arbor_lang::sort::SortPart;

use super::index_bounds::IndexBounds;
use super::index_shape::IndexShape;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Direction {
    #[default]
    Forward,
    Backward,
}

impl Direction {
    pub fn is_backward(self) -> bool {
        self == Direction::Backward
    }

    /// As explain prints it.
    pub fn name(self) -> &'static str {
        if self.is_backward() { "backward" } else { "forward" }
    }
}

/// The direction in which the scan gives the order; None: it does not.
///
/// Components that the bounds restrict to one value are skipped.
pub(super) fn direction(shape: &IndexShape, bounds: &IndexBounds, sort: &[SortPart]) -> Option<Direction> {
    let mut found = None;
    let mut at = 0;
    for part in sort {
        if part.meta.is_some() {
            return None;
        }
        let path = part.path.as_str();
        if is_constant(shape, bounds, path) {
            continue;
        }
        while shape.parts.get(at).is_some_and(|own| own.path != path) && bounds.intervals.get(at)?.is_point() {
            at += 1;
        }
        let own = shape.parts.get(at).filter(|own| own.path == path && own.is_plain())?;
        if own.is_multikey() && !(sort.len() == 1 && gives_order_of_arrays(at, path, bounds)) {
            return None;
        }
        let direction = if own.descending == part.descending { Direction::Forward } else { Direction::Backward };
        if *found.get_or_insert(direction) != direction {
            return None;
        }
        at += 1;
    }
    Some(found.unwrap_or_default())
}

/// An array sorts by its smallest element (descending, its largest), and a scan of the whole index finds that element
/// first. Below an array the keys of elements without the field differ from sort keys, so no dotted path.
fn gives_order_of_arrays(at: usize, path: &str, bounds: &IndexBounds) -> bool {
    at == 0 && !path.contains('.') && bounds.intervals.iter().all(|intervals| intervals.is_full())
}

fn is_constant(shape: &IndexShape, bounds: &IndexBounds, path: &str) -> bool {
    let mut parts = shape.parts.iter().zip(&bounds.intervals);
    parts.any(|(part, intervals)| part.path == path && part.is_plain() && !part.is_multikey() && intervals.is_point())
}
