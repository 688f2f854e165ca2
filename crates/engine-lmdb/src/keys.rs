//! Mapping of the rows of all trees to keys of LMDB's one database.
//!
//! One database holds everything, since named LMDB databases cost each transaction time and memory in proportion to
//! their number, and each first use in a transaction a second descent. A tree's rows share a prefix instead.
//!
//! | stored key | what |
//! |---|---|
//! | `00` + letter + ... | rows of the adapter itself, see [`records`](crate::records) |
//! | number(4 c) | head of content `c` |
//! | number(4 c + 1) + chunk | a row of content `c` |
//! | number(4 c + 2) | fence of content `c` |
//! | number(4 c + 3) | wedge of content `c`, only while it is made |
//!
//! `number(n)` = one byte with the count of big-endian bytes that follow without leading zeros (1..=8): short for small
//! numbers, in numeric order, and no number is a prefix of another.
//!
//! *Contents.* A tree is not stored under its own id but under the number of its content. Numbers rise and are never used
//! again. So emptying a tree and finishing a bulk load are the change of one record, and the rows of a dropped content
//! can be deleted at leisure.
//!
//! *Long keys.* LMDB's keys end at 511 bytes. A key of up to [`CHUNK_BYTES`] bytes is one chunk. A longer one is
//! stored as a link: its first `CHUNK_BYTES` bytes and a zero byte, with the number of another content as value, a layer,
//! which holds the rest of all keys that begin so, by the same rule. A link is longer than every other chunk, therefore
//! recognised by its length, and sorts after the row whose key is exactly its first `CHUNK_BYTES` bytes and before
//! every other larger key: the order of stored keys is the order of the keys. I1: a layer is never empty.
//!
//! *Head and fence.* LMDB fills a page to the end when keys arrive in rising order at the END OF A PAGE, and leaves
//! pages half empty or worse when a foreign key follows in the page. Rising keys are the common case (object ids, bulk
//! loads), so a tree's last page must hold no row of the next tree. A fence is a row of half a page after all rows of
//! its content, alone in a page when it is made, and too large for that page ever to be merged. How it comes to be alone:
//! a page that overflows at its end is split before its last row (`mdb_page_split`). Head, fence and wedge are put with
//! half a page each: the fence lands next to the head, the wedge pushes the fence into the next page; then the wedge is
//! deleted and the head shrinks, which merges nothing. `tests/space.rs` watches this.

/// The longest part of a key that is stored in one LMDB key.
pub(crate) const CHUNK_BYTES: usize = 500;

/// Number of a content; see the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub(crate) struct Content(pub u64);

/// A stored key on the stack. The longest is 9 bytes of number, a chunk and the link's zero: 510 bytes.
#[derive(Clone)]
pub(crate) struct StoredKey {
    bytes: [u8; 511],
    length: usize,
}

impl StoredKey {
    fn number(number: u64) -> StoredKey {
        let mut key = StoredKey { bytes: [0; 511], length: 0 };
        let skipped = (number.leading_zeros() as usize / 8).min(7);
        key.push(&[8 - skipped as u8]);
        key.push(number.to_be_bytes().get(skipped..).unwrap_or_default());
        key
    }

    fn push(&mut self, bytes: &[u8]) {
        let end = self.length + bytes.len();
        let free =
            self.bytes.get_mut(self.length..end).expect("a chunk and its content's number fit into a key of LMDB");
        free.copy_from_slice(bytes);
        self.length += bytes.len();
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

impl Content {
    pub(crate) fn head(self) -> StoredKey {
        StoredKey::number(self.0 * 4)
    }

    pub(crate) fn fence(self) -> StoredKey {
        StoredKey::number(self.0 * 4 + 2)
    }

    pub(crate) fn wedge(self) -> StoredKey {
        StoredKey::number(self.0 * 4 + 3)
    }

    /// Returns the prefix of all rows of this content; it also sorts before its first row.
    pub(crate) fn rows(self) -> StoredKey {
        StoredKey::number(self.0 * 4 + 1)
    }

    /// The place of a key that fits in one chunk.
    pub(crate) fn row(self, key: &[u8]) -> StoredKey {
        debug_assert!(key.len() <= CHUNK_BYTES);
        let mut stored = self.rows();
        stored.push(key);
        stored
    }

    /// The place of the link of all longer keys that begin with this chunk.
    pub(crate) fn link(self, chunk: &[u8]) -> StoredKey {
        debug_assert_eq!(chunk.len(), CHUNK_BYTES);
        let mut stored = self.row(chunk);
        stored.push(&[0]);
        stored
    }
}

/// The part of a stored key after the prefix.
#[derive(PartialEq, Debug)]
pub(crate) enum Chunk<'a> {
    /// The end of a key.
    Row(&'a [u8]),
    /// The first `CHUNK_BYTES` bytes of longer keys.
    Link(&'a [u8]),
}

impl<'a> Chunk<'a> {
    pub(crate) fn of(chunk: &'a [u8]) -> Chunk<'a> {
        match chunk.split_at_checked(CHUNK_BYTES) {
            Some((link, [_])) => Chunk::Link(link),
            _ => Chunk::Row(chunk),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_keys_keep_the_order() {
        let contents = [1, 2, 63, 64, 16383, 16384, 1 << 40, (1 << 62) - 1].map(Content);
        let keys: Vec<Vec<u8>> = vec![vec![], vec![0], vec![0, 0], vec![7; CHUNK_BYTES], vec![0xff; CHUNK_BYTES]];
        let mut places = Vec::new();
        for content in contents {
            places.push(content.head());
            for key in &keys {
                places.push(content.row(key));
                if key.len() == CHUNK_BYTES {
                    places.push(content.link(key));
                }
            }
            places.push(content.fence());
            places.push(content.wedge());
        }
        for pair in places.windows(2) {
            assert!(pair[0].as_slice() < pair[1].as_slice(), "{:?} {:?}", pair[0].as_slice(), pair[1].as_slice());
            assert!(pair[1].as_slice().len() <= 511);
        }
    }

    #[test]
    fn links_are_recognised_by_their_length() {
        let chunk = [9; CHUNK_BYTES];
        let prefix = Content(5).rows().as_slice().len();
        assert_eq!(Chunk::of(&Content(5).row(&chunk).as_slice()[prefix..]), Chunk::Row(&chunk));
        assert_eq!(Chunk::of(&Content(5).link(&chunk).as_slice()[prefix..]), Chunk::Link(&chunk));
        assert_eq!(Chunk::of(&[]), Chunk::Row(&[]));
    }
}
