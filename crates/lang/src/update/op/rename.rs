//! `$rename: { from: "to" }`: takes the field away and sets it under the other path; nothing happens where it is not.
//!
//! Neither path may lead through an array. In the tree of paths a rename is two leaves, one at each path.
//!
//! `{ a: 1, b: 2 }`, `{ $rename: { a: "c.d" } }` -> `{ b: 2, c: { d: 1 } }`

use arbor_bson::{Doc, ValueRef};

use super::{Run, Slot};
use crate::{
    Code, Error, Result,
    fields::Fields,
    stop::tick,
    text,
    update::{array_filter::ArrayFilters, path::UpdatePath},
};

#[derive(Clone, Debug)]
pub(in crate::update) struct Rename {
    pub from: UpdatePath,
    pub to: UpdatePath,
}

/// The value that the rename of this number moves.
pub(super) fn moved<'a>(number: usize, run: &Run<'a>) -> Option<Slot<'a>> {
    run.renamed.get(number).copied().flatten().map(Slot::Raw)
}

/// The values to move, by the number of the rename. Errors: a path that leads through an array.
pub(in crate::update) fn renamed<'a>(renames: &[Rename], doc: Doc<'a>) -> Result<Vec<Option<ValueRef<'a>>>> {
    // two paths each
    let fields = Fields::of(doc, 2 * renames.len())?;
    renames.iter().map(|rename| tick().and_then(|()| rename.value(doc, &fields))).collect()
}

impl Rename {
    pub(in crate::update) fn parse(from: &str, operand: ValueRef, filters: &ArrayFilters) -> Result<Rename> {
        let ValueRef::String(to) = operand else {
            let operand = text::field(from, operand);
            return Err(Error::bad_value(format!("The 'to' field for $rename must be a string: {operand}")));
        };
        if to.contains('\0') {
            let message = "The 'to' field for $rename cannot contain an embedded null byte";
            return Err(Error::location(9867600, message));
        }
        // a dynamic path is refused as such, whether or not it would be a good one
        for (which, path) in [("source", from), ("destination", to)] {
            if path.split('.').any(|part| part == "$" || part.starts_with("$[")) {
                return Err(Error::bad_value(format!("The {which} field for $rename may not be dynamic: {path}")));
            }
        }
        let same = |what: &str| Error::bad_value(format!("{what}: {}", text::field(from, operand)));
        if from == to {
            return Err(same("The source and target field for $rename must differ"));
        }
        let (from_path, to_path) = (UpdatePath::parse(from, filters)?, UpdatePath::parse(to, filters)?);
        if from_path.steps().iter().zip(to_path.steps()).all(|(a, b)| a == b) {
            return Err(same("The source and target field for $rename must not be on the same path"));
        }
        Ok(Rename { from: from_path, to: to_path })
    }

    /// The value to move. Errors: a path that leads through an array.
    fn value<'a>(&self, doc: Doc<'a>, fields: &Fields<'a>) -> Result<Option<ValueRef<'a>>> {
        let value = find(doc, fields, &self.from, "source")?;
        if value.is_some() {
            if self.to.as_str() == "_id" && doc.get("_id").is_some() {
                let message = "Performing an update on the path '_id' would modify the immutable field '_id'";
                return Err(Error::new(Code::IMMUTABLE_FIELD, message));
            }
            find(doc, fields, &self.to, "destination")?;
        }
        Ok(value)
    }

    pub(in crate::update) fn goes_deeper(&self) -> bool {
        self.to.steps().len() > self.from.steps().len()
    }
}

/// The value at a path. Errors: it leads through an array.
fn find<'a>(doc: Doc<'a>, fields: &Fields<'a>, path: &UpdatePath, which: &str) -> Result<Option<ValueRef<'a>>> {
    let mut names = path.as_str().split('.');
    let mut holder = names.next().unwrap_or_default();
    let Some(mut value) = fields.get(holder) else { return Ok(None) };
    for name in names {
        value = match value {
            ValueRef::Document(inner) => match inner.get(name) {
                Some(value) => value,
                None => return Ok(None),
            },
            ValueRef::Array(_) => {
                let path = path.as_str();
                let id = doc.get("_id").map_or_else(|| "no id".to_owned(), |id| text::field("_id", id));
                return Err(Error::bad_value(format!(
                    "The {which} field cannot be an array element, '{path}' in doc with {id} has an array field called \
                     '{holder}'"
                )));
            }
            scalar if which == "source" => {
                let (path, holder) = (path.as_str(), text::field(holder, scalar));
                let message = format!("cannot use the part ({name} of {path}) to traverse the element ({{{holder}}})");
                return Err(Error::new(Code::PATH_NOT_VIABLE, message));
            }
            _ => return Ok(None),
        };
        holder = name;
    }
    Ok(Some(value))
}
