//! Orders of strings: by their bytes, or by the rules of a language.

use std::borrow::Cow;
use std::cmp::Ordering;

/// An order of strings, and keys in that order.
///
/// T1: `compare_text` orders two strings as the bytes of the texts that `key` gives for them.
pub trait TextOrder {
    fn compare_text(&self, a: &str, b: &str) -> Ordering;

    /// Returns the replacement of a string for comparisons of bytes.
    fn key<'t>(&self, text: &'t str) -> Cow<'t, str>;
}

/// The order without any rules.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByBytes;

impl TextOrder for ByBytes {
    #[inline]
    fn compare_text(&self, a: &str, b: &str) -> Ordering {
        a.cmp(b)
    }

    #[inline]
    fn key<'t>(&self, text: &'t str) -> Cow<'t, str> {
        Cow::Borrowed(text)
    }
}
