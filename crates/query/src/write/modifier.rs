//! An update as it is applied to single documents.

use arbor_bson::{Doc, DocBuf, USER_SIZE_MAX, ValueRef};
use arbor_lang::update::{Update, Updated, Written};
use arbor_lang::{Code, Context, Filter};
use arbor_store::UpdateKind;

use super::new_document::check_id;
use super::object_id::new_object_id;
use crate::{Error, Result};

/// Update part of an update statement, before it is parsed.
pub(crate) struct Modification<'m> {
    pub update: ValueRef<'m>,
    pub array_filters: &'m [Doc<'m>],
    /// Variables of a pipeline (`c`).
    pub constants: Option<Doc<'m>>,
    pub multi: bool,
}

pub(crate) struct Modifier {
    update: Update,
}

impl Modifier {
    pub(crate) fn parse(modification: &Modification<'_>, context: &Context) -> Result<Modifier> {
        let with_constants;
        let context = match modification.constants {
            Some(constants) => {
                with_constants = context.clone().with_let(constants)?;
                &with_constants
            }
            None => context,
        };
        let update = Update::parse(modification.update, modification.array_filters, context)?;
        if modification.multi && update.is_replacement() {
            let message = "multi update is not supported for replacement-style update";
            return Err(Error::new(Code::FAILED_TO_PARSE, message));
        }
        Ok(Modifier { update })
    }

    pub(crate) fn update(&self) -> &Update {
        &self.update
    }

    /// The document after the update. None: it stays as it is. Requires that `old` matches `filter`.
    pub(crate) fn apply(&self, filter: &Filter, old: Doc<'_>) -> Result<Option<Updated>> {
        let position = match self.update.needs_position() {
            true => filter.matches_with_position(old)?.and_then(|matched| matched.position),
            false => None,
        };
        let new = self.update.apply_noting(old, position)?;
        if let Some(new) = &new {
            check_size(&new.doc, "Resulting document after update", 17419)?;
        }
        Ok(new)
    }

    /// The document that an upsert inserts.
    pub(crate) fn upserted(&self, filter: &Filter) -> Result<DocBuf> {
        let new = self.update.new_document(filter, new_object_id)?;
        if let Some(id) = new.get("_id") {
            check_id(id)?;
        }
        check_size(&new, "Document to upsert", 17420)?;
        Ok(new)
    }
}

/// Returns the kind of change that readers of the history get.
pub(crate) fn update_kind(updated: &Updated) -> UpdateKind<'_> {
    match &updated.written {
        Written::Whole => UpdateKind::Replacement,
        Written::Unknown => UpdateKind::Update,
        Written::Paths(paths) => UpdateKind::Paths(paths),
    }
}

fn check_size(doc: &DocBuf, what: &str, code: i32) -> Result<()> {
    if doc.as_bytes().len() > USER_SIZE_MAX {
        let message = format!("{what} is larger than {USER_SIZE_MAX}");
        return Err(Error::Lang(arbor_lang::Error::location(code, message)));
    }
    Ok(())
}
