//! Changing one node of a tree: the path from the root is copied, nodes that became too large split, under-filled ones on the
//! path are joined with their neighbours, what became empty goes, and the root grows or shrinks.
//!
//! Everything here is pure: a new root is made of the current one. The caller holds the tree's install lock and publishes.

use std::sync::Arc;

use arbor_base::sometimes;

use super::{Bounds, Child, Inner, Placed, Run, Slot};

/// Which node is meant: the one of this level that is responsible for these keys, as a whole or in part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    pub level: u8,
    pub bounds: Bounds,
}

/// Makes the new content of the node from the node and its bounds; `None`: the tree is not as it was expected.
pub type Change<'c> = &'c mut dyn FnMut(&Inner, &Bounds) -> Option<Vec<Placed>>;

/// The root after the change. `None`: there is no such node (any more), or the change was refused.
pub fn edit(root: &Inner, place: &Place, fanout: usize, change: Change<'_>) -> Option<Arc<Inner>> {
    let content = edit_node(root, &Bounds::all(), place, fanout, change)?;
    Some(root_of(root.level, content, fanout))
}

/// The node that `place` names in this tree, with its bounds.
pub fn find<'t>(root: &'t Inner, place: &Place) -> Option<(&'t Inner, Bounds)> {
    let (mut node, mut own) = (root, Bounds::all());
    while node.level > place.level {
        let at = node.slot_of(&place.bounds.from);
        own = node.bounds_of(at, &own);
        node = match &node.slots.get(at)?.child {
            Child::Inner(inner) => inner,
            _ => return None,
        };
    }
    (node.level == place.level && own.covers(&place.bounds)).then_some((node, own))
}

/// The first node of the level that ends after `from`, with its bounds.
pub fn node_behind<'t>(node: &'t Inner, own: Bounds, level: u8, from: &[u8]) -> Option<(&'t Inner, Bounds)> {
    if node.level <= level {
        let ends_behind = own.to.as_deref().is_none_or(|to| from < to);
        return (node.level == level && ends_behind).then_some((node, own));
    }
    (node.slot_of(from)..node.slots.len()).find_map(|at| match &node.slots.get(at)?.child {
        Child::Inner(inner) => node_behind(inner, node.bounds_of(at, &own), level, from),
        _ => None,
    })
}

fn edit_node(node: &Inner, own: &Bounds, place: &Place, fanout: usize, change: Change<'_>) -> Option<Vec<Placed>> {
    if !own.covers(&place.bounds) || node.level < place.level {
        return None;
    }
    if node.level == place.level {
        return change(node, own);
    }
    let at = node.slot_of(&place.bounds.from);
    let slot = node.slots.get(at)?;
    let Child::Inner(child) = &slot.child else { return None };
    let below = edit_node(child, &node.bounds_of(at, own), place, fanout, change)?;
    let mut content = node.placed(own);
    content.splice(at..=at, under(slot, child.level, below, own_end(node, at, own), fanout));
    Some(content)
}

fn own_end(node: &Inner, at: usize, own: &Bounds) -> Option<Vec<u8>> {
    node.bounds_of(at, own).to
}

/// The slots that take the place of `slot` once its child's content is `below`: one, or several where the child split.
fn under(slot: &Slot, level: u8, below: Vec<Placed>, to: Option<Vec<u8>>, fanout: usize) -> Vec<Placed> {
    let children = divide(level, below, fanout);
    let halves: Vec<(Bounds, Child)> = with_bounds(children, to);
    let [(bounds, child)] = halves.as_slice() else { return spread_runs(slot, halves) };
    vec![Placed { from: bounds.from.clone(), slot: Arc::new(slot.with_child(child.clone())) }]
}

/// Each half gets the runs that may reach into it (I3).
pub fn spread_runs(slot: &Slot, halves: Vec<(Bounds, Child)>) -> Vec<Placed> {
    let count = halves.len().max(1) as u64;
    // A run may be in a slot that it does not reach, where it was made for what the slot was a part of.
    let from = halves.first().map(|(first, _)| first.from.clone()).unwrap_or_default();
    let whole = Bounds { from, to: halves.last().and_then(|(last, _)| last.to.clone()) };
    let is_kept = |run: &Run| !run.reaches(&whole) || halves.iter().any(|(bounds, _)| run.reaches(bounds));
    debug_assert!(slot.runs.iter().all(is_kept), "I3: no run is lost where a slot splits");
    let part = |(bounds, child): (Bounds, Child)| {
        let mut runs: Vec<_> = slot.runs.iter().filter(|run| run.reaches(&bounds)).cloned().collect();
        runs.iter_mut().for_each(|run| run.bytes = run.bytes.div_ceil(count));
        Placed { from: bounds.from, slot: Arc::new(Slot::new(runs, child)) }
    };
    halves.into_iter().map(part).collect()
}

/// Lower bounds become bounds; the last one ends at `to`.
pub fn with_bounds<T>(parts: Vec<(Vec<u8>, T)>, to: Option<Vec<u8>>) -> Vec<(Bounds, T)> {
    let mut ends: Vec<Option<Vec<u8>>> = parts.iter().skip(1).map(|(from, _)| Some(from.clone())).collect();
    ends.push(to);
    debug_assert!(parts.is_sorted_by(|one, next| one.0 < next.0), "lower bounds rise");
    parts.into_iter().zip(ends).map(|((from, part), to)| (Bounds { from, to }, part)).collect()
}

