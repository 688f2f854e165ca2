//! Paths of an update: fields, the positional `$`, `$[]` and `$[identifier]`.

use super::array_filter::ArrayFilters;
use crate::path::check_length;
use crate::{Code, Error, Result};

#[derive(Clone, Debug)]
pub(super) struct UpdatePath {
    dotted: Box<str>,
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Field(Box<str>),
    /// `$`: the element that the filter found.
    Positional,
    /// `$[]` (the empty identifier) and `$[identifier]`.
    Elements(Box<str>),
}

impl Step {
    /// Returns the identifier of `$[identifier]`.
    pub(super) fn identifier(&self) -> Option<&str> {
        match self {
            Step::Elements(identifier) => Some(identifier),
            Step::Field(_) | Step::Positional => None,
        }
    }
}

impl UpdatePath {
    pub(super) fn parse(dotted: &str, filters: &ArrayFilters) -> Result<UpdatePath> {
        if dotted.is_empty() {
            return Err(Error::new(Code::EMPTY_FIELD_NAME, "An empty update path is not valid."));
        }
        check_length(dotted)?;
        let steps = dotted.split('.').map(|part| step(part, dotted)).collect::<Result<Vec<_>>>()?;
        let path = UpdatePath { dotted: dotted.into(), steps };
        path.check_dynamic(filters)?;
        Ok(path)
    }

    pub(super) fn as_str(&self) -> &str {
        &self.dotted
    }

    pub(super) fn steps(&self) -> &[Step] {
        &self.steps
    }

    pub(super) fn head(&self) -> &str {
        self.dotted.split('.').next().unwrap_or_default()
    }

    pub(super) fn has_positional(&self) -> bool {
        self.steps.contains(&Step::Positional)
    }

    /// The first `steps` of the path, dotted.
    pub(super) fn prefix(&self, steps: usize) -> String {
        self.dotted.split('.').take(steps).collect::<Vec<_>>().join(".")
    }

    fn check_dynamic(&self, filters: &ArrayFilters) -> Result<()> {
        let path = self.as_str();
        match self.steps.first() {
            Some(Step::Positional) => {
                let what = "Cannot have positional (i.e. '$') element in the first position in path";
                return Err(Error::bad_value(format!("{what} '{path}'")));
            }
            Some(Step::Elements(_)) => {
                let what = "Cannot have array filter identifier (i.e. '$[<id>]') element in the first position in path";
                return Err(Error::bad_value(format!("{what} '{path}'")));
            }
            _ => {}
        }
        if self.steps.iter().filter(|step| **step == Step::Positional).count() > 1 {
            let message = format!("Too many positional (i.e. '$') elements found in path '{path}'");
            return Err(Error::bad_value(message));
        }
        for step in &self.steps {
            if let Step::Elements(identifier) = step
                && !identifier.is_empty()
                && !filters.has(identifier)
            {
                let message = format!("No array filter found for identifier '{identifier}' in path '{path}'");
                return Err(Error::bad_value(message));
            }
        }
        Ok(())
    }
}

fn step(part: &str, dotted: &str) -> Result<Step> {
    if part.is_empty() {
        let message = format!("The update path '{dotted}' contains an empty field name, which is not allowed.");
        return Err(Error::new(Code::EMPTY_FIELD_NAME, message));
    }
    if part == "$" {
        return Ok(Step::Positional);
    }
    if let Some(identifier) = part.strip_prefix("$[").and_then(|rest| rest.strip_suffix(']')) {
        return Ok(Step::Elements(identifier.into()));
    }
    Ok(Step::Field(part.into()))
}

/// COMPAT: since MongoDB 5.0 only names at the top are refused, and only in documents that exist already.
pub(super) fn dollar_prefixed(name: &str, path: &str) -> Error {
    let message = format!(
        "The dollar ($) prefixed field '{name}' in '{path}' is not allowed in the context of an update's replacement \
         document. Consider using an aggregation pipeline with $replaceWith."
    );
    Error::new(Code::DOLLAR_PREFIXED_FIELD_NAME, message)
}
