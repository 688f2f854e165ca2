//! `validator`, `validationLevel` and `validationAction` of `create` and `collMod`.

use arbor_bson::{Doc, DocBuf, ValueRef};
use arbor_protocol::arguments::Field;
use arbor_store::Namespace;

use crate::{Error, Result};

const LEVELS: &[&str] = &["off", "strict", "moderate"];
const ACTIONS: &[&str] = &["error", "errorAndLog", "warn"];

/// Validation options that were given.
#[derive(Default)]
pub(crate) struct Validation<'c> {
    validator: Option<Doc<'c>>,
    level: Option<&'c str>,
    action: Option<&'c str>,
}

impl<'c> Validation<'c> {
    pub(crate) fn read(&mut self, field: Field<'_>, value: ValueRef<'c>) -> Result<()> {
        match field.name {
            "validator" => self.validator = Some(field.document(value)?),
            "validationLevel" => self.level = Some(one_of(LEVELS, field, value)?),
            _ => self.action = Some(one_of(ACTIONS, field, value)?),
        }
        Ok(())
    }

    /// The three as a collection has them, to be changed by [`Validation::read`].
    pub(crate) fn of(options: Doc<'c>) -> Validation<'c> {
        let text = |name| match options.get(name) {
            Some(ValueRef::String(text)) => Some(text),
            _ => None,
        };
        let validator = match options.get("validator") {
            Some(ValueRef::Document(validator)) => Some(validator),
            _ => None,
        };
        Validation { validator, level: text("validationLevel"), action: text("validationAction") }
    }

    pub(crate) fn check(&self, namespace: &Namespace) -> Result<()> {
        Ok(arbor_query::check_validator(namespace, self.validator.unwrap_or(Doc::empty()))?)
    }

    /// As `listCollections` shows them: with a validator, all three.
    pub(crate) fn append_to(&self, options: &mut DocBuf) {
        let validator = self.validator.filter(|validator| !validator.is_empty());
        if let Some(validator) = validator {
            options.append("validator", validator);
        }
        let usual = |given: Option<&'c str>, usual| given.or(validator.map(|_| usual));
        if let Some(level) = usual(self.level, "strict") {
            options.append("validationLevel", level);
        }
        if let Some(action) = usual(self.action, "error") {
            options.append("validationAction", action);
        }
    }
}

fn one_of<'v>(known: &[&str], field: Field<'_>, value: ValueRef<'v>) -> Result<&'v str> {
    match field.string(value)? {
        text if known.contains(&text) => Ok(text),
        other => {
            let text = format!("Enumeration value '{other}' for field '{field}' is not a valid value.");
            Err(Error::bad_value(text))
        }
    }
}
