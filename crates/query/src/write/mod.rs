//! Statements that write.

mod delete;
mod insert;
mod new_document;
mod object_id;
mod statements;
mod target;

use arbor_lang::Error as LangError;

pub use delete::delete;
pub use insert::insert;

use crate::{Database, FindAndModifyOutcome, FindAndModifySpec, Interrupt, Result, UpdateOutcome, UpdateSpec};

pub fn update(_database: &Database, _spec: &UpdateSpec<'_>, _interrupt: &Interrupt) -> Result<UpdateOutcome> {
    Err(LangError::not_implemented("update").into())
}

pub fn find_and_modify(
    _database: &Database,
    _spec: &FindAndModifySpec<'_>,
    _interrupt: &Interrupt,
) -> Result<FindAndModifyOutcome> {
    Err(LangError::not_implemented("findAndModify").into())
}
