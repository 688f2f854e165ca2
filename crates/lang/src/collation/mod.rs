//! String comparison in a statement and in an index: by bytes, or by the rules of a language.
//!
//! | file | what |
//! |---|---|
//! | `options.rs` | the collation document: parsing, defaults, and how it is shown |
//! | `value_set.rs` | sets of values, equal under a collation |
//! | `locale.rs` | names of locales, and the tailoring of each |
//!
//! The order comes from the Unicode collation algorithm with CLDR's tailorings (`icu_collator`, data compiled in).
//!
//! L1: `compare` orders as `sort_key` does: a key in an index and a comparison in a filter never disagree.
//! L2: names of fields compare by their bytes under every collation, and so does everything that is no string.
//! L3: `simple` is no rules at all: every comparison begins with one branch on it.

mod locale;
mod options;
#[cfg(test)]
mod tests;
mod value_set;

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

use arbor_bson::keystring::{self, Key, KeyBuilder};
use arbor_bson::{ByBytes, Doc, DocBuf, TextOrder, Value, ValueRef, compare_by};
use icu_collator::{CollationKeySink, CollatorBorrowed};

use self::options::Options;
pub(crate) use self::value_set::ValueSet;
use crate::{Result, stop};

/// Rules for comparing strings. Cheap to clone; the default is the simple (binary) collation.
#[derive(Clone, Debug, Default)]
pub struct Collation(Option<Arc<Rules>>);

#[derive(Debug)]
struct Rules {
    options: Options,
    collator: CollatorBorrowed<'static>,
}

impl Collation {
    pub const fn simple() -> Collation {
        Collation(None)
    }

    /// A collation document as commands bring it: `{ locale: "en", strength: 2 }`.
    pub fn parse(doc: Doc) -> Result<Collation> {
        let Some(options) = Options::parse(doc)? else { return Ok(Collation::simple()) };
        let collator = options.collator(doc)?;
        let options = options.resolved(&collator);
        Ok(Collation(Some(Arc::new(Rules { options, collator }))))
    }

    pub fn is_simple(&self) -> bool {
        self.0.is_none()
    }

    /// With every default written out, as `listIndexes` and `explain` show it. `{ locale: "simple" }` for the simple one.
    pub fn to_doc(&self) -> DocBuf {
        match &self.0 {
            None => DocBuf::new().with("locale", locale::SIMPLE),
            Some(rules) => rules.options.to_doc(),
        }
    }

    /// The order of two values of any type.
    #[inline]
    pub fn compare(&self, a: ValueRef, b: ValueRef) -> Ordering {
        match &self.0 {
            None => arbor_bson::compare(a, b),
            Some(rules) => compare_by(&**rules, a, b),
        }
    }

    #[inline]
    pub fn equal(&self, a: ValueRef, b: ValueRef) -> bool {
        self.compare(a, b).is_eq()
    }

    #[inline]
    pub fn compare_str(&self, a: &str, b: &str) -> Ordering {
        match &self.0 {
            None => a.cmp(b),
            Some(rules) => rules.compare_text(a, b),
        }
    }

    /// Bytes whose order is the order of the strings.
    pub fn sort_key(&self, text: &str) -> Vec<u8> {
        match &self.0 {
            None => text.as_bytes().to_vec(),
            Some(rules) => rules.sort_key(text),
        }
    }

    /// Appends the component of a value to a key; equal values have equal components. Cut short when the statement is to stop
    /// ([`stop::ended`]).
    #[inline]
    pub fn push_key(&self, builder: &mut KeyBuilder, value: ValueRef, descending: bool) {
        // a part may have one element for each of its bytes: about 2 ms of work
        let proceed = |_| stop::check().is_ok();
        match &self.0 {
            None => builder.push_while(&ByBytes, value, descending, proceed),
            Some(rules) => builder.push_while(&**rules, value, descending, proceed),
        };
    }

    /// The key of one value, ascending; see [`Collation::push_key`].
    pub fn key_of(&self, value: ValueRef) -> Key {
        let mut builder = KeyBuilder::new();
        self.push_key(&mut builder, value, false);
        builder.finish()
    }

    /// Returns the value as an index with this collation stores it: keys in the place of strings, at any depth.
    ///
    /// L4: two such values compare by bytes as the values themselves compare by the collation.
    pub fn index_value(&self, value: ValueRef) -> Value {
        if self.is_simple() || !Collation::touches(value) {
            return value.to_value();
        }
        let key = self.key_of(value);
        let decoded = keystring::decode(&key.bytes, &key.type_bits, &[false]);
        decoded.ok().and_then(|mut values| values.pop()).unwrap_or_else(|| value.to_value())
    }

