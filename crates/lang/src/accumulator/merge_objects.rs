//! `$mergeObjects`: the documents laid over each other, later fields win.

use arbor_bson::{Doc, DocBuf, Value, ValueRef};

use super::State;
use crate::Result;
use crate::expression::{Evaluated, merge_documents, not_a_document};

#[derive(Debug, Default)]
pub struct MergeObjects(DocBuf);

impl State for MergeObjects {
    fn add(&mut self, value: Evaluated, _root: Doc) -> Result<()> {
        if value.is_nullish() {
            return Ok(());
        }
        match value.or_null() {
            ValueRef::Document(doc) => {
                self.0 = merge_documents(std::mem::take(&mut self.0), doc);
                Ok(())
            }
            other => Err(not_a_document(other)),
        }
    }

    fn finish(self: Box<Self>) -> Value {
        Value::Document(self.0)
    }

    fn partial(&self) -> Value {
        Value::Document(self.0.clone())
    }

    fn absorb(&mut self, partial: ValueRef) -> Result<()> {
        if let ValueRef::Document(doc) = partial {
            self.0 = merge_documents(std::mem::take(&mut self.0), doc);
        }
        Ok(())
    }

    fn size_bytes(&self) -> usize {
        self.0.as_bytes().len()
    }
}
