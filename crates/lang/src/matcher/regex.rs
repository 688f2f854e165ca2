//! Regular expressions with PCRE's meaning.

/// A compiled regular expression.
#[derive(Clone, Debug)]
pub struct Regex {
    pub pattern: String,
    pub options: String,
}

impl Regex {
    /// The literal text every match starts with, when the expression is `^text...` and case matters: an index range.
    pub fn literal_prefix(&self) -> Option<&str> {
        None
    }
}
