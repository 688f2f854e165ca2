//! The range tombstones of a merge, cut so that none overlaps another.

use std::collections::BTreeMap;

use crate::{RangeTombstone, Seq};

use super::fold::stripe;

/// `from <= key < to`, deleted as of each of `seqs`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fragment {
    pub from: Vec<u8>,
    pub to: Option<Vec<u8>>,
    /// Newest first, at most one in each stripe, never empty.
    pub seqs: Vec<Seq>,
}

impl Fragment {
    pub fn newest(&self) -> Seq {
        self.seqs.first().copied().unwrap_or_default()
    }

    fn is_behind(&self, key: &[u8]) -> bool {
        self.to.as_deref().is_none_or(|to| key < to)
    }
}

/// In key order, disjoint, and no two that touch say the same.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Fragments {
    list: Vec<Fragment>,
}

/// `None` is after all keys.
fn clip_to(a: Option<&[u8]>, b: Option<&[u8]>) -> Option<Vec<u8>> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b).to_vec()),
        (one, other) => one.or(other).map(<[u8]>::to_vec),
    }
}

/// The part of a tombstone with `from <= key < to`, if there is one.
pub fn clip(tombstone: &RangeTombstone, from: &[u8], to: Option<&[u8]>) -> Option<RangeTombstone> {
    let from = tombstone.from.as_slice().max(from);
    let to = clip_to(tombstone.to.as_deref(), to);
    let some = to.as_deref().is_none_or(|to| from < to);
    some.then(|| RangeTombstone { from: from.to_vec(), to, seq: tombstone.seq })
}

impl Fragments {
    /// Cuts the tombstones' parts with `from <= key < to`. `stripes`: as in [`super::Fold`]; of tombstones in one stripe the newest counts.
    pub fn new<'a>(
        tombstones: impl IntoIterator<Item = &'a RangeTombstone>,
        stripes: &[Seq],
        from: &[u8],
        to: Option<&[u8]>,
    ) -> Fragments {
        let clipped = tombstones.into_iter().filter_map(|tombstone| clip(tombstone, from, to));
        let (mut begins, mut ends) = (Vec::new(), Vec::new());
        for RangeTombstone { from, to, seq } in clipped {
            begins.push((from, seq));
            ends.extend(to.map(|to| (to, seq)));
        }
        begins.sort_unstable();
        ends.sort_unstable();
        let list = sweep(begins, ends, stripes);
        let disjoint = |one: &Fragment, next: &Fragment| one.to.as_ref().is_some_and(|to| *to <= next.from);
        debug_assert!(list.is_sorted_by(disjoint), "no fragment overlaps another: {list:?}");
        debug_assert!(list.iter().all(|fragment| !fragment.seqs.is_empty()), "each deletes something: {list:?}");
        Fragments { list }
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the first fragment that ends after `key`: it covers the key or is after it. `place` is the caller's position in the
    /// list, 0 at first; keys must rise from call to call.
    #[inline]
    pub fn at_or_after(&self, place: &mut usize, key: &[u8]) -> Option<&Fragment> {
        loop {
            let fragment = self.list.get(*place)?;
            if fragment.is_behind(key) {
                return Some(fragment);
            }
            *place += 1;
        }
    }

    /// The fragment that covers `key`; see [`Fragments::at_or_after`].
    #[inline]
    pub fn covering(&self, place: &mut usize, key: &[u8]) -> Option<&Fragment> {
        self.at_or_after(place, key).filter(|fragment| fragment.from.as_slice() <= key)
    }

    /// As tombstones again, the parts with `from <= key < to`.
    pub fn within(&self, from: &[u8], to: Option<&[u8]>) -> impl Iterator<Item = RangeTombstone> {
        let first = self.list.partition_point(|fragment| !fragment.is_behind(from));
        let rest = self.list.get(first..).unwrap_or_default();
        let inside = rest.iter().take_while(move |fragment| to.is_none_or(|to| fragment.from.as_slice() < to));
        inside.flat_map(move |fragment| {
            let begin = fragment.from.as_slice().max(from).to_vec();
            let end = clip_to(fragment.to.as_deref(), to);
            fragment.seqs.iter().map(move |seq| RangeTombstone { from: begin.clone(), to: end.clone(), seq: *seq })
        })
    }
}

/// Walks over all ends in key order and keeps which tombstones are open.
fn sweep(begins: Vec<(Vec<u8>, Seq)>, ends: Vec<(Vec<u8>, Seq)>, stripes: &[Seq]) -> Vec<Fragment> {
    let mut list: Vec<Fragment> = Vec::new();
    let mut open: BTreeMap<Seq, usize> = BTreeMap::new();
    let (mut begins, mut ends) = (begins.into_iter().peekable(), ends.into_iter().peekable());
    loop {
        let next = match (begins.peek(), ends.peek()) {
            (Some(begin), Some(end)) => begin.0.clone().min(end.0.clone()),
            (Some(one), None) | (None, Some(one)) => one.0.clone(),
            (None, None) => break,
        };
        while let Some((_, seq)) = ends.next_if(|end| end.0 == next) {
            if let Some(count) = open.get_mut(&seq) {
                *count -= 1;
            }
        }
        while let Some((_, seq)) = begins.next_if(|begin| begin.0 == next) {
            *open.entry(seq).or_default() += 1;
        }
        open.retain(|_, count| *count > 0);
        turn(&mut list, next, newest_of_stripes(&open, stripes));
    }
    list
}

/// From `key` on `seqs` hold.
fn turn(list: &mut Vec<Fragment>, key: Vec<u8>, seqs: Vec<Seq>) {
    if let Some(last) = list.last_mut()
        && last.to.is_none()
    {
        if last.seqs == seqs {
            return;
        }
        last.to = Some(key.clone());
    }
    if !seqs.is_empty() {
        list.push(Fragment { from: key, to: None, seqs });
    }
}

fn newest_of_stripes(open: &BTreeMap<Seq, usize>, stripes: &[Seq]) -> Vec<Seq> {
    let mut seqs: Vec<Seq> = open.keys().rev().copied().collect();
    seqs.dedup_by_key(|seq| stripe(stripes, *seq));
    seqs
}
