//! Values by name, in the order in which they were added.
//!
//! A specification may name hundreds of thousands of fields, and each field of a document is looked up in it; a few names
//! are compared one after the other, which is faster than hashing.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

/// Maximum number of names for linear search.
const SCANNED_MAX: usize = 8;

#[derive(Clone)]
pub(crate) struct ByName<T> {
    entries: Vec<(Box<str>, T)>,
    /// Empty while the entries are few. Of equal names the first one.
    places: HashTable<Place>,
    hasher: DefaultHashBuilder,
}

/// The position of a name.
#[derive(Clone, Copy)]
struct Place {
    /// Hash of the name: a growing table would hash all names again at once, 100 ms for a million of them.
    hash: u64,
    /// In `entries`.
    at: usize,
}

impl<T> ByName<T> {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, (Box<str>, T)> {
        self.entries.iter()
    }

    pub(crate) fn into_entries(self) -> Vec<(Box<str>, T)> {
        self.entries
    }

    pub(crate) fn get(&self, name: &str) -> Option<&T> {
        self.entry(name).map(|(_, value)| value)
    }

    /// The value with its position.
    pub(crate) fn entry(&self, name: &str) -> Option<(usize, &T)> {
        let at = self.position(name)?;
        self.entries.get(at).map(|(_, value)| (at, value))
    }

    /// Adds a value; one of the same name that was there before stays the one that is found.
    pub(crate) fn add(&mut self, name: &str, value: T) {
        self.entries.push((name.into(), value));
        match self.entries.len() {
            ..=SCANNED_MAX => {}
            len if self.places.is_empty() => (0..len).for_each(|at| self.index(at)),
            len => self.index(len - 1),
        }
    }

    /// The value of that name, added if it is missing.
    pub(crate) fn get_or_add(&mut self, name: &str, make: impl FnOnce() -> T) -> &mut T {
        let at = self.position(name).unwrap_or_else(|| {
            self.add(name, make());
            self.entries.len() - 1
        });
        &mut self.entries[at].1
    }

    fn position(&self, name: &str) -> Option<usize> {
        if self.places.is_empty() {
            return self.entries.iter().position(|(known, _)| **known == *name);
        }
        let is_it = |place: &Place| self.entries.get(place.at).is_some_and(|(known, _)| **known == *name);
        self.places.find(self.hasher.hash_one(name), is_it).map(|place| place.at)
    }

    fn index(&mut self, at: usize) {
        let ByName { entries, places, hasher } = self;
        let Some((name, _)) = entries.get(at) else { return };
        let hash = hasher.hash_one(&**name);
        let is_it = |other: &Place| entries.get(other.at).is_some_and(|(known, _)| known == name);
        places.entry(hash, is_it, |place| place.hash).or_insert(Place { hash, at });
    }
}

impl<T> Default for ByName<T> {
    fn default() -> ByName<T> {
        ByName { entries: Vec::new(), places: HashTable::new(), hasher: DefaultHashBuilder::default() }
    }
}

impl<T: std::fmt::Debug> std::fmt::Debug for ByName<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.entries.iter().map(|(name, value)| (name, value))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_many_are_found() {
        let mut by_name = ByName::default();
        for n in 0..100 {
            by_name.add(&format!("a{n}"), n);
            by_name.add("again", n);
            assert_eq!(
                (by_name.get(&format!("a{n}")), by_name.get("again"), by_name.get("a")),
                (Some(&n), Some(&0), None)
            );
            assert_eq!(by_name.entry("a0"), Some((0, &0)));
        }
        *by_name.get_or_add("a7", || unreachable!()) = 70;
        *by_name.get_or_add("new", || 1) += 1;
        assert_eq!((by_name.get("a7"), by_name.get("new"), by_name.len()), (Some(&70), Some(&2), 201));
        assert_eq!(by_name.into_entries()[2], ("a1".into(), 1));
    }
}
