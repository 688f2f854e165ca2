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
/// Components that the bounds hold to one value are passed over. An array sorts by its smallest element (largest,
/// descending), and the whole index meets that element first: so a component with arrays gives the order only as the
/// first component of an unbounded scan.
pub fn direction(shape: &IndexShape, bounds: &IndexBounds, sort: &[SortPart]) -> Option<Direction> {
    let mut found = None;
    let mut at = 0;
    for part in sort {
        let path = part.path.as_str();
        if is_constant(shape, bounds, path) {
            continue;
        }
        while shape.parts.get(at).is_some_and(|own| own.path != path) && bounds.intervals.get(at)?.is_point() {
            at += 1;
        }
        let own = shape.parts.get(at).filter(|own| own.path == path)?;
        if own.is_multikey() && !(at == 0 && sort.len() == 1 && bounds.intervals.iter().all(|all| all.is_full())) {
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

fn is_constant(shape: &IndexShape, bounds: &IndexBounds, path: &str) -> bool {
    let mut parts = shape.parts.iter().zip(&bounds.intervals);
    parts.any(|(part, intervals)| part.path == path && !part.is_multikey() && intervals.is_point())
}
