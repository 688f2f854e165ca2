//! Operators with named arguments: `{ $op: { input: ..., as: ... } }`.

use arbor_bson::{Doc, ValueRef};

use crate::{Error, Result, text};

/// Reads the argument document of an operator with the codes of its complaints.
pub(super) struct Named<'v> {
    operator: &'static str,
    doc: Doc<'v>,
}

impl<'v> Named<'v> {
    /// `not_object` and `unknown` are the codes for an argument that is no document and for a field not in `known`.
    pub(super) fn read(
        operator: &'static str,
        value: ValueRef<'v>,
        known: &[&str],
        not_object: i32,
        unknown: i32,
    ) -> Result<Named<'v>> {
        let ValueRef::Document(doc) = value else {
            let message = match operator {
                "$dateAdd" | "$dateSubtract" => {
                    let found = text::type_name(Some(value));
                    format!("{operator} expects an object as its argument.found type:{found}")
                }
                _ => format!("{operator} only supports an object as its argument"),
            };
            return Err(Error::location(not_object, message));
        };
        if let Some((name, _)) = doc.iter().find(|(name, _)| !known.contains(name)) {
            let what = if operator.starts_with("$date") { "argument" } else { "parameter" };
            return Err(Error::location(unknown, format!("Unrecognized {what} to {operator}: {name}")));
        }
        Ok(Named { operator, doc })
    }

    pub(super) fn get(&self, name: &str) -> Option<ValueRef<'v>> {
        self.doc.get(name)
    }

    /// The argument, or the error with this code.
    pub(super) fn require(&self, name: &str, missing: i32) -> Result<ValueRef<'v>> {
        let operator = self.operator;
        let error = || Error::location(missing, format!("Missing '{name}' parameter to {operator}"));
        self.get(name).ok_or_else(error)
    }
}
