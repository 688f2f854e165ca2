//! Reading documents in place.
//!
//! | offset | size | what |
//! |---|---|---|
//! | 0 | 4 | total length, i32 little-endian, counts itself and the final NUL |
//! | 4 | ... | elements: type byte, name as C string, value |
//! | length - 1 | 1 | NUL |
//!
//! I1: bytes behind a [`Doc`] passed the validator once (at the socket, or when they were built). Reading them therefore
//! has no error cases; on bytes that break I1 the iterator ends early and never panics.

use crate::buf::DecimalCounter;
use crate::{ArrayBuf, Decimal128, DocBuf, ObjectId, Timestamp, ValueRef};

const EMPTY: &[u8] = &[5, 0, 0, 0, 0];

#[derive(Clone, Copy)]
pub struct Doc<'a>(&'a [u8]);

/// An array is a document whose names are "0", "1", ...; the names are ignored.
#[derive(Clone, Copy)]
pub struct Array<'a>(&'a [u8]);

impl<'a> Doc<'a> {
    /// Requires bytes that passed the validator (I1).
    pub fn trusted(bytes: &'a [u8]) -> Doc<'a> {
        Doc(bytes)
    }

    pub fn empty() -> Doc<'static> {
        Doc(EMPTY)
    }

    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    pub fn to_buf(self) -> DocBuf {
        DocBuf::from_trusted(self.0.to_vec())
    }

    pub fn is_empty(self) -> bool {
        self.0.len() <= 5
    }

    pub fn iter(self) -> Elements<'a> {
        Elements { rest: elements_of(self.0) }
    }

    /// Iterates over the fields without reading names and values. Much cheaper than [`Doc::iter`] where most fields are passed over.
    pub fn fields(self) -> Fields<'a> {
        Fields { reader: Reader(elements_of(self.0)) }
    }

    /// First field of that name (no dotted paths).
    pub fn get(self, name: &str) -> Option<ValueRef<'a>> {
        // PERF: fields before it are skipped by their lengths, without reading names and texts as UTF-8: 77 -> 35 ns for
        // the last of five fields of a find command (2026-11-21, best of 60 runs).
        let mut reader = Reader(elements_of(self.0));
        loop {
            let [ty] = reader.array()?;
            let end = reader.0.iter().position(|b| *b == 0)?;
            let found = reader.take(end)? == name.as_bytes();
            reader.take(1)?;
            if found {
                return reader.value(ty);
            }
            reader.skip(ty)?;
        }
    }

    pub fn first(self) -> Option<(&'a str, ValueRef<'a>)> {
        self.iter().next()
    }
}

impl<'a> IntoIterator for Doc<'a> {
    type Item = (&'a str, ValueRef<'a>);
    type IntoIter = Elements<'a>;
    fn into_iter(self) -> Elements<'a> {
        self.iter()
    }
}

impl<'a> Array<'a> {
    /// Requires bytes that passed the validator (I1).
    pub fn trusted(bytes: &'a [u8]) -> Array<'a> {
        Array(bytes)
    }

    pub fn empty() -> Array<'static> {
        Array(EMPTY)
    }

    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// Returns a copy whose elements are named "0", "1", ...
    pub fn to_buf(self) -> ArrayBuf {
        // PERF: clients name the elements so, too; reading the names costs less than appending each element.
        match self.len_if_in_order() {
            Some(len) => ArrayBuf::from_trusted(self.0.to_vec(), len),
            None => self.iter().collect(),
        }
    }

    /// Returns the number of elements if they are named "0", "1", ...
    fn len_if_in_order(self) -> Option<usize> {
        let mut name = DecimalCounter::default();
        let mut len = 0;
        for field in self.as_doc().fields() {
            if field.name != name.text() {
                return None;
            }
            name.increment();
            len += 1;
        }
        Some(len)
    }

    pub fn is_empty(self) -> bool {
        self.0.len() <= 5
    }

    pub fn iter(self) -> impl Iterator<Item = ValueRef<'a>> + Clone {
        Elements { rest: elements_of(self.0) }.map(|(_, v)| v)
    }

    pub fn len(self) -> usize {
        self.iter().count()
    }

    pub fn get(self, index: usize) -> Option<ValueRef<'a>> {
        self.iter().nth(index)
    }

    /// Returns the bytes as a document with the fields "0", "1", ...
    pub fn as_doc(self) -> Doc<'a> {
        Doc(self.0)
    }
}

impl std::fmt::Debug for Doc<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl std::fmt::Debug for Array<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

fn elements_of(bytes: &[u8]) -> &[u8] {
    bytes.get(4..bytes.len().saturating_sub(1)).unwrap_or_default()
}

