//! `arrayFilters`: the filters of the identifiers in `$[identifier]`.

use std::collections::BTreeMap;

use arbor_bson::{Doc, DocBuf, ValueRef};

use crate::{Context, Error, Filter, Result};

/// Filters by identifier. The predicates' paths begin with the identifier.
#[derive(Clone, Debug, Default)]
pub(super) struct ArrayFilters(BTreeMap<Box<str>, Filter>);

impl ArrayFilters {
    pub(super) fn parse(filters: &[Doc], context: &Context) -> Result<ArrayFilters> {
        let mut parsed = BTreeMap::new();
        for filter in filters {
            if filter.iter().any(|(name, _)| name == "$text") {
                return Err(Error::bad_value("$text is not allowed in array filters"));
            }
            let identifier = identifier(*filter)?;
            let compiled = Filter::parse(*filter, context).map_err(|error| while_parsing(&error))?;
            if parsed.insert(identifier.clone(), compiled).is_some() {
                let message = format!("Found multiple array filters with the same top-level field name {identifier}");
                return Err(Error::failed_to_parse(message));
            }
        }
        Ok(ArrayFilters(parsed))
    }

    pub(super) fn has(&self, identifier: &str) -> bool {
        self.0.contains_key(identifier)
    }

    pub(super) fn identifiers(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(|identifier| &**identifier)
    }

    /// Returns true if `$[identifier]` selects an element; `$[]` selects every element.
    pub(super) fn accepts(&self, identifier: &str, element: ValueRef) -> Result<bool> {
        match self.0.get(identifier) {
            Some(filter) => filter.matches(DocBuf::new().with(identifier, element).as_doc()),
            None => Ok(identifier.is_empty()),
        }
    }
}

/// The first name of every path in the filter, which must be one and the same.
fn identifier(filter: Doc) -> Result<Box<str>> {
    let mut found: Option<Box<str>> = None;
    let mut open = vec![filter];
    while let Some(doc) = open.pop() {
        for (name, value) in doc {
            match value {
                ValueRef::Array(branches) if name.starts_with('$') => {
                    let documents = branches.iter().filter_map(|branch| match branch {
                        ValueRef::Document(branch) => Some(branch),
                        _ => None,
                    });
                    open.extend(documents);
                }
                _ if name.starts_with('$') => {}
                _ => one_name(&mut found, name.split('.').next().unwrap_or_default())?,
            }
        }
    }
    let Some(identifier) = found else {
        return Err(Error::failed_to_parse("Cannot use an expression without a top-level field name in arrayFilters"));
    };
    check_name(&identifier)?;
    Ok(identifier)
}

fn one_name(found: &mut Option<Box<str>>, name: &str) -> Result<()> {
    match found {
        Some(known) if **known != *name => {
            let message = format!("Expected a single top-level field name, found '{known}' and '{name}'");
            Err(while_parsing(&Error::failed_to_parse(message)))
        }
        _ => {
            *found = Some(name.into());
            Ok(())
        }
    }
}

fn check_name(name: &str) -> Result<()> {
    let mut letters = name.bytes();
    let good = letters.next().is_some_and(|first| first.is_ascii_lowercase())
        && letters.all(|letter| letter.is_ascii_alphanumeric());
    if good {
        return Ok(());
    }
    let message = format!(
        "The top-level field name must be an alphanumeric string beginning with a lowercase letter, found '{name}'"
    );
    Err(while_parsing(&Error::bad_value(message)))
}

fn while_parsing(error: &Error) -> Error {
    Error::new(error.code, format!("Error parsing array filter :: caused by :: {}", error.message))
}
