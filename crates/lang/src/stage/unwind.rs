//! `$unwind`.

use arbor_bson::{Doc, DocBuf};

use crate::{Error, Result};

/// `{ $unwind: "$path" }` or its document form.
#[derive(Clone, Debug)]
pub struct Unwind {}

impl Unwind {
    /// The documents that `doc` becomes, pushed to `out`.
    pub fn apply(&self, _doc: Doc, _out: &mut Vec<DocBuf>) -> Result<()> {
        Err(Error::not_implemented("$unwind"))
    }
}
