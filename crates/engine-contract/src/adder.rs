//! The update function of the contract suite: counters.

use arbor_engine::UpdateFunction;

/// A message is a number (8 bytes, little-endian) that is added, wrapping, to the number that the row is. No row counts as
/// zero, and a sum of zero is no row. Rows and messages that are no numbers stay what they are and change nothing.
pub struct Adder;

fn number(bytes: &[u8]) -> Option<u64> {
    bytes.try_into().ok().map(u64::from_le_bytes)
}

impl UpdateFunction for Adder {
    fn apply(&self, _key: &[u8], row: Option<&[u8]>, update: &[u8]) -> Option<Vec<u8>> {
        let sum = match (row.map_or(Some(0), number), number(update)) {
            (Some(row), Some(update)) => row.wrapping_add(update),
            _ => return row.map(<[u8]>::to_vec),
        };
        (sum != 0).then(|| sum.to_le_bytes().to_vec())
    }

    fn combine(&self, older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        let sum = number(older)?.wrapping_add(number(newer)?);
        Some(sum.to_le_bytes().to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn combined_messages_do_what_both_do() {
        let numbers = [0u64, 1, 2, u64::MAX, 7].map(|number| number.to_le_bytes().to_vec());
        let rows = [None, Some(b"".to_vec()), Some(b"text".to_vec()), Some(5u64.to_le_bytes().to_vec())];
        let rows = rows.into_iter().chain(numbers.iter().cloned().map(Some));
        for row in rows {
            for (older, newer) in numbers.iter().flat_map(|older| numbers.iter().map(move |newer| (older, newer))) {
                let first = Adder.apply(b"k", row.as_deref(), older);
                let both = Adder.combine(older, newer).unwrap();
                let one_by_one = Adder.apply(b"k", first.as_deref(), newer);
                assert_eq!(one_by_one, Adder.apply(b"k", row.as_deref(), &both), "{row:?} {older:?} {newer:?}");
            }
        }
        assert_eq!(Adder.combine(b"x", &numbers[0]), None);
    }
}
