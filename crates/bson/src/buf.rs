//! Building documents by appending.

use crate::{Array, Doc, ValueRef};

/// An owned document. Always a complete document: the length and the final NUL are right after every call.
#[derive(Clone)]
pub struct DocBuf(Vec<u8>);

/// An owned array.
#[derive(Clone)]
pub struct ArrayBuf {
    bytes: Vec<u8>,
    len: usize,
}

impl DocBuf {
    pub fn new() -> DocBuf {
        DocBuf(vec![5, 0, 0, 0, 0])
    }

    /// Requires bytes that passed the validator.
    pub fn from_trusted(bytes: Vec<u8>) -> DocBuf {
        DocBuf(bytes)
    }

    pub fn as_doc(&self) -> Doc<'_> {
        Doc::trusted(&self.0)
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Appends a field; a field of the same name is not looked for. Requires a name without NUL.
    pub fn append<'v>(&mut self, name: &str, value: impl Into<ValueRef<'v>>) -> &mut DocBuf {
        append_element(&mut self.0, name, value.into());
        self
    }

    /// `append` for building in one expression.
    pub fn with<'v>(mut self, name: &str, value: impl Into<ValueRef<'v>>) -> DocBuf {
        self.append(name, value);
        self
    }

    pub fn get(&self, name: &str) -> Option<ValueRef<'_>> {
        self.as_doc().get(name)
    }
}

impl Default for DocBuf {
    fn default() -> DocBuf {
        DocBuf::new()
    }
}

impl std::fmt::Debug for DocBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_doc().fmt(f)
    }
}

impl<'a, N: AsRef<str>, V: Into<ValueRef<'a>>> FromIterator<(N, V)> for DocBuf {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(elements: I) -> DocBuf {
        let mut doc = DocBuf::new();
        for (name, value) in elements {
            doc.append(name.as_ref(), value);
        }
        doc
    }
}

impl ArrayBuf {
    pub fn new() -> ArrayBuf {
        ArrayBuf { bytes: vec![5, 0, 0, 0, 0], len: 0 }
    }

    pub fn as_array(&self) -> Array<'_> {
        Array::trusted(&self.bytes)
    }

    /// Requires the bytes of a valid array of `len` elements that are named "0", "1", ...
    pub(crate) fn from_trusted(bytes: Vec<u8>, len: usize) -> ArrayBuf {
        ArrayBuf { bytes, len }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn push<'v>(&mut self, value: impl Into<ValueRef<'v>>) -> &mut ArrayBuf {
        let mut digits = [0u8; 20];
        let name = decimal(self.len, &mut digits);
        append_element(&mut self.bytes, name, value.into());
        self.len += 1;
        self
    }
}

impl Default for ArrayBuf {
    fn default() -> ArrayBuf {
        ArrayBuf::new()
    }
}

impl std::fmt::Debug for ArrayBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_array().fmt(f)
    }
}

impl<'a, V: Into<ValueRef<'a>>> FromIterator<V> for ArrayBuf {
    fn from_iter<I: IntoIterator<Item = V>>(values: I) -> ArrayBuf {
        let mut array = ArrayBuf::new();
        for value in values {
            array.push(value);
        }
        array
    }
}

pub(crate) fn decimal(mut n: usize, digits: &mut [u8; 20]) -> &str {
    let mut start = digits.len();
    for slot in digits.iter_mut().rev() {
        *slot = b'0' + (n % 10) as u8;
        n /= 10;
        start -= 1;
        if n == 0 {
            break;
        }
    }
    digits.get(start..).and_then(|d| std::str::from_utf8(d).ok()).unwrap_or("0")
}

/// A decimal number without leading zeros, counted up in place.
pub(crate) struct DecimalCounter {
    digits: [u8; 20],
    start: usize,
}

impl Default for DecimalCounter {
    fn default() -> DecimalCounter {
        DecimalCounter { digits: [b'0'; 20], start: 19 }
    }
}

impl DecimalCounter {
    pub(crate) fn text(&self) -> &[u8] {
        self.digits.get(self.start..).unwrap_or_default()
    }

    pub(crate) fn increment(&mut self) {
        for (place, digit) in self.digits.iter_mut().enumerate().rev() {
            self.start = self.start.min(place);
            if *digit < b'9' {
                *digit += 1;
                return;
            }
            *digit = b'0';
        }
    }
}

fn append_element(doc: &mut Vec<u8>, name: &str, value: ValueRef<'_>) {
    doc.pop();
    // the vector grows once for the whole element
    doc.reserve(1 + name.len() + 1 + bytes_of(value) + 1);
    append_head(doc, value.ty() as u8, name);
    append_value(doc, value);
    doc.push(0);
    let len = doc.len() as u32;
    if let Some(head) = doc.first_chunk_mut::<4>() {
        *head = len.to_le_bytes();
    }
}

/// Type and name of an element.
pub(crate) fn append_head(out: &mut Vec<u8>, ty: u8, name: &str) {
    debug_assert!(!name.as_bytes().contains(&0), "a field name holds no NUL");
    out.push(ty);
    out.extend_from_slice(name.as_bytes());
    out.push(0);
}

