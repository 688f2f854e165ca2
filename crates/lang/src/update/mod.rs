//! Updates: operators, replacements and pipelines applied to a document.
//!
//! An operator update is compiled into a tree of paths ([`tree`]) whose leaves are operators ([`op`], one file each).
//! Applying it walks tree and document together ([`run`]); the document is opened only where the tree leads ([`slot`]),
//! everything else is copied as it is.
//!
//! U1: fields are updated, and created, in the order of their names; names that are numbers order as numbers.
//! U2: no two operators of one update change the same value or one inside the other (code 40); paths are checked when
//! the update is parsed, the elements that `$[]`, `$[id]` and `$` select when it is applied.
//! U3: `_id` keeps its value (code 66). U4: a result is at most 16 MB and 180 levels deep.

mod array_filter;
mod op;
mod order;
mod parse;
mod path;
mod pipeline;
#[cfg(test)]
mod properties;
mod replacement;
mod run;
mod slot;
#[cfg(test)]
mod tests;
mod tree;
mod upsert;

use arbor_bson::{Doc, DocBuf, ObjectId, STORED_DEPTH_MAX, USER_SIZE_MAX, ValueRef};

pub use self::op::NAMES as OPERATOR_NAMES;
use self::{parse::Operators, pipeline::Pipeline};
use crate::{Code, Context, Error, Filter, Result, stop};

/// A parsed update. Shared freely between threads.
#[derive(Clone, Debug)]
pub struct Update {
    form: Form,
}

#[derive(Clone, Debug)]
enum Form {
    Operators(Operators),
    Replacement(DocBuf),
    Pipeline(Pipeline),
}

/// A document after an update, and what of it the update wrote.
#[derive(Clone, Debug)]
pub struct Updated {
    pub doc: DocBuf,
    pub written: Written,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// The document is a new one.
    Whole,
    /// A pipeline ran: only the two documents say what changed.
    Unknown,
    /// Dotted paths in the order of the document's tree. Everything below a path counts as written. No name in them has a dot,
    /// since operators cannot reach such fields.
    Paths(Vec<String>),
}

/// Part of a document that an update may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Touched {
    /// Any field (replacements and pipelines).
    Everything,
    /// Only fields below these top-level names, which are in order.
    Fields(Vec<Box<str>>),
}

impl Update {
    /// `update` is a document (operators or a replacement) or an array (a pipeline).
    pub fn parse(update: ValueRef, array_filters: &[Doc], context: &Context) -> Result<Update> {
        let form = match update {
            ValueRef::Array(stages) => {
                refuse_array_filters(array_filters, "pipeline-syle updates")?;
                Form::Pipeline(Pipeline::parse(stages, context)?)
            }
            ValueRef::Document(doc) if doc.first().is_some_and(|(name, _)| name.starts_with('$')) => {
                Form::Operators(Operators::parse(doc, array_filters, context)?)
            }
            ValueRef::Document(doc) => {
                refuse_array_filters(array_filters, "replacement-syle updates")?;
                Form::Replacement(replacement::parse(doc, context)?)
            }
            _ => return Err(Error::failed_to_parse("Update argument must be either an object or an array")),
        };
        Ok(Update { form })
    }

    /// The document after the update, or `None` when nothing changes. `position` is what
    /// [`Filter::matches_with_position`] returned for `old`; it matters only when `needs_position`.
    pub fn apply(&self, old: Doc, position: Option<usize>) -> Result<Option<DocBuf>> {
        Ok(self.apply_noting(old, position)?.map(|updated| updated.doc))
    }

