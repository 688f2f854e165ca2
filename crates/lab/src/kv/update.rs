//! Meaning of update messages in this benchmark.

use arbor_engine::UpdateFunction;

/// A message is a number (8 bytes, little-endian) that is added, wrapping, to the first 8 bytes of a row. There is no row
/// where there was none, and shorter rows stay as they are.
pub struct Increment;

fn number(bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk().copied().map(u64::from_le_bytes)
}

impl UpdateFunction for Increment {
    fn apply(&self, _key: &[u8], row: Option<&[u8]>, update: &[u8]) -> Option<Vec<u8>> {
        let mut row = row?.to_vec();
        if let (Some(old), Some(by), Some(head)) = (number(&row), number(update), row.first_chunk_mut()) {
            *head = old.wrapping_add(by).to_le_bytes();
        }
        Some(row)
    }

    fn combine(&self, older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        Some(number(older)?.wrapping_add(number(newer)?).to_le_bytes().to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_to_the_head_of_a_row() {
        let message = 3u64.to_le_bytes();
        let row = [&250u64.to_le_bytes()[..], b"tail"].concat();
        assert_eq!(Increment.apply(b"", Some(&row), &message), Some([&253u64.to_le_bytes()[..], b"tail"].concat()));
        assert_eq!(Increment.apply(b"", Some(b"short"), &message), Some(b"short".to_vec()));
        assert_eq!(Increment.apply(b"", None, &message), None);
        assert_eq!(Increment.combine(&message, &message), Some(6u64.to_le_bytes().to_vec()));
    }
}