fn append_string(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u32 + 1).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

/// Returns the bytes that the value takes, or a few more.
fn bytes_of(value: ValueRef<'_>) -> usize {
    const FIXED_MAX: usize = 16;
    match value {
        ValueRef::String(v) | ValueRef::JavaScript(v) | ValueRef::Symbol(v) => 5 + v.len(),
        ValueRef::Document(v) => v.as_bytes().len(),
        ValueRef::Array(v) => v.as_bytes().len(),
        ValueRef::Binary { bytes, .. } => 5 + bytes.len(),
        ValueRef::Regex { pattern, options } => pattern.len() + options.len() + 2,
        ValueRef::DbPointer { namespace, .. } => 5 + namespace.len() + 12,
        ValueRef::JavaScriptWithScope { code, scope } => 4 + 5 + code.len() + scope.as_bytes().len(),
        _ => FIXED_MAX,
    }
}

pub(crate) fn append_value(out: &mut Vec<u8>, value: ValueRef<'_>) {
    match value {
        ValueRef::Double(v) => out.extend_from_slice(&v.to_le_bytes()),
        ValueRef::String(v) | ValueRef::JavaScript(v) | ValueRef::Symbol(v) => append_string(out, v),
        ValueRef::Document(v) => out.extend_from_slice(v.as_bytes()),
        ValueRef::Array(v) => out.extend_from_slice(v.as_bytes()),
        ValueRef::Binary { subtype, bytes } => {
            out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
            out.push(subtype);
            out.extend_from_slice(bytes);
        }
        ValueRef::ObjectId(v) => out.extend_from_slice(&v.0),
        ValueRef::Bool(v) => out.push(v as u8),
        ValueRef::DateTime(v) | ValueRef::Int64(v) => out.extend_from_slice(&v.to_le_bytes()),
        ValueRef::Regex { pattern, options } => {
            out.extend_from_slice(pattern.as_bytes());
            out.push(0);
            out.extend_from_slice(options.as_bytes());
            out.push(0);
        }
        ValueRef::DbPointer { namespace, id } => {
            append_string(out, namespace);
            out.extend_from_slice(&id.0);
        }
        ValueRef::JavaScriptWithScope { code, scope } => {
            let len = 4 + 4 + code.len() + 1 + scope.as_bytes().len();
            out.extend_from_slice(&(len as u32).to_le_bytes());
            append_string(out, code);
            out.extend_from_slice(scope.as_bytes());
        }
        ValueRef::Int32(v) => out.extend_from_slice(&v.to_le_bytes()),
        ValueRef::Timestamp(v) => {
            out.extend_from_slice(&((u64::from(v.seconds) << 32) | u64::from(v.increment)).to_le_bytes());
        }
        ValueRef::Decimal128(v) => out.extend_from_slice(&v.0),
        ValueRef::Undefined | ValueRef::Null | ValueRef::MinKey | ValueRef::MaxKey => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Value;

    #[test]
    fn a_copied_array_goes_on_where_it_ended() {
        for len in [0, 1, 9, 10, 11, 99, 100, 101, 1000, 1001] {
            let numbers: ArrayBuf = (0..len).collect();
            let mut copy = numbers.as_array().to_buf();
            assert_eq!((copy.len(), copy.as_array().as_bytes()), (len as usize, numbers.as_array().as_bytes()));
            copy.push(len);
            assert_eq!(copy.as_array().as_bytes(), (0..=len).collect::<ArrayBuf>().as_array().as_bytes());
        }
    }

    #[test]
    fn a_copied_array_has_its_names_in_order() {
        for names in [["1", "0"], ["0", "2"], ["0", "01"], ["", "1"], ["0", "10"], ["a", "b"]] {
            let named: DocBuf = names.into_iter().zip([5, 6]).collect();
            let copy = Array::trusted(named.as_bytes()).to_buf();
            assert_eq!(copy.as_array().as_bytes(), [5, 6].into_iter().collect::<ArrayBuf>().as_array().as_bytes());
        }
    }

    #[test]
    fn what_is_appended_is_read_back() {
        let inner: ArrayBuf = [1i32, 2, 3].into_iter().collect();
        let doc = DocBuf::new().with("a", 1i32).with("b", "text").with("c", &inner).with("d", ValueRef::Null);
        assert_eq!(doc.as_bytes().len(), i32::from_le_bytes(*doc.as_bytes().first_chunk().unwrap()) as usize);
        let names: Vec<_> = doc.as_doc().iter().map(|(name, value)| (name, value.ty())).collect();
        use crate::Type::*;
        assert_eq!(names, [("a", Int32), ("b", String), ("c", Array), ("d", Null)]);
        assert!(matches!(doc.get("b").map(|v| v.to_value()), Some(Value::String(t)) if t == "text"));
    }

    #[test]
    fn array_names_count_up() {
        let array: ArrayBuf = (0..12i32).collect();
        let names: Vec<_> = array.as_array().as_doc().iter().map(|(name, _)| name.to_owned()).collect();
        assert_eq!(names[9..], ["9", "10", "11"]);
        assert_eq!(array.len(), 12);
    }
}
