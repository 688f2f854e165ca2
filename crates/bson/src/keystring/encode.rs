//! From values to keys.

use super::{END, ESCAPE, MAX, MIN, class, code, number, types::TypeWriter};
use crate::{ByBytes, Elements, TextOrder, ValueRef, canonical_type};

/// A finished key. Equal `bytes` mean equal values; `type_bits` are needed only to get the values back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    pub bytes: Vec<u8>,
    pub type_bits: Vec<u8>,
}

/// Bytes of one component between two calls of `proceed`.
const PART_BYTES: usize = 64 << 10;

/// Builds a key component by component; may be cleared and used again without a new allocation.
#[derive(Clone, Default)]
pub struct KeyBuilder {
    bytes: Vec<u8>,
    types: TypeWriter,
}

/// The key of one value, ascending: what a record is stored under.
pub fn key_of(value: ValueRef<'_>) -> Key {
    KeyBuilder::new().push(value, false).finish()
}

impl KeyBuilder {
    pub fn new() -> KeyBuilder {
        KeyBuilder { bytes: Vec::with_capacity(32), types: TypeWriter::default() }
    }

    pub fn push(&mut self, value: ValueRef<'_>, descending: bool) -> &mut KeyBuilder {
        self.push_by(&ByBytes, value, descending)
    }

    /// [`KeyBuilder::push`] with the keys of another order in the place of strings, at any depth: those are what is had
    /// back from the key.
    pub fn push_by<O: TextOrder>(&mut self, order: &O, value: ValueRef<'_>, descending: bool) -> &mut KeyBuilder {
        self.push_while(order, value, descending, |_| true)
    }

    /// [`KeyBuilder::push_by`] that asks after each part of a large value, with its bytes, if it is to proceed. False leaves a truncated key,
    /// which must not be used.
    pub fn push_while<O: TextOrder>(
        &mut self,
        order: &O,
        value: ValueRef<'_>,
        descending: bool,
        proceed: impl FnMut(usize) -> bool,
    ) -> &mut KeyBuilder {
        let start = self.bytes.len();
        match value {
            ValueRef::Document(_) | ValueRef::Array(_) | ValueRef::JavaScriptWithScope { .. } => {
                self.nested(value, order, proceed);
            }
            scalar => self.scalar(scalar, order),
        }
        if descending {
            self.bytes.iter_mut().skip(start).for_each(|byte| *byte = !*byte);
        }
        self
    }

    /// Sorts before every value in this place, ascending or descending.
    pub fn push_min(&mut self) -> &mut KeyBuilder {
        self.push_raw(&[MIN])
    }

    /// Sorts after every value in this place, ascending or descending.
    pub fn push_max(&mut self) -> &mut KeyBuilder {
        self.push_raw(&[MAX])
    }