    /// As [`Self::apply`], with what was written.
    pub fn apply_noting(&self, old: Doc, position: Option<usize>) -> Result<Option<Updated>> {
        let (new, written) = match &self.form {
            Form::Operators(operators) => match operators.apply(old, position)? {
                Some((new, paths)) => (new, Written::Paths(paths)),
                None => return Ok(None),
            },
            Form::Replacement(new) => (replacement::apply(new.as_doc(), old)?, Written::Whole),
            Form::Pipeline(pipeline) => (pipeline.apply(old)?, Written::Unknown),
        };
        stop::ended()?;
        // COMPAT: a replacement is compared as it was given, mostly without the `_id`
        let compared = match &self.form {
            Form::Replacement(given) => given,
            Form::Operators(_) | Form::Pipeline(_) => &new,
        };
        if compared.as_bytes() == old.as_bytes() {
            return Ok(None);
        }
        if new.as_bytes().len() > USER_SIZE_MAX {
            let message = format!("Resulting document after update is larger than {USER_SIZE_MAX}");
            return Err(Error::location(17419, message));
        }
        self.check_depth(&new)?;
        Ok(Some(Updated { doc: new, written }))
    }

    /// The document that an upsert inserts when nothing matched `filter`. Its `_id` comes first; `generate_id` is
    /// called when neither the filter nor the update has one.
    pub fn new_document(&self, filter: &Filter, generate_id: impl FnOnce() -> ObjectId) -> Result<DocBuf> {
        let new = upsert::new_document(&self.form, filter, generate_id)?;
        stop::ended()?;
        if new.as_bytes().len() > USER_SIZE_MAX {
            let message = format!("Document to upsert is larger than {USER_SIZE_MAX}");
            return Err(Error::location(17420, message));
        }
        check_depth(&new)?;
        Ok(new)
    }

    /// Returns true if the positional `$` is used.
    pub fn needs_position(&self) -> bool {
        matches!(&self.form, Form::Operators(operators) if operators.needs_position())
    }

    /// Returns true if the whole document is replaced (refused with `multi`).
    pub fn is_replacement(&self) -> bool {
        matches!(self.form, Form::Replacement(_))
    }

    /// Returns true if what it makes of a document depends on the document alone (no time, no variable, no position that a
    /// filter found, no collation), and the `_id` is none of its fields: then it may be stored and applied later.
    pub fn is_self_contained(&self) -> bool {
        matches!(&self.form, Form::Operators(operators) if operators.is_self_contained())
    }

    /// Returns the top-level fields with the values that they get, or none where they are removed; `None` if the update does
    /// anything else.
    pub fn whole_fields(&self) -> Option<Vec<(&str, Option<ValueRef<'_>>)>> {
        match &self.form {
            Form::Operators(operators) => operators.whole_fields(),
            Form::Replacement(_) | Form::Pipeline(_) => None,
        }
    }

    pub fn touched_paths(&self) -> Touched {
        match &self.form {
            Form::Operators(operators) => operators.touched(),
            Form::Replacement(_) | Form::Pipeline(_) => Touched::Everything,
        }
    }

    /// Checks the depth of the result, unless the operands are too small to nest deeply.
    fn check_depth(&self, new: &DocBuf) -> Result<()> {
        match &self.form {
            Form::Operators(operators) if !operators.may_nest_deeply() => Ok(()),
            _ => check_depth(new),
        }
    }
}

impl Touched {
    /// Returns true if the value at a dotted path may change.
    pub fn may_change(&self, dotted: &str) -> bool {
        let head = dotted.split('.').next().unwrap_or_default();
        match self {
            Touched::Everything => true,
            Touched::Fields(fields) => fields.binary_search_by(|field| (**field).cmp(head)).is_ok(),
        }
    }
}

fn refuse_array_filters(array_filters: &[Doc], form: &str) -> Result<()> {
    match array_filters {
        [] => Ok(()),
        _ => Err(Error::failed_to_parse(format!("arrayFilters may not be specified for {form}"))),
    }
}

fn check_depth(new: &DocBuf) -> Result<()> {
    if new.as_doc().is_deeper_than(STORED_DEPTH_MAX) {
        let message = format!("Document exceeds maximum nesting depth of {STORED_DEPTH_MAX}");
        return Err(Error::new(Code::OVERFLOW, message));
    }
    Ok(())
}
