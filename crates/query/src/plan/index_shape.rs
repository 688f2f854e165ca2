//! An index as the planner sees it: the primary tree with its `_id` order, or a secondary index.

use std::sync::Arc;

use arbor_bson::DocBuf;
use arbor_store::Index;

#[derive(Clone, Debug)]
pub struct IndexShape {
    pub name: String,
    pub parts: Vec<IndexPart>,
    pub unique: bool,
    pub sparse: bool,
    /// None: the primary tree, whose keys are the `_id`s and whose values are the documents.
    pub index: Option<Arc<Index>>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct IndexPart {
    pub path: String,
    pub descending: bool,
    /// Some document has an array on this path.
    pub multikey: bool,
}

impl IndexShape {
    pub fn primary() -> IndexShape {
        let part = IndexPart { path: "_id".to_owned(), descending: false, multikey: false };
        IndexShape { name: "_id_".to_owned(), parts: vec![part], unique: true, sparse: false, index: None }
    }

    pub fn is_multikey(&self) -> bool {
        self.parts.iter().any(|part| part.multikey)
    }

    pub fn key_pattern(&self) -> DocBuf {
        self.parts.iter().map(|part| (&part.path, if part.descending { -1i32 } else { 1 })).collect()
    }
}

#[cfg(test)]
pub mod testing {
    use super::*;

    /// `"a, -b, c*"`: `-` is descending, `*` multikey.
    pub fn shape(text: &str) -> IndexShape {
        let part = |text: &str| IndexPart {
            path: text.trim_matches(['-', '*', ' ']).to_owned(),
            descending: text.trim().starts_with('-'),
            multikey: text.trim().ends_with('*'),
        };
        IndexShape {
            name: text.to_owned(),
            parts: text.split(',').map(part).collect(),
            unique: false,
            sparse: false,
            index: None,
        }
    }
}