    /// Bytes that are a component already, or a bound such as [`super::type_lower_bound`].
    pub fn push_raw(&mut self, bytes: &[u8]) -> &mut KeyBuilder {
        self.bytes.extend_from_slice(bytes);
        self
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn type_bits(&self) -> &[u8] {
        self.types.as_bytes()
    }

    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub fn clear(&mut self) -> &mut KeyBuilder {
        self.bytes.clear();
        self.types.clear();
        self
    }

    /// Takes the key out and leaves the builder empty.
    pub fn finish(&mut self) -> Key {
        Key { bytes: std::mem::take(&mut self.bytes), type_bits: std::mem::take(&mut self.types).into_bytes() }
    }

    fn scalar(&mut self, value: ValueRef<'_>, strings: &impl TextOrder) {
        let out = &mut self.bytes;
        match value {
            ValueRef::Int32(v) => number::int32(out, &mut self.types, v),
            ValueRef::Int64(v) => number::int64(out, &mut self.types, v),
            ValueRef::ObjectId(v) => with_class(out, class::OBJECT_ID, &v.0),
            ValueRef::String(v) => self.string(v, code::DEFAULT, strings),
            ValueRef::Symbol(v) => self.string(v, code::SYMBOL, strings),
            ValueRef::Double(v) => number::double(out, &mut self.types, v),
            ValueRef::Decimal128(v) => number::decimal(out, &mut self.types, v),
            ValueRef::DateTime(v) => with_class(out, class::DATE_TIME, &((v as u64) ^ 1 << 63).to_be_bytes()),
            ValueRef::Bool(v) => out.push(if v { class::TRUE } else { class::FALSE }),
            ValueRef::Timestamp(v) => {
                with_class(out, class::TIMESTAMP, &v.seconds.to_be_bytes());
                out.extend_from_slice(&v.increment.to_be_bytes());
            }
            ValueRef::Binary { subtype, bytes } => binary(out, subtype, bytes),
            ValueRef::Regex { pattern, options } => {
                out.push(class::REGEX);
                text(out, pattern);
                text(out, options);
            }
            ValueRef::DbPointer { namespace, id } => {
                with_class(out, class::DB_POINTER, &(namespace.len() as u32).to_be_bytes());
                out.extend_from_slice(namespace.as_bytes());
                out.extend_from_slice(&id.0);
            }
            ValueRef::JavaScript(v) => {
                out.push(class::JAVASCRIPT);
                text(out, v);
            }
            ValueRef::MinKey => out.push(class::MIN_KEY),
            ValueRef::Undefined => out.push(class::UNDEFINED),
            ValueRef::Null => out.push(class::NULL),
            ValueRef::MaxKey => out.push(class::MAX_KEY),
            ValueRef::Document(_) | ValueRef::Array(_) | ValueRef::JavaScriptWithScope { .. } => {}
        }
    }

    fn string(&mut self, v: &str, code: u8, strings: &impl TextOrder) {
        self.bytes.push(class::STRING);
        text(&mut self.bytes, &strings.key(v));
        self.types.push(code);
    }

    /// Walks with a stack on the heap, whatever the depth.
    fn nested(&mut self, value: ValueRef<'_>, strings: &impl TextOrder, mut proceed: impl FnMut(usize) -> bool) {
        let mut open: Vec<Open<'_>> = self.head(value, strings).into_iter().collect();
        // every element adds a byte at least, so this bounds the elements between two questions as well
        let mut asked_at = self.bytes.len();
        while let Some(innermost) = open.last_mut() {
            let grown = self.bytes.len() - asked_at;
            if grown >= PART_BYTES {
                asked_at += grown;
                if !proceed(grown) {
                    return;
                }
            }
            let Some((name, value)) = innermost.elements.next() else {
                self.bytes.push(END);
                open.pop();
                continue;
            };
            if innermost.named {
                self.bytes.push(canonical_type(value));
                text(&mut self.bytes, name);
            }
            open.extend(self.head(value, strings));
        }
    }

    /// A whole scalar, or the head of a nested value and what is inside it.
    fn head<'v>(&mut self, value: ValueRef<'v>, strings: &impl TextOrder) -> Option<Open<'v>> {
        match value {
            ValueRef::Document(v) => {
                self.bytes.push(class::DOCUMENT);
                Some(Open { elements: v.iter(), named: true })
            }
            ValueRef::Array(v) => {
                self.bytes.push(class::ARRAY);
                Some(Open { elements: v.as_doc().iter(), named: false })
            }
            ValueRef::JavaScriptWithScope { code, scope } => {
                self.bytes.push(class::JAVASCRIPT_WITH_SCOPE);
                text(&mut self.bytes, code);
                Some(Open { elements: scope.iter(), named: true })
            }
            scalar => {
                self.scalar(scalar, strings);
                None
            }
        }
    }
}

struct Open<'a> {
    elements: Elements<'a>,
    named: bool,
}

fn with_class(out: &mut Vec<u8>, class: u8, content: &[u8]) {
    out.push(class);
    out.extend_from_slice(content);
}

fn text(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    if bytes.iter().all(|byte| *byte > ESCAPE) {
        out.extend_from_slice(bytes);
    } else {
        for byte in bytes {
            match byte {
                0 | 1 => out.extend_from_slice(&[ESCAPE, byte + 1]),
                _ => out.push(*byte),
            }
        }
    }
    out.push(END);
}

fn binary(out: &mut Vec<u8>, subtype: u8, bytes: &[u8]) {
    out.push(class::BINARY);
    match u8::try_from(bytes.len()) {
        Ok(len) if len < 0xFF => out.push(len),
        _ => with_class(out, 0xFF, &(bytes.len() as u32).to_be_bytes()),
    }
    out.push(subtype);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ArrayBuf;

    #[test]
    fn the_key_of_a_large_value_is_truncated_on_request() {
        let array: ArrayBuf = vec![ValueRef::Null; 1_000_000].into_iter().collect();
        let (value, mut parts) = (ValueRef::Array(array.as_array()), Vec::new());
        let mut whole = KeyBuilder::new();
        whole.push_while(&ByBytes, value, false, |bytes| {
            parts.push(bytes);
            true
        });
        assert_eq!(whole.finish(), key_of(value));
        assert!(parts.len() == 1_000_000 / PART_BYTES && parts.iter().all(|bytes| *bytes < 2 * PART_BYTES));

        let mut left = 3;
        let mut cut = KeyBuilder::new();
        cut.push_while(&ByBytes, value, false, |_| {
            left -= 1;
            left > 0
        });
        assert!((3 * PART_BYTES..4 * PART_BYTES).contains(&cut.len()), "{}", cut.len());
    }
}
