//! One note: what a change of a document, or of the catalogue, means.
//!
//! | size | what |
//! |---|---|
//! | 1 | kind, and flags: 0x40 a statement number follows, 0x80 the document before follows |
//! | 4 | number of the statement, little-endian |
//! | ... | the document as it was before (for pre-images); of a command, `o2` of its entry |
//! | ... | update: the delta; unread update: the document key and the delta; delete: the document key; command and no-op: what it says |
//!
//! The document after an insert, a replacement or an update is the value that the note refers to in its record; after an unread
//! update it is not known.

use arbor_base::Fields;
use arbor_bson::Doc;

use crate::bytes::{Decoded, Malformed, end, take_doc};

const INSERT: u8 = 1;
const REPLACE: u8 = 2;
const UPDATE: u8 = 3;
const DELETE: u8 = 4;
const COMMAND: u8 = 5;
const NOOP: u8 = 6;
const UNREAD_UPDATE: u8 = 7;

const KIND: u8 = 0x3f;
const HAS_STATEMENT: u8 = 0x40;
const HAS_BEFORE: u8 = 0x80;

#[derive(Clone, Copy, Debug)]
pub enum Kind<'a> {
    Insert,
    Replace,
    /// With the delta, see [`crate::delta`].
    Update(Doc<'a>),
    /// An update message, which was made without reading the document.
    UnreadUpdate {
        key: Doc<'a>,
        delta: Doc<'a>,
    },
    /// With the document key.
    Delete(Doc<'a>),
    /// A change of the catalogue, as `o` of its entry says it.
    Command(Doc<'a>),
    Noop(Doc<'a>),
}

#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    pub kind: Kind<'a>,
    /// Number of the statement of its command that made it, for retryable writes.
    pub statement: Option<i32>,
    /// The document before, when the collection keeps pre-images; of a command, what its entry says as `o2` (how the
    /// collection or the index was before).
    pub before: Option<Doc<'a>>,
}

impl<'a> Kind<'a> {
    /// Returns what an update changes in the document.
    pub fn delta(self) -> Option<Doc<'a>> {
        match self {
            Kind::Update(delta) | Kind::UnreadUpdate { delta, .. } => Some(delta),
            _ => None,
        }
    }
}

impl<'a> Change<'a> {
    pub fn of(kind: Kind<'a>) -> Change<'a> {
        Change { kind, statement: None, before: None }
    }

    pub fn encode(&self) -> Vec<u8> {
        let (kind, key, doc) = match self.kind {
            Kind::Insert => (INSERT, None, None),
            Kind::Replace => (REPLACE, None, None),
            Kind::Update(difference) => (UPDATE, None, Some(difference)),
            Kind::UnreadUpdate { key, delta } => (UNREAD_UPDATE, Some(key), Some(delta)),
            Kind::Delete(key) => (DELETE, None, Some(key)),
            Kind::Command(command) => (COMMAND, None, Some(command)),
            Kind::Noop(says) => (NOOP, None, Some(says)),
        };
        let flags = if self.statement.is_some() { HAS_STATEMENT } else { 0 };
        let flags = flags | if self.before.is_some() { HAS_BEFORE } else { 0 };
        let size = |doc: Option<Doc<'_>>| doc.map_or(0, |doc| doc.as_bytes().len());
        let mut out = Vec::with_capacity(5 + size(self.before) + size(key) + size(doc));
        out.push(kind | flags);
        out.extend(self.statement.iter().flat_map(|statement| statement.to_le_bytes()));
        out.extend(self.before.iter().flat_map(|before| before.as_bytes()));
        out.extend(key.iter().chain(&doc).flat_map(|doc| doc.as_bytes()));
        out
    }

    pub fn decode(bytes: &'a [u8]) -> Decoded<Change<'a>> {
        let mut rest = Fields::new(bytes);
        let head = rest.u8().ok_or(Malformed::SHORT)?;
        let statement = match head & HAS_STATEMENT {
            0 => None,
            _ => Some(rest.i32().ok_or(Malformed::SHORT)?),
        };
        let before = if head & HAS_BEFORE == 0 { None } else { Some(take_doc(&mut rest)?) };
        let kind = match head & KIND {
            INSERT => Kind::Insert,
            REPLACE => Kind::Replace,
            UPDATE => Kind::Update(take_doc(&mut rest)?),
            DELETE => Kind::Delete(take_doc(&mut rest)?),
            COMMAND => Kind::Command(take_doc(&mut rest)?),
            NOOP => Kind::Noop(take_doc(&mut rest)?),
            UNREAD_UPDATE => Kind::UnreadUpdate { key: take_doc(&mut rest)?, delta: take_doc(&mut rest)? },
            _ => return Err(Malformed("unknown kind of change")),
        };
        end(rest)?;
        Ok(Change { kind, statement, before })
    }
}

#[cfg(test)]
mod tests {
    use arbor_bson::DocBuf;

    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        let (small, large) = (DocBuf::new().with("_id", 1i32), DocBuf::new().with("s", "x".repeat(300).as_str()));
        let (small, large) = (small.as_doc(), large.as_doc());
        let kinds = [
            Kind::Insert,
            Kind::Replace,
            Kind::Update(large),
            Kind::UnreadUpdate { key: small, delta: large },
            Kind::Delete(small),
            Kind::Command(large),
            Kind::Noop(small),
        ];
        for kind in kinds {
            for statement in [None, Some(0), Some(i32::MAX)] {
                for before in [None, Some(large)] {
                    let change = Change { kind, statement, before };
                    let bytes = change.encode();
                    assert_eq!(format!("{:?}", Change::decode(&bytes).unwrap()), format!("{change:?}"));
                    for end in 0..bytes.len() {
                        assert!(Change::decode(&bytes[..end]).is_err(), "{change:?} cut at {end}");
                    }
                }
            }
        }
        assert_eq!(Change::decode(&[INSERT, 0]).unwrap_err(), Malformed("bytes after its end"));
        assert_eq!(Change::decode(&[9]).unwrap_err(), Malformed("unknown kind of change"));
    }
}
