//! `$lookup` without an index: the other collection is read once, into memory, and its documents are found by a hash of
//! the foreign field's values.
//!
//! The table only finds candidates: each is checked by the same filter that a scan would use, so that missing
//! fields, arrays and numbers of several types are equal exactly when they are for a query.

use std::collections::HashMap;

use arbor_base::memory::Allowance;
use arbor_bson::{ArrayBuf, Doc, DocBuf, Value, ValueRef};
use arbor_lang::path::{Leaf, Path};
use arbor_lang::{Collation, Filter, stop};

use crate::Result;
use crate::operator::{Row, Run};

pub(crate) struct HashJoin {
    /// In the order of the collection.
    documents: Vec<DocBuf>,
    places: HashMap<Vec<u8>, Vec<u32>>,
    collation: Collation,
    _allowance: Allowance,
}

impl HashJoin {
    /// None: the documents need more than the allowance covers.
    pub(crate) fn build(
        mut next: impl FnMut(&mut Run<'_>) -> Result<Option<Row>>,
        foreign: &Path,
        collation: &Collation,
        mut allowance: Allowance,
        run: &mut Run<'_>,
    ) -> Result<Option<HashJoin>> {
        let (mut documents, mut places) = (Vec::new(), HashMap::<Vec<u8>, Vec<u32>>::new());
        let mut bytes = 0;
        while let Some(row) = next(run)? {
            run.tick()?;
            bytes += 2 * size_of::<DocBuf>() + row.document.as_bytes().len();
            let place = documents.len() as u32;
            for key in keys_of(row.document.as_doc(), foreign, collation)? {
                bytes += key.len() + 2 * size_of::<(Vec<u8>, Vec<u32>)>() + size_of::<[u32; 4]>();
                places.entry(key).or_default().push(place);
            }
            documents.push(row.document);
            if !allowance.covers(bytes) {
                return Ok(None);
            }
        }
        Ok(Some(HashJoin { documents, places, collation: collation.clone(), _allowance: allowance }))
    }

    /// The documents that match, in the order of the collection. Requires that `filter` selects one of `values`. None:
    /// they are more than `bytes_max`.
    pub(crate) fn find(&self, filter: &Filter, values: &[Value], bytes_max: usize) -> Result<Option<ArrayBuf>> {
        let mut places: Vec<u32> = Vec::new();
        for value in values {
            stop::tick()?;
            places.extend(self.places.get(&key(Some(value.as_ref()), &self.collation)).into_iter().flatten());
        }
        stop::sort_unstable_by(&mut places, u32::cmp)?;
        places.dedup();
        let mut matching = ArrayBuf::new();
        for document in places.into_iter().filter_map(|place| self.documents.get(place as usize)) {
            if filter.matches(document.as_doc())? {
                matching.push(document);
            }
            if matching.as_array().as_bytes().len() > bytes_max {
                return Ok(None);
            }
        }
        Ok(Some(matching))
    }
}

/// Returns the key of a value; a missing or undefined one may equal null.
fn key(value: Option<ValueRef<'_>>, collation: &Collation) -> Vec<u8> {
    match value {
        None | Some(ValueRef::Undefined) => collation.key_of(ValueRef::Null).bytes,
        Some(value) => collation.key_of(value).bytes,
    }
}

/// A document whose path leads nowhere may equal null.
fn keys_of(document: Doc<'_>, path: &Path, collation: &Collation) -> Result<Vec<Vec<u8>>> {
    let mut keys = Vec::new();
    path.visit(document, Leaf::Expand, &mut |visit| {
        keys.push(key(visit.value, collation));
        stop::tick().is_err()
    });
    stop::ended()?;
    if keys.is_empty() {
        keys.push(key(None, collation));
    }
    stop::sort_unstable_by(&mut keys, Vec::cmp)?;
    keys.dedup();
    Ok(keys)
}
