//! Slots that wait for a job or are worked on, each by one job at a time.
//!
//! They are ranges of keys of a level, not lower bounds: while a slot waits, an empty neighbour may join it, and it begins earlier then.
//! (K1) No two claims of a level overlap. (K2) A job changes slots within its claim only, as they are when it begins.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use crate::tree::{Bounds, Place};

/// Ends of ranges by their lower bounds.
type Ranges = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// Claimed ranges by serial number of the tree and level.
#[derive(Default)]
pub(super) struct Claims {
    levels: HashMap<(u64, u8), Ranges>,
}

impl Claims {
    /// Claims the slots of a place. False: one of them is claimed already, and nothing is changed.
    pub(super) fn claim(&mut self, serial: u64, place: &Place) -> bool {
        let is_free = !self.overlaps(serial, place);
        if is_free {
            let Bounds { from, to } = place.bounds.clone();
            let replaced = self.levels.entry((serial, place.level)).or_default().insert(from, to);
            assert!(replaced.is_none(), "K1: {place:?} was free");
        }
        is_free
    }

    /// Ends a claim.
    pub(super) fn release(&mut self, serial: u64, place: &Place) {
        let level = self.levels.entry((serial, place.level)).or_default();
        let claimed = level.remove(&place.bounds.from);
        assert!(claimed.as_ref() == Some(&place.bounds.to), "{place:?} was claimed, and is until its job is done");
        if level.is_empty() {
            self.levels.remove(&(serial, place.level));
        }
    }

    /// Returns true if a slot of the place is claimed.
    pub(super) fn overlaps(&self, serial: u64, place: &Place) -> bool {
        let Some(level) = self.levels.get(&(serial, place.level)) else { return false };
        let end = place.bounds.to.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        // by K1 no claim before the last one that begins before the end reaches further
        let last = level.range::<[u8], _>((Bound::Unbounded, end)).next_back();
        last.is_some_and(|(_, to)| to.as_deref().is_none_or(|to| place.bounds.from.as_slice() < to))
    }

    pub(super) fn len(&self) -> usize {
        self.levels.values().map(BTreeMap::len).sum()
    }

    /// Panics where claims of a level overlap.
    pub(super) fn validate(&self) {
        for (level, claims) in &self.levels {
            let ends_before =
                |(one, next): ((_, &Option<Vec<u8>>), (&Vec<u8>, _))| one.1.as_ref().is_some_and(|to| to <= next.0);
            assert!(claims.iter().zip(claims.iter().skip(1)).all(ends_before), "K1: claims of {level:?} overlap");
        }
    }
}

#[cfg(test)]
mod tests {
    use arbor_base::Random;

    use super::*;

    fn place(level: u8, from: &str, to: &str) -> Place {
        Place { level, bounds: Bounds { from: from.into(), to: (!to.is_empty()).then(|| to.into()) } }
    }

    #[test]
    fn a_slot_that_was_joined_is_claimed_still() {
        let mut claims = Claims::default();
        assert!(claims.claim(1, &place(1, "m", "t")));
        for (from, to, is_free) in
            [("m", "t", false), ("", "t", false), ("a", "", false), ("n", "o", false), ("", "m", true), ("t", "", true)]
        {
            assert_eq!(!claims.overlaps(1, &place(1, from, to)), is_free, "{from}..{to}");
        }
        assert!(!claims.overlaps(1, &place(2, "m", "t")) && !claims.overlaps(2, &place(1, "m", "t")));
        claims.release(1, &place(1, "m", "t"));
        assert!(claims.claim(1, &place(1, "", "")) && claims.len() == 1);
    }

    #[test]
    fn claims_are_as_of_a_list() {
        let mut random = Random::new(7);
        let (mut claims, mut list): (Claims, Vec<(u64, Place)>) = (Claims::default(), Vec::new());
        let (mut refused, mut claimed) = (0, 0);
        for _ in 0..5000 {
            if random.one_in(3) && !list.is_empty() {
                let (serial, place) = list.swap_remove(random.below(list.len() as u64) as usize);
                claims.release(serial, &place);
                continue;
            }
            let from = random.below(40) as u8;
            let to = Some(from + 1 + random.below(6) as u8).filter(|_| !random.one_in(20));
            let from = if from == 0 { Vec::new() } else { vec![from] };
            let bounds = Bounds { from, to: to.map(|to| vec![to]) };
            let (serial, place) = (random.below(2), Place { level: 1 + random.below(2) as u8, bounds });
            let is_same_level = |other: &&(u64, Place)| (other.0, other.1.level) == (serial, place.level);
            let is_free = !list.iter().filter(is_same_level).any(|other| other.1.bounds.overlaps(&place.bounds));
            assert_eq!(claims.overlaps(serial, &place), !is_free, "{place:?}");
            assert_eq!(claims.claim(serial, &place), is_free, "{place:?}");
            if is_free {
                claimed += 1;
                list.push((serial, place));
            } else {
                refused += 1;
            }
            claims.validate();
            assert_eq!(claims.len(), list.len());
        }
        assert!(claimed > 500 && refused > 500, "{claimed} {refused}");
    }
}