/// Children of the content: none for no content, several when it is too much for one node.
fn divide(level: u8, content: Vec<Placed>, fanout: usize) -> Vec<(Vec<u8>, Child)> {
    let mut content = join_nodes(tidy(level, content), fanout);
    let from = content.first().map(|first| first.from.clone()).unwrap_or_default();
    if content.iter().all(|placed| placed.slot.is_void()) {
        return vec![(from, Child::Empty)];
    }
    let pieces = content.len().div_ceil(fanout.max(2));
    if pieces > 1 {
        sometimes!("ftree: a node splits");
    }
    let mut children = Vec::with_capacity(pieces);
    for left in (1..=pieces).rev() {
        let rest = content.split_off(content.len().div_ceil(left));
        debug_assert!(content.len() <= fanout.max(2), "{} slots, {fanout} at most", content.len());
        let from = content.first().map(|first| first.from.clone()).unwrap_or_default();
        children.push((from, Child::Inner(Inner::new(level, std::mem::replace(&mut content, rest)))));
    }
    children
}

/// A child of content that is no more than its node held before.
pub fn child_of(level: u8, content: Vec<Placed>) -> Child {
    let mut children = divide(level, content, usize::MAX);
    children.pop().map_or(Child::Empty, |(_, child)| child)
}

/// The root over some content: of more levels when it is too much for one node, of fewer when it has one child only.
pub fn root_of(mut level: u8, mut content: Vec<Placed>, fanout: usize) -> Arc<Inner> {
    loop {
        let children = divide(level, content, fanout);
        if let [(_, only)] = children.as_slice() {
            return match only {
                Child::Inner(root) => shrunk(root.clone()),
                _ => Inner::empty(),
            };
        }
        sometimes!("ftree: a tree grows by a level");
        level += 1;
        content = children
            .into_iter()
            .map(|(from, child)| Placed { from, slot: Arc::new(Slot::new(Vec::new(), child)) })
            .collect();
    }
}

fn shrunk(mut root: Arc<Inner>) -> Arc<Inner> {
    loop {
        let [only] = root.slots.as_slice() else { return root };
        match (&only.child, only.runs.is_empty()) {
            (Child::Inner(inner), true) => {
                sometimes!("ftree: a tree shrinks by a level");
                root = inner.clone();
            }
            _ => return root,
        }
    }
}

/// Joins slots that hold nothing with a neighbour. Of two without anything one is left; over leaves, one without anything
/// is left to a neighbour whose runs do not reach into it (else what was consumed there would come back, I3).
fn tidy(level: u8, content: Vec<Placed>) -> Vec<Placed> {
    let begin = content.first().map(|first| first.from.clone());
    let mut tidied: Vec<Placed> = Vec::with_capacity(content.len());
    let mut rest = content.into_iter().peekable();
    while let Some(mut placed) = rest.next() {
        let to = rest.peek().map(|next| next.from.clone());
        let joins = match tidied.last() {
            None => false,
            Some(last) if placed.slot.is_void() => {
                last.slot.is_void() || (level == 1 && stays_out(&last.slot, placed.from.clone(), to))
            }
            Some(last) if last.slot.is_void() && level == 1 => {
                let joins = stays_out(&placed.slot, last.from.clone(), Some(placed.from.clone()));
                if joins && let Some(last) = tidied.pop() {
                    placed.from = last.from;
                }
                false
            }
            Some(_) => false,
        };
        if joins {
            sometimes!("ftree: an empty slot joins its neighbour");
        } else {
            tidied.push(placed);
        }
    }
    debug_assert!(tidied.first().map(|first| &first.from) == begin.as_ref(), "the node begins where it began");
    tidied
}

/// Joins neighbouring children that together are less than three quarters of a node, where no messages wait for them (I3).
/// So a node grows by a quarter before it splits again. `usize::MAX`: the content stays as it is.
fn join_nodes(content: Vec<Placed>, fanout: usize) -> Vec<Placed> {
    if fanout == usize::MAX {
        return content;
    }
    let mut joined: Vec<Placed> = Vec::with_capacity(content.len());
    for placed in content {
        match joined.last().and_then(|last| joined_node(last, &placed, fanout)) {
            Some(node) => {
                sometimes!("ftree: small nodes are joined");
                let from = joined.pop().map(|last| last.from).unwrap_or_default();
                joined.push(Placed { from, slot: Arc::new(Slot::new(Vec::new(), Child::Inner(node))) });
            }
            None => joined.push(placed),
        }
    }
    joined
}

fn joined_node(left: &Placed, right: &Placed, fanout: usize) -> Option<Arc<Inner>> {
    let (Child::Inner(first), Child::Inner(second)) = (&left.slot.child, &right.slot.child) else { return None };
    let small = first.slots.len() + second.slots.len() <= fanout / 4 * 3;
    let quiet = left.slot.runs.is_empty() && right.slot.runs.is_empty();
    if !small || !quiet || first.level != second.level || first.is_lost() || second.is_lost() {
        return None;
    }
    let bounds = |from: &[u8]| Bounds { from: from.to_vec(), to: None };
    let mut content = first.placed(&bounds(&left.from));
    content.extend(second.placed(&bounds(&right.from)));
    Some(Inner::new(first.level, content))
}

/// Returns true if the node has children that `edit` would join.
pub fn has_joinable(node: &Inner, fanout: usize) -> bool {
    let placed = node.placed(&Bounds::all());
    placed.iter().zip(placed.iter().skip(1)).any(|(left, right)| joined_node(left, right, fanout).is_some())
}

fn stays_out(slot: &Slot, from: Vec<u8>, to: Option<Vec<u8>>) -> bool {
    let bounds = Bounds { from, to };
    !slot.runs.iter().any(|run| run.reaches(&bounds))
}
