//! A sort by the values of expressions, which other stages need below them; no client writes it.

use arbor_bson::DocBuf;

use crate::expression::Environment;
use crate::{Expression, Input, Result, SortPattern};

/// Its collation is the pattern's. Documents with equal values of `by` are adjacent, in order of `pattern`.
#[derive(Clone, Debug)]
pub struct Arrange {
    pub by: Expression,
    pub pattern: SortPattern,
}

impl Arrange {
    /// Bytes whose order is the order of the documents.
    pub fn key<'d>(&self, input: impl Into<Input<'d>>) -> Result<Vec<u8>> {
        let input = input.into();
        let environment = Environment::new(input);
        let value = self.by.eval_in(&environment)?;
        let mut key = self.pattern.collation().key_of(value.or_null()).bytes;
        key.extend_from_slice(&self.pattern.key(input)?);
        Ok(key)
    }

    /// As it is shown in `explain`.
    pub fn shown(&self) -> DocBuf {
        let mut shown = DocBuf::new().with("<expression>", 1);
        for part in self.pattern.parts() {
            part.show(&mut shown);
        }
        shown
    }
}
