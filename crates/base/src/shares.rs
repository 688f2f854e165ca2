//! Shares of a scarce resource per owner, so that one owner cannot use it up for all others.
//!
//! If there is no room for one more, the owner with the most gives its oldest: an owner that keeps to its share never
//! loses anything to another one.

use std::collections::{BTreeMap, HashMap};

/// Keys by owner, each owner's in the order of their stamps.
#[derive(Debug)]
pub struct Shares<K> {
    owners: HashMap<u64, BTreeMap<Stamp, K>>,
    next: u64,
    len: usize,
}

/// The moment a key was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp(u64);

impl<K> Default for Shares<K> {
    fn default() -> Shares<K> {
        Shares { owners: HashMap::new(), next: 0, len: 0 }
    }
}

impl<K> Shares<K> {
    pub fn add(&mut self, owner: u64, key: K) -> Stamp {
        let stamp = Stamp(self.next);
        self.next += 1;
        self.len += 1;
        self.owners.entry(owner).or_default().insert(stamp, key);
        stamp
    }

    /// Returns the key, unless it was removed before.
    pub fn remove(&mut self, owner: u64, stamp: Stamp) -> Option<K> {
        let keys = self.owners.get_mut(&owner)?;
        let key = keys.remove(&stamp)?;
        if keys.is_empty() {
            self.owners.remove(&owner);
        }
        self.len -= 1;
        Some(key)
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The keys of the owner with the most, oldest first; among equal owners of the one with the oldest key.
    pub fn of_greatest(&self) -> impl Iterator<Item = &K> {
        let oldest = |keys: &BTreeMap<Stamp, K>| keys.keys().next().copied();
        let greatest = self.owners.values().max_by_key(|keys| (keys.len(), std::cmp::Reverse(oldest(keys))));
        greatest.into_iter().flat_map(BTreeMap::values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_with_the_most_gives_its_oldest() {
        let mut shares = Shares::default();
        let modest = shares.add(1, "a");
        for key in ["b", "c", "d"] {
            shares.add(2, key);
        }
        assert_eq!(shares.of_greatest().copied().collect::<Vec<_>>(), ["b", "c", "d"]);
        assert_eq!((shares.len(), shares.remove(1, modest), shares.remove(1, modest)), (4, Some("a"), None));
        assert_eq!(shares.len(), 3);
    }

    #[test]
    fn among_equals_the_one_with_the_oldest_gives() {
        let mut shares = Shares::default();
        assert_eq!((shares.of_greatest().count(), shares.is_empty()), (0, true));
        for (owner, key) in [(7, "a"), (8, "b")] {
            shares.add(owner, key);
        }
        assert_eq!(shares.of_greatest().next(), Some(&"a"));
    }
}