    /// Returns a stored index value as MongoDB shows it: `0x` and the bytes of the key for each string.
    pub fn shown(&self, index_value: &Value) -> Value {
        match index_value {
            _ if self.is_simple() => index_value.clone(),
            Value::String(key) | Value::Symbol(key) => Value::String(as_hex(key)),
            Value::Array(elements) => {
                let shown: Vec<Value> = elements.as_array().iter().map(|own| self.shown(&own.to_value())).collect();
                Value::Array(shown.iter().collect())
            }
            Value::Document(fields) => {
                let shown: Vec<_> =
                    fields.as_doc().iter().map(|(name, own)| (name, self.shown(&own.to_value()))).collect();
                Value::Document(shown.iter().map(|(name, own)| (*name, own)).collect())
            }
            other => other.clone(),
        }
    }

    /// Returns true if the collation can affect the order of this value.
    pub fn touches(value: ValueRef) -> bool {
        matches!(
            value,
            ValueRef::String(_)
                | ValueRef::Symbol(_)
                | ValueRef::Document(_)
                | ValueRef::Array(_)
                | ValueRef::JavaScriptWithScope { .. }
        )
    }
}

impl PartialEq for Collation {
    fn eq(&self, other: &Collation) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(a), Some(b)) => Arc::ptr_eq(a, b) || a.options == b.options,
            _ => false,
        }
    }
}

impl Eq for Collation {}

/// Bytes of a key between two checks for an interrupt: about 2 ms of work.
const PART_BYTES: usize = 64 << 10;

impl Rules {
    /// Cut short when the statement is to stop.
    fn sort_key(&self, text: &str) -> Vec<u8> {
        self.begin_of_sort_key(text, usize::MAX)
    }

    /// Returns the first `bytes_max` bytes of the key, about.
    fn begin_of_sort_key(&self, text: &str, bytes_max: usize) -> Vec<u8> {
        let bytes = Vec::with_capacity((2 * text.len()).min(bytes_max));
        let mut key = PartialKey { bytes, checked: 0, bytes_max };
        let _whole = self.collator.write_sort_key_to(text, &mut key);
        key.bytes
    }

    /// Compares long strings by their keys, which can be interrupted; mostly the first part of both decides. An interrupted comparison has
    /// any order and leaves the sort that asked for it.
    fn compare_long(&self, a: &str, b: &str) -> Ordering {
        let by_keys = |bytes_max| self.begin_of_sort_key(a, bytes_max).cmp(&self.begin_of_sort_key(b, bytes_max));
        let order = if a == b { Ordering::Equal } else { by_keys(PART_BYTES).then_with(|| by_keys(usize::MAX)) };
        stop::leave_sort_if_ended();
        order
    }
}

/// The begin of a sort key.
struct PartialKey {
    bytes: Vec<u8>,
    /// Length at the last check.
    checked: usize,
    bytes_max: usize,
}

/// The error of a key that is cut short.
struct Cut;

impl CollationKeySink for PartialKey {
    type Error = Cut;
    type State = ();
    type Output = ();

    fn write(&mut self, _: &mut (), part: &[u8]) -> std::result::Result<(), Cut> {
        let taken = part.len().min(self.bytes_max - self.bytes.len());
        self.bytes.extend_from_slice(part.get(..taken).unwrap_or_default());
        if taken < part.len() {
            return Err(Cut);
        }
        if self.bytes.len() - self.checked >= PART_BYTES {
            self.checked = self.bytes.len();
            stop::check().map_err(|_| Cut)?;
        }
        Ok(())
    }

    fn finish(&mut self, _: ()) -> std::result::Result<(), Cut> {
        Ok(())
    }
}

/// Returns the bytes of a sort key as characters below 256: their order is the same, and the index stores a string like
/// any other. Keys of Latin text have few bytes above 127. Cut short when the statement is to stop.
fn as_text(key: &[u8]) -> String {
    let mut text = String::with_capacity(key.len());
    for part in key.chunks(PART_BYTES).take_while(|part| stop::tick_for(part.len()).is_ok()) {
        text.extend(part.iter().map(|byte| char::from(*byte)));
    }
    text
}

/// Formats a stored string key as MongoDB shows it: `0x2b4d`.
fn as_hex(key: &str) -> String {
    key.chars().fold("0x".to_owned(), |shown, byte| format!("{shown}{:02x}", u32::from(byte)))
}

impl TextOrder for Rules {
    fn compare_text(&self, a: &str, b: &str) -> Ordering {
        let is_long = a.len().min(b.len()) > PART_BYTES;
        if is_long { self.compare_long(a, b) } else { self.collator.compare(a, b) }
    }

    fn key<'t>(&self, text: &'t str) -> Cow<'t, str> {
        Cow::Owned(as_text(&self.sort_key(text)))
    }
}
