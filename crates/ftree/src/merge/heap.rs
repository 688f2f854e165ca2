//! The sources of a merge, least key on top.
//!
//! Compares the first eight key bytes after those that all keys of the merge have in common, and whole keys only where these are equal.

use std::cmp::Ordering;

use super::Source;

/// A source that is not at its end.
#[derive(Clone, Copy)]
struct Runner {
    head: u64,
    /// Place in the list of sources: of equal keys the one of the lower place comes first.
    source: usize,
}

/// A binary heap of the sources that are not at their end.
pub(super) struct Heap {
    runners: Vec<Runner>,
    /// So many first bytes are the same in all keys.
    common: usize,
}

/// Eight bytes of the key as a number that orders like them; missing ones count as zero.
fn head(key: &[u8], common: usize) -> u64 {
    let rest = key.get(common..).unwrap_or_default();
    match rest.first_chunk::<8>() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; 8];
            bytes.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
            u64::from_be_bytes(bytes)
        }
    }
}

impl Heap {
    pub(super) fn new<S: Source>(sources: &[S], common: usize) -> Heap {
        let mut heap = Heap { runners: Vec::with_capacity(sources.len()), common };
        for (source, stream) in sources.iter().enumerate() {
            if let Some(key) = stream.key() {
                heap.runners.push(Runner { head: head(key, common), source });
            }
        }
        for place in (0..heap.runners.len() / 2).rev() {
            heap.sift_down(place, sources);
        }
        heap
    }

    /// The source with the least key, the newest of several.
    #[inline]
    pub(super) fn top(&self) -> Option<usize> {
        self.runners.first().map(|runner| runner.source)
    }

    /// Restores the order after the top source moved.
    #[inline]
    pub(super) fn top_moved<S: Source>(&mut self, sources: &[S]) {
        let Some(top) = self.runners.first_mut() else { return };
        match sources.get(top.source).and_then(Source::key) {
            Some(key) => top.head = head(key, self.common),
            None => {
                self.runners.swap_remove(0);
            }
        }
        self.sift_down(0, sources);
        debug_assert!(!self.before(1, 0, sources) && !self.before(2, 0, sources), "the least key is on top");
    }

    fn sift_down<S: Source>(&mut self, mut place: usize, sources: &[S]) {
        loop {
            let mut least = place;
            for child in [2 * place + 1, 2 * place + 2] {
                if self.before(child, least, sources) {
                    least = child;
                }
            }
            if least == place {
                return;
            }
            self.runners.swap(place, least);
            place = least;
        }
    }

    /// Returns true if the runner at `a` comes before the one at `b`; `false` when there is none at `a`.
    #[inline]
    fn before<S: Source>(&self, a: usize, b: usize, sources: &[S]) -> bool {
        let (Some(a), Some(b)) = (self.runners.get(a), self.runners.get(b)) else { return false };
        match a.head.cmp(&b.head) {
            Ordering::Less => true,
            Ordering::Greater => false,
            Ordering::Equal => (key_of(sources, a), a.source) < (key_of(sources, b), b.source),
        }
    }
}

fn key_of<'s, S: Source>(sources: &'s [S], runner: &Runner) -> &'s [u8] {
    sources.get(runner.source).and_then(Source::key).unwrap_or_default()
}