/// Iterates over `(name, value)`.
#[derive(Clone)]
pub struct Elements<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Elements<'a> {
    type Item = (&'a str, ValueRef<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let (&ty, rest) = self.rest.split_first()?;
        let mut reader = Reader(rest);
        let element = reader.cstr().and_then(|name| Some((name, reader.value(ty)?)));
        self.rest = if element.is_some() { reader.0 } else { &[] };
        element
    }
}

/// A field whose name and value are not read yet.
#[derive(Clone, Copy)]
pub struct FieldRef<'a> {
    pub name: &'a [u8],
    ty: u8,
    /// Begins with the value.
    value: &'a [u8],
}

impl<'a> FieldRef<'a> {
    pub fn value(self) -> Option<ValueRef<'a>> {
        Reader(self.value).value(self.ty)
    }

    /// Returns what [`Doc::iter`] returns for the field.
    pub fn read(self) -> Option<(&'a str, ValueRef<'a>)> {
        Some((std::str::from_utf8(self.name).ok()?, self.value()?))
    }
}

/// See [`Doc::fields`].
#[derive(Clone)]
pub struct Fields<'a> {
    reader: Reader<'a>,
}

impl<'a> Iterator for Fields<'a> {
    type Item = FieldRef<'a>;

    fn next(&mut self) -> Option<FieldRef<'a>> {
        let [ty] = self.reader.array()?;
        let end = self.reader.0.iter().position(|b| *b == 0)?;
        let name = self.reader.take(end)?;
        self.reader.take(1)?;
        let value = self.reader.0;
        self.reader.skip(ty)?;
        Some(FieldRef { name, ty, value })
    }
}

