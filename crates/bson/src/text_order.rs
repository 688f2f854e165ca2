//! How strings are ordered: by their bytes, or by what the rules of a language say.

use std::cmp::Ordering;

/// An order of strings, and keys in that order.
///
/// T1: `compare_text` orders two strings as the bytes that `write_key` gives for them.
pub trait TextOrder {
    fn compare_text(&self, a: &str, b: &str) -> Ordering;

    /// Appends bytes whose order is the order of the strings; any byte may be among them.
    fn write_key(&self, text: &str, out: &mut Vec<u8>);
}

/// The order without any rules.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByBytes;

impl TextOrder for ByBytes {
    #[inline]
    fn compare_text(&self, a: &str, b: &str) -> Ordering {
        a.cmp(b)
    }

    fn write_key(&self, text: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(text.as_bytes());
    }
}
