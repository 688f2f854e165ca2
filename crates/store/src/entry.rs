//! Layout of records and index entries.
//!
//! | tree | key | value |
//! |---|---|---|
//! | records | KeyString(`_id`) | the document |
//! | index, not unique | KeyString(values) ++ KeyString(`_id`) | varint length of KeyString(values), type bits of values |
//! | index, unique | KeyString(values) | varint length of KeyString(`_id`), KeyString(`_id`), type bits of values |
//!
//! The type bits restore what KeyStrings do not tell apart (int 1 and double 1.0); they are often empty. A varint is
//! LEB128. The type bits of the `_id` are not kept: the document has the `_id` itself.

use crate::{Error, Index, Result};

/// The parts of one index entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parts<'a> {
    pub values: &'a [u8],
    pub id_key: &'a [u8],
    pub type_bits: &'a [u8],
}

pub(crate) fn push_varint(out: &mut Vec<u8>, mut n: usize) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

fn take_varint(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut n = 0usize;
    for (i, byte) in bytes.iter().enumerate().take(5) {
        n |= usize::from(byte & 0x7f) << (7 * i);
        if byte & 0x80 == 0 {
            return Some((n, bytes.get(i + 1..)?));
        }
    }
    None
}

/// Key and value of an entry.
pub(crate) fn encode(unique: bool, parts: Parts<'_>) -> (Vec<u8>, Vec<u8>) {
    let Parts { values, id_key, type_bits } = parts;
    if unique {
        let mut value = Vec::with_capacity(3 + id_key.len() + type_bits.len());
        push_varint(&mut value, id_key.len());
        value.extend_from_slice(id_key);
        value.extend_from_slice(type_bits);
        return (values.to_vec(), value);
    }
    let mut key = Vec::with_capacity(values.len() + id_key.len());
    key.extend_from_slice(values);
    key.extend_from_slice(id_key);
    let mut value = Vec::with_capacity(2 + type_bits.len());
    push_varint(&mut value, values.len());
    value.extend_from_slice(type_bits);
    (key, value)
}

/// Lengths of the parts, so that a cursor need not hold borrows: (values, id key in value).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cuts {
    len: usize,
    header: usize,
}

pub(crate) fn cuts(unique: bool, key: &[u8], value: &[u8]) -> Option<Cuts> {
    let (len, rest) = take_varint(value)?;
    let fits = if unique { len <= rest.len() } else { len <= key.len() };
    fits.then_some(Cuts { len, header: value.len() - rest.len() })
}

impl Cuts {
    /// Requires the key and value that the cuts were made for.
    pub fn parts<'a>(self, unique: bool, key: &'a [u8], value: &'a [u8]) -> Parts<'a> {
        let rest = value.get(self.header..).unwrap_or_default();
        let whole = if unique { rest } else { key };
        let (head, tail) = whole.split_at_checked(self.len).unwrap_or_default();
        if unique {
            Parts { values: key, id_key: head, type_bits: tail }
        } else {
            Parts { values: head, id_key: tail, type_bits: rest }
        }
    }
}

pub(crate) fn decode<'a>(index: &Index, key: &'a [u8], value: &'a [u8]) -> Result<Parts<'a>> {
    match cuts(index.unique, key, value) {
        Some(cuts) => Ok(cuts.parts(index.unique, key, value)),
        None => Err(corrupt(index)),
    }
}

pub(crate) fn corrupt(index: &Index) -> Error {
    Error::Corrupt { place: format!("index {}", index.name), reason: "an entry does not decode".into() }
}
