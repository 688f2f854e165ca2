//! From the root to the child that is responsible for a place.

use crate::tree::{Child, Inner, Run, Slot, TreeVersion};

/// Levels that need no allocation. With the usual fanout four levels hold more than any disk.
const LEVELS: usize = 6;

/// A place between keys, and the side from which a cursor comes to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place<'k> {
    /// The first entry with this key or a greater one.
    From(&'k [u8]),
    /// The last entry with a key less than this one.
    Before(&'k [u8]),
    /// The last entry.
    End,
}

impl<'k> Place<'k> {
    pub fn is_forward(self) -> bool {
        matches!(self, Place::From(_))
    }

    /// Returns true if no key can be there.
    pub fn is_before_all(self) -> bool {
        matches!(self, Place::Before([]))
    }

    /// Returns true if the keys right after (or before) the place are not less than this one.
    pub fn is_behind(self, end: &[u8]) -> bool {
        match self {
            Place::From(key) => end <= key,
            Place::Before(key) => end < key,
            Place::End => true,
        }
    }

    /// Returns true if the keys right after (or before) the place are in `low <= key < high`.
    pub fn is_in(self, low: &[u8], high: Option<&[u8]>) -> bool {
        match self {
            Place::From(key) => low <= key && high.is_none_or(|high| key < high),
            Place::Before(key) => low < key && high.is_none_or(|high| key <= high),
            Place::End => high.is_none(),
        }
    }
}

/// The slots that a place falls into, from the top, and what hangs below the last one.
pub struct Path<'v> {
    slots: [Option<&'v Slot>; LEVELS],
    /// Slots below those.
    deeper: Vec<&'v Slot>,
    pub child: &'v Child,
    /// Bounds of the last slot, and so of all that the path says. The empty key is the begin of the tree.
    pub low: &'v [u8],
    pub high: Option<&'v [u8]>,
}

impl<'v> Path<'v> {
    #[inline]
    pub fn to(version: &'v TreeVersion, place: Place<'_>) -> Path<'v> {
        let mut path = Path { slots: [None; LEVELS], deeper: Vec::new(), child: &Child::Empty, low: &[], high: None };
        let (mut node, mut depth) = (&*version.root, 0);
        while let Some(slot) = path.enter(node, place, depth) {
            depth += 1;
            path.child = &slot.child;
            match &slot.child {
                Child::Inner(inner) => node = inner,
                Child::Empty | Child::Leaf(_) => break,
            }
        }
        debug_assert!(place.is_before_all() || place.is_in(path.low, path.high), "{place:?} is below its path");
        path
    }

    #[inline]
    fn enter(&mut self, node: &'v Inner, place: Place<'_>, depth: usize) -> Option<&'v Slot> {
        let at = match place {
            Place::From(key) => node.pivots.upper_bound(key),
            Place::Before(key) => node.pivots.lower_bound(key),
            Place::End => node.pivots.len(),
        };
        let slot = &**node.slots.get(at)?;
        if at > 0 {
            self.low = node.pivots.key(at - 1);
        }
        if at < node.pivots.len() {
            self.high = Some(node.pivots.key(at));
        }
        match self.slots.get_mut(depth) {
            Some(place) => *place = Some(slot),
            None => self.deeper.push(slot),
        }
        Some(slot)
    }

    /// From the top.
    pub fn slots(&self) -> impl Iterator<Item = &'v Slot> {
        self.slots.iter().copied().flatten().chain(self.deeper.iter().copied())
    }

    /// Newest first (I1).
    pub fn runs(&self) -> impl Iterator<Item = &'v Run> {
        self.slots().flat_map(|slot| slot.runs.iter().rev())
    }
}