/// Reads elements without looking at names and texts.
#[derive(Clone)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn of(doc: Doc<'a>) -> Reader<'a> {
        Reader(elements_of(doc.0))
    }

    /// Returns the next document, array or scope among the elements; passes over all others.
    pub(crate) fn next_nested(&mut self) -> Option<Doc<'a>> {
        loop {
            let [ty] = self.array()?;
            let name_end = self.0.iter().position(|b| *b == 0)?;
            self.take(name_end + 1)?;
            match ty {
                0x03 | 0x04 => return self.document().map(Doc),
                0x0F => {
                    self.i32()?;
                    self.skip(0x0D)?;
                    return self.document().map(Doc);
                }
                _ => self.skip(ty)?,
            }
        }
    }

    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(n)?;
        self.0 = tail;
        Some(head)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn i32(&mut self) -> Option<i32> {
        Some(i32::from_le_bytes(self.array()?))
    }

    fn i64(&mut self) -> Option<i64> {
        Some(i64::from_le_bytes(self.array()?))
    }

    fn cstr(&mut self) -> Option<&'a str> {
        let end = self.0.iter().position(|b| *b == 0)?;
        let text = self.take(end)?;
        self.take(1)?;
        std::str::from_utf8(text).ok()
    }

    fn string(&mut self) -> Option<&'a str> {
        let len = usize::try_from(self.i32()?).ok()?.checked_sub(1)?;
        let text = self.take(len)?;
        self.take(1)?;
        std::str::from_utf8(text).ok()
    }

    fn document(&mut self) -> Option<&'a [u8]> {
        let len = self.0.first_chunk::<4>().map(|b| i32::from_le_bytes(*b))?;
        self.take(usize::try_from(len).ok().filter(|len| *len >= 5)?)
    }

    /// Passes over the value of type `ty`.
    fn skip(&mut self, ty: u8) -> Option<()> {
        let prefix = || self.0.first_chunk::<4>().and_then(|b| usize::try_from(i32::from_le_bytes(*b)).ok());
        let len = match ty {
            0x06 | 0x0A | 0x7F | 0xFF => 0,
            0x08 => 1,
            0x10 => 4,
            0x01 | 0x09 | 0x11 | 0x12 => 8,
            0x07 => 12,
            0x13 => 16,
            0x02 | 0x0D | 0x0E => prefix()?.checked_add(4)?,
            0x03 | 0x04 | 0x0F => prefix()?,
            0x05 => prefix()?.checked_add(5)?,
            0x0C => prefix()?.checked_add(4 + 12)?,
            0x0B => {
                self.cstr()?;
                return self.cstr().map(drop);
            }
            _ => return None,
        };
        self.take(len).map(drop)
    }

    fn object_id(&mut self) -> Option<ObjectId> {
        Some(ObjectId(self.array()?))
    }

    fn value(&mut self, ty: u8) -> Option<ValueRef<'a>> {
        Some(match ty {
            0x01 => ValueRef::Double(f64::from_le_bytes(self.array()?)),
            0x02 => ValueRef::String(self.string()?),
            0x03 => ValueRef::Document(Doc(self.document()?)),
            0x04 => ValueRef::Array(Array(self.document()?)),
            0x05 => {
                let len = usize::try_from(self.i32()?).ok()?;
                let [subtype] = self.array()?;
                ValueRef::Binary { subtype, bytes: self.take(len)? }
            }
            0x06 => ValueRef::Undefined,
            0x07 => ValueRef::ObjectId(self.object_id()?),
            0x08 => ValueRef::Bool(self.array::<1>()? != [0]),
            0x09 => ValueRef::DateTime(self.i64()?),
            0x0A => ValueRef::Null,
            0x0B => ValueRef::Regex { pattern: self.cstr()?, options: self.cstr()? },
            0x0C => ValueRef::DbPointer { namespace: self.string()?, id: self.object_id()? },
            0x0D => ValueRef::JavaScript(self.string()?),
            0x0E => ValueRef::Symbol(self.string()?),
            0x0F => {
                self.i32()?;
                ValueRef::JavaScriptWithScope { code: self.string()?, scope: Doc(self.document()?) }
            }
            0x10 => ValueRef::Int32(self.i32()?),
            0x11 => {
                let bits = u64::from_le_bytes(self.array()?);
                ValueRef::Timestamp(Timestamp { seconds: (bits >> 32) as u32, increment: bits as u32 })
            }
            0x12 => ValueRef::Int64(self.i64()?),
            0x13 => ValueRef::Decimal128(Decimal128(self.array()?)),
            0x7F => ValueRef::MaxKey,
            0xFF => ValueRef::MinKey,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::{Decimal128, DocBuf, ObjectId, Timestamp, ValueRef, identical};

    #[test]
    fn a_field_behind_each_type_is_found() {
        let (inner, array) = (DocBuf::new().with("x", 1), [1, 2].into_iter().collect::<crate::ArrayBuf>());
        let values = [
            ValueRef::Double(1.5),
            ValueRef::String("text"),
            ValueRef::Document(inner.as_doc()),
            ValueRef::Array(array.as_array()),
            ValueRef::Binary { subtype: 0, bytes: &[1, 2, 3] },
            ValueRef::Undefined,
            ValueRef::ObjectId(ObjectId([7; 12])),
            ValueRef::Bool(true),
            ValueRef::DateTime(5),
            ValueRef::Null,
            ValueRef::Regex { pattern: "a.*", options: "i" },
            ValueRef::DbPointer { namespace: "d.c", id: ObjectId([8; 12]) },
            ValueRef::JavaScript("f()"),
            ValueRef::Symbol("s"),
            ValueRef::JavaScriptWithScope { code: "g()", scope: inner.as_doc() },
            ValueRef::Int32(-1),
            ValueRef::Timestamp(Timestamp { seconds: 1, increment: 2 }),
            ValueRef::Int64(-2),
            ValueRef::Decimal128(Decimal128([9; 16])),
            ValueRef::MinKey,
            ValueRef::MaxKey,
        ];
        let mut all = DocBuf::new();
        for (n, value) in values.into_iter().enumerate() {
            all.append(&format!("field{n}"), value);
        }
        for (name, value) in all.as_doc() {
            assert!(identical(all.get(name).unwrap(), value), "{name}");
        }
        let read: Vec<_> = all.as_doc().fields().map(|field| field.read().unwrap()).collect();
        assert_eq!(read.len(), all.as_doc().iter().count());
        for ((name, value), (expected_name, expected)) in read.into_iter().zip(all.as_doc()) {
            assert!(name == expected_name && identical(value, expected), "{name}");
        }
        assert!(all.get("field").is_none() && all.get("field210").is_none() && all.get("").is_none());
        assert!(matches!(all.with("last", 9).get("last"), Some(ValueRef::Int32(9))));
    }

    #[test]
    fn broken_bytes_end_the_search() {
        let doc = DocBuf::new().with("a", "text").with("b", 1);
        for cut in 0..doc.as_bytes().len() {
            let _ = crate::Doc::trusted(&doc.as_bytes()[..cut]).get("b");
            let broken = crate::Doc::trusted(&doc.as_bytes()[..cut]);
            assert!(broken.fields().filter_map(crate::FieldRef::read).count() <= 1, "cut to {cut}");
        }
        let mut lying = doc.as_bytes().to_vec();
        lying[7..11].copy_from_slice(&i32::MAX.to_le_bytes());
        assert!(crate::Doc::trusted(&lying).get("b").is_none());
        assert_eq!(crate::Doc::trusted(&lying).fields().count(), 0);
    }
}
