//! Decoding the fields of a note.

use arbor_bson::{Doc, INTERNAL_SIZE_MAX, Limits, validate};

/// A delta nests deeper than its documents, and those of versions before the limit nest deeper still.
const LIMITS: Limits = Limits { depth_max: 1000, size_max: INTERNAL_SIZE_MAX };

/// Bytes of a note that no build of Arbor wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("corrupt change entry in the log: {0}")]
pub struct Malformed(pub &'static str);

pub(crate) type Decoded<T> = Result<T, Malformed>;

/// The unread bytes of a note.
#[derive(Clone, Copy)]
pub(crate) struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    pub fn take(&mut self, count: usize) -> Decoded<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(count).ok_or(Malformed("it ends too early"))?;
        self.0 = rest;
        Ok(head)
    }

    pub fn array<const N: usize>(&mut self) -> Decoded<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk().ok_or(Malformed("it ends too early"))?;
        self.0 = rest;
        Ok(*head)
    }

    pub fn byte(&mut self) -> Decoded<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub fn doc(&mut self) -> Decoded<Doc<'a>> {
        let length = self.0.first_chunk().map(|head| u32::from_le_bytes(*head) as usize);
        let bytes = self.take(length.ok_or(Malformed("it ends too early"))?)?;
        validate(bytes, LIMITS).map_err(|_| Malformed("a document in it is invalid"))
    }

    /// Checks that nothing is left.
    pub fn end(self) -> Decoded<()> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed("bytes after its end")) }
    }
}
