//! Layout of records and index entries.
//!
//! | tree | key | value |
//! |---|---|---|
//! | records | KeyString(`_id`) | the document |
//! | index, not unique | KeyString(values) ++ KeyString(`_id`) | varint length of KeyString(values), type bits of values |
//! | index, unique | KeyString(values) | varint length of KeyString(`_id`), KeyString(`_id`), type bits of values |
//!
//! A clustering index has the length of the type bits (varint) before them, and after them the document.
//!
//! The type bits restore differences that KeyStrings do not encode (int 1 and double 1.0); they are often empty. A varint is
//! LEB128. A text index has the term's score in place of the type bits. The type bits of the `_id` are not kept: the document has the `_id` itself.

use crate::{Error, Index, Result};

/// The parts of one index entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parts<'a> {
    pub values: &'a [u8],
    pub id_key: &'a [u8],
    pub type_bits: &'a [u8],
    /// Kept by clustering indexes only.
    pub document: &'a [u8],
}

pub(crate) fn push_varint(out: &mut Vec<u8>, mut n: usize) {
    assert!(n < 1 << (7 * VARINT_BYTES_MAX), "{n} would not be read again");
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

/// Bytes of a varint that are read at most.
const VARINT_BYTES_MAX: usize = 5;

fn take_varint(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut n = 0usize;
    for (i, byte) in bytes.iter().enumerate().take(VARINT_BYTES_MAX) {
        n |= usize::from(byte & 0x7f) << (7 * i);
        if byte & 0x80 == 0 {
            return Some((n, bytes.get(i + 1..)?));
        }
    }
    None
}

pub(crate) fn key_of(index: &Index, values: &[u8], id_key: &[u8]) -> Vec<u8> {
    if index.unique { values.to_vec() } else { [values, id_key].concat() }
}

/// Key and value of an entry.
pub(crate) fn encode(index: &Index, parts: Parts<'_>) -> (Vec<u8>, Vec<u8>) {
    let Parts { values, id_key, type_bits, document } = parts;
    let document = if index.clustering { document } else { &[] };
    let in_value = if index.unique { id_key } else { &[] };
    let mut value = Vec::with_capacity(8 + in_value.len() + type_bits.len() + document.len());
    push_varint(&mut value, if index.unique { id_key.len() } else { values.len() });
    value.extend_from_slice(in_value);
    if index.clustering {
        push_varint(&mut value, type_bits.len());
    }
    value.extend_from_slice(type_bits);
    value.extend_from_slice(document);
    let key = key_of(index, values, id_key);
    let parts = Parts { values, id_key, type_bits, document };
    debug_assert!(decode(index, &key, &value).is_ok_and(|read| read == parts), "an entry is read as it was written");
    (key, value)
}

/// Offsets of the parts, so that a cursor need not hold borrows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cuts {
    /// Length of the values in the key, or of the id key in the value.
    len: usize,
    /// Offset at which the id key begins, or would, in the value.
    id_key: usize,
    type_bits: usize,
    document: usize,
}

pub(crate) fn cuts(index: &Index, key: &[u8], value: &[u8]) -> Option<Cuts> {
    let (len, rest) = take_varint(value)?;
    let id_key = value.len() - rest.len();
    let rest = rest.get(if index.unique { len } else { 0 }..)?;
    if !index.unique && len > key.len() {
        return None;
    }
    if !index.clustering {
        return Some(Cuts { len, id_key, type_bits: value.len() - rest.len(), document: value.len() });
    }
    let (bits, rest) = take_varint(rest)?;
    let type_bits = value.len() - rest.len();
    (bits <= rest.len()).then_some(Cuts { len, id_key, type_bits, document: type_bits + bits })
}

impl Cuts {
    /// Requires the key and value that the cuts were made for.
    pub(crate) fn parts<'a>(self, index: &Index, key: &'a [u8], value: &'a [u8]) -> Parts<'a> {
        debug_assert!(self.document <= value.len() && self.type_bits <= self.document, "cuts of another entry");
        let type_bits = value.get(self.type_bits..self.document).unwrap_or_default();
        let document = value.get(self.document..).unwrap_or_default();
        let (values, id_key) = match index.unique {
            true => (key, value.get(self.id_key..self.id_key + self.len).unwrap_or_default()),
            false => key.split_at_checked(self.len).unwrap_or_default(),
        };
        Parts { values, id_key, type_bits, document }
    }
}

pub(crate) fn decode<'a>(index: &Index, key: &'a [u8], value: &'a [u8]) -> Result<Parts<'a>> {
    match cuts(index, key, value) {
        Some(cuts) => Ok(cuts.parts(index, key, value)),
        None => Err(corrupt(index)),
    }
}

pub(crate) fn corrupt(index: &Index) -> Error {
    Error::Corrupt { place: format!("index {}", index.name), reason: "an entry does not decode".into() }
}
