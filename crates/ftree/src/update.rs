//! Chains of update messages: the value of an entry of kind [`Update`](crate::Kind::Update).
//!
//! | part | bytes |
//! |---|---|
//! | length of the update | 4, little-endian |
//! | update | as many |
//! | ... | the next newer update |
//!
//! The contents of an update are known to the [`UpdateFunction`] alone. An empty chain changes nothing.

use std::borrow::Cow;

use arbor_engine::UpdateFunction;

use crate::{Error, Result};

const LENGTH_BYTES: usize = 4;

/// Appends `update`, which is newer than what the chain holds.
pub fn push(chain: &mut Vec<u8>, update: &[u8]) {
    let length = u32::try_from(update.len()).expect("a row, and so an update of it, is shorter than 4 GiB");
    chain.extend_from_slice(&length.to_le_bytes());
    chain.extend_from_slice(update);
}

/// The chain that holds one update.
pub fn chain_of(update: &[u8]) -> Vec<u8> {
    let mut chain = Vec::with_capacity(LENGTH_BYTES + update.len());
    push(&mut chain, update);
    chain
}

/// The updates of a chain, oldest first. Ends after the first error.
pub fn iter(chain: &[u8]) -> Updates<'_> {
    Updates { rest: chain }
}

pub struct Updates<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Updates<'a> {
    type Item = Result<&'a [u8]>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let split = self.rest.split_first_chunk::<LENGTH_BYTES>().and_then(|(length, rest)| {
            let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
            rest.split_at_checked(length)
        });
        let Some((update, rest)) = split else {
            let context = format!("truncated update message, {} trailing bytes", self.rest.len());
            self.rest = &[];
            return Some(Err(Error::Corrupt { place: "a chain of updates".into(), context }));
        };
        self.rest = rest;
        Some(Ok(update))
    }
}

/// The row after all updates of the chain. Errors: `Corrupt` for a chain that is none.
pub fn apply_chain(
    function: &dyn UpdateFunction,
    key: &[u8],
    row: Option<&[u8]>,
    chain: &[u8],
) -> Result<Option<Vec<u8>>> {
    let mut updates = iter(chain);
    let Some(first) = updates.next() else { return Ok(row.map(<[u8]>::to_vec)) };
    let mut row = function.apply(key, row, first?);
    for update in updates {
        row = function.apply(key, row.as_deref(), update?);
    }
    Ok(row)
}

/// Returns one chain that does what `chains`, oldest first, do one after another. Neighbouring updates are combined where the
/// function can do so.
pub fn combine<'a>(
    function: Option<&dyn UpdateFunction>,
    chains: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Vec<u8>> {
    let mut all: Vec<Cow<'_, [u8]>> = Vec::new();
    for update in chains.into_iter().flat_map(iter) {
        let mut update = Cow::Borrowed(update?);
        while let Some(both) = all.last().and_then(|last| function?.combine(last, &update)) {
            all.pop();
            update = Cow::Owned(both);
        }
        all.push(update);
    }
    let mut chain = Vec::with_capacity(all.iter().map(|update| LENGTH_BYTES + update.len()).sum());
    all.iter().for_each(|update| push(&mut chain, update));
    Ok(chain)
}

/// Returns the number of updates in the chain.
pub fn count(chain: &[u8]) -> usize {
    iter(chain).filter(Result::is_ok).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows are text. `+x` appends, `=x` sets, `-` deletes. Two `+` combine, and `=` swallows what is older.
    struct Text;

    impl UpdateFunction for Text {
        fn apply(&self, _: &[u8], row: Option<&[u8]>, update: &[u8]) -> Option<Vec<u8>> {
            match update.split_first() {
                Some((b'+', more)) => Some([row.unwrap_or_default(), more].concat()),
                Some((b'=', all)) => Some(all.to_vec()),
                _ => None,
            }
        }

        fn combine(&self, older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
            match (older.first(), newer.first()) {
                (Some(b'+'), Some(b'+')) => Some([older, &newer[1..]].concat()),
                (_, Some(b'=')) => Some(newer.to_vec()),
                _ => None,
            }
        }
    }

    fn chain(updates: &[&str]) -> Vec<u8> {
        let mut chain = Vec::new();
        updates.iter().for_each(|update| push(&mut chain, update.as_bytes()));
        chain
    }

    #[test]
    fn a_chain_applies_oldest_first() {
        let check = |row: Option<&str>, updates: &[&str], expect: Option<&str>| {
            let row = apply_chain(&Text, b"k", row.map(str::as_bytes), &chain(updates)).unwrap();
            assert_eq!(row.as_deref(), expect.map(str::as_bytes), "{updates:?}");
        };
        check(Some("a"), &[], Some("a"));
        check(None, &[], None);
        check(Some("a"), &["+b", "+c"], Some("abc"));
        check(Some("a"), &["=x", "+c"], Some("xc"));
        check(Some("a"), &["+b", "-"], None);
        check(None, &["-", "+b"], Some("b"));
    }

    #[test]
    fn neighbouring_updates_combine_as_far_as_they_can() {
        let check = |older: &[&str], newer: &[&str], expect: &[&str]| {
            let found = combine(Some(&Text), [chain(older).as_slice(), &chain(newer)]).unwrap();
            assert_eq!(found, chain(expect), "{older:?} {newer:?}");
        };
        check(&["+a"], &["+b"], &["+ab"]);
        check(&["-", "+a"], &["+b", "+c"], &["-", "+abc"]);
        check(&["-", "+a"], &["=b"], &["=b"]);
        check(&["+a"], &["-"], &["+a", "-"]);
        check(&[], &["-"], &["-"]);
        let found = combine(None, [chain(&["+a"]).as_slice(), &chain(&["+b"])]).unwrap();
        assert_eq!(found, chain(&["+a", "+b"]));
    }

    #[test]
    fn broken_chains_are_errors() {
        for broken in [&[1u8, 0][..], &[5, 0, 0, 0, 1], &[0xff; 6]] {
            assert!(apply_chain(&Text, b"k", None, broken).is_err(), "{broken:?}");
            assert!(combine(None, [broken]).is_err());
            assert_eq!(iter(broken).count(), 1);
        }
        assert_eq!(count(&chain(&["+a", "", "-"])), 3);
        assert_eq!(chain_of(b"-"), chain(&["-"]));
    }
}
