//! Statements that write.

use arbor_lang::Error as LangError;

use crate::{
    Database, DeleteOutcome, DeleteSpec, FindAndModifyOutcome, FindAndModifySpec, InsertOutcome, InsertSpec, Interrupt,
    Result, UpdateOutcome, UpdateSpec,
};

/// Adds documents. Errors of single documents are in the outcome.
pub fn insert(_database: &Database, _spec: &InsertSpec<'_>, _interrupt: &Interrupt) -> Result<InsertOutcome> {
    Err(LangError::not_implemented("insert").into())
}

pub fn update(_database: &Database, _spec: &UpdateSpec<'_>, _interrupt: &Interrupt) -> Result<UpdateOutcome> {
    Err(LangError::not_implemented("update").into())
}

pub fn delete(_database: &Database, _spec: &DeleteSpec<'_>, _interrupt: &Interrupt) -> Result<DeleteOutcome> {
    Err(LangError::not_implemented("delete").into())
}

pub fn find_and_modify(
    _database: &Database,
    _spec: &FindAndModifySpec<'_>,
    _interrupt: &Interrupt,
) -> Result<FindAndModifyOutcome> {
    Err(LangError::not_implemented("findAndModify").into())
}
