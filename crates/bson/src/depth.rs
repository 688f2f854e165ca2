//! Nesting depth of documents.
//!
//! A document without nested ones has depth 1; documents, arrays and scopes of code count alike (as in validate.rs, V1).
//!
//! | limit | levels | what |
//! |---|---|---|
//! | [`STORED_DEPTH_MAX`] | 180 | a document of a collection |
//! | [`DEPTH_MAX`] | 200 | any document: a message, the result of an expression or of a stage |
//!
//! The difference leaves room for the command around a document, so that a client can write back what it has read.
//! Everything that walks documents by recursion relies on [`DEPTH_MAX`], or counts for itself where the bytes may be
//! those of a version that did not know the limit.

use crate::doc::Reader;
use crate::{Array, Doc, ValueRef};

/// Levels that any document may have.
pub const DEPTH_MAX: usize = 200;

/// Levels that a stored document may have: MongoDB keeps 20 for what is wrapped around it.
pub const STORED_DEPTH_MAX: usize = DEPTH_MAX - 20;

/// The smallest document, and what each further level adds at least: type, empty name, and a document.
const EMPTY_BYTES: usize = 5;
const LEVEL_BYTES: usize = 2 + EMPTY_BYTES;

impl Doc<'_> {
    /// Returns true if the document has more than `levels` levels. Recursion ends at that level.
    // PERF: a document too short for the levels that are left is not looked into, so one below 1.4 kB costs nothing.
    pub fn is_deeper_than(self, levels: usize) -> bool {
        if self.as_bytes().len() < EMPTY_BYTES + LEVEL_BYTES * levels {
            return false;
        }
        let Some(inner_levels) = levels.checked_sub(1) else { return true };
        let mut reader = Reader::of(self);
        while let Some(inner) = reader.next_nested() {
            if inner_levels == 0 || inner.is_deeper_than(inner_levels) {
                return true;
            }
        }
        false
    }
}

impl Array<'_> {
    /// As [`Doc::is_deeper_than`].
    pub fn is_deeper_than(self, levels: usize) -> bool {
        self.as_doc().is_deeper_than(levels)
    }
}

impl ValueRef<'_> {
    /// As [`Doc::is_deeper_than`]; a scalar has no levels.
    pub fn is_deeper_than(&self, levels: usize) -> bool {
        match self {
            ValueRef::Document(doc) => doc.is_deeper_than(levels),
            ValueRef::Array(array) => array.is_deeper_than(levels),
            ValueRef::JavaScriptWithScope { scope, .. } => scope.is_deeper_than(levels),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ArrayBuf, DocBuf, Limits, validate};

    fn nested(levels: usize, wrap: fn(&DocBuf) -> DocBuf) -> DocBuf {
        (1..levels).fold(DocBuf::new(), |inner, _| wrap(&inner))
    }

    #[test]
    fn counts_levels_as_the_validator_does() {
        let wraps: [fn(&DocBuf) -> DocBuf; 4] = [
            |inner| DocBuf::new().with("", inner),
            |inner| {
                DocBuf::new().with("x", "text").with("a", inner).with("b", &[1.5].into_iter().collect::<ArrayBuf>())
            },
            |inner| DocBuf::new().with("s", ValueRef::JavaScriptWithScope { code: "f()", scope: inner.as_doc() }),
            |inner| {
                let array: ArrayBuf = [inner.as_doc()].into_iter().collect();
                DocBuf::new().with("r", ValueRef::Regex { pattern: "a", options: "i" }).with("", &array)
            },
        ];
        for wrap in wraps {
            for levels in [1, 2, 3, 7, 30] {
                let doc = nested(levels, wrap);
                for max in 0..2 * levels + 4 {
                    let limits = Limits { depth_max: max, size_max: usize::MAX };
                    let expected = validate(doc.as_bytes(), limits).is_err();
                    assert_eq!(doc.as_doc().is_deeper_than(max), expected, "{levels} levels, at most {max}");
                }
            }
        }
    }

    #[test]
    fn ends_at_the_limit() {
        // 40,000 levels: recursion to the bottom would overflow the stack of a test
        let mut bytes = Vec::new();
        for level in (0..40_000usize).rev() {
            bytes.extend_from_slice(&((EMPTY_BYTES + LEVEL_BYTES * level) as u32).to_le_bytes());
            if level > 0 {
                bytes.extend_from_slice(&[0x03, 0]);
            }
        }
        bytes.resize(bytes.len() + 40_000, 0);
        let doc = Doc::trusted(&bytes);
        assert!(doc.is_deeper_than(DEPTH_MAX));
        assert!(ValueRef::Document(doc).is_deeper_than(STORED_DEPTH_MAX));
    }
}
