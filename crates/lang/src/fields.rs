//! A document whose fields are looked up many times.

use arbor_bson::{Doc, ValueRef};
use hashbrown::HashMap;

use crate::Result;
use crate::stop::tick;

/// Maximum number of fields found by linear search: hashing all names costs as much as some searches.
const SEARCHES_MAX: usize = 32;

/// A shorter document has too few fields to hash.
const HASHED_BYTES_MIN: usize = 1024;

pub(crate) enum Fields<'d> {
    Plain(Doc<'d>),
    /// Fields by name; of duplicate names the first one.
    Hashed(HashMap<&'d str, ValueRef<'d>>),
}

impl<'d> Fields<'d> {
    /// Prepares a document for this many searches. Errors: the statement is to stop.
    #[inline]
    pub(crate) fn of(doc: Doc<'d>, searches: usize) -> Result<Fields<'d>> {
        if searches <= SEARCHES_MAX || doc.as_bytes().len() < HASHED_BYTES_MIN {
            return Ok(Fields::Plain(doc));
        }
        hashed(doc).map(Fields::Hashed)
    }

    #[inline]
    pub(crate) fn get(&self, name: &str) -> Option<ValueRef<'d>> {
        match self {
            Fields::Plain(doc) => doc.get(name),
            Fields::Hashed(fields) => fields.get(name).copied(),
        }
    }
}

#[cold]
fn hashed(doc: Doc<'_>) -> Result<HashMap<&str, ValueRef<'_>>> {
    // a table that grows hashes all of its names again, which nothing can interrupt
    let mut fields = HashMap::with_capacity(doc.iter().count());
    for (name, value) in doc {
        tick()?;
        fields.entry(name).or_insert(value);
    }
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arbor_bson::DocBuf;

    #[test]
    fn the_first_of_equal_names_is_found() {
        let mut doc = DocBuf::new().with("a", "x".repeat(HASHED_BYTES_MIN).as_str());
        for n in [1i32, 2] {
            doc.append("b", n);
        }
        for searches in [1, 1000] {
            let fields = Fields::of(doc.as_doc(), searches).unwrap();
            assert_eq!(matches!(fields, Fields::Hashed(_)), searches > SEARCHES_MAX);
            assert!(matches!(fields.get("b"), Some(ValueRef::Int32(1))) && fields.get("c").is_none());
        }
    }
}
