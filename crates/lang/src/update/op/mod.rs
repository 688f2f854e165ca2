//! The update operators, one file each.
//!
//! Each has `parse` (its operand), `modify` (a value that exists) and `create` (a field that does not).

mod add_to_set;
mod bit;
mod current_date;
mod inc;
mod max;
mod min;
mod mul;
mod pop;
mod pull;
mod pull_all;
mod push;
mod rename;
mod set;
mod set_on_insert;
mod unset;

use arbor_bson::{Value, ValueRef, identical};

pub(super) use self::{
    current_date::timestamp,
    rename::{Rename, renamed},
};
use super::{
    path::UpdatePath,
    run::{Blocked, Change, Run},
    slot::Slot,
};
use crate::{Context, Error, Result};

#[derive(Clone, Debug)]
pub(super) enum Op {
    AddToSet(add_to_set::AddToSet),
    Bit(bit::Bit),
    CurrentDate(current_date::CurrentDate),
    Inc(inc::Inc),
    Max(max::Max),
    Min(min::Min),
    Mul(mul::Mul),
    Pop(pop::Pop),
    Pull(pull::Pull),
    PullAll(pull_all::PullAll),
    Push(push::Push),
    /// The field that `$rename` takes away.
    RenameFrom,
    /// The field it makes, by the number of the rename.
    RenameTo(usize),
    Set(set::Set),
    SetOnInsert(set_on_insert::SetOnInsert),
    Unset,
}

impl Op {
    /// Returns false if it uses the time, a variable, or another field, or is for new documents only.
    pub(super) fn depends_on_the_value_alone(&self) -> bool {
        match self {
            Op::AddToSet(_) | Op::Bit(_) | Op::Inc(_) | Op::Max(_) | Op::Min(_) | Op::Mul(_) => true,
            Op::Pop(_) | Op::PullAll(_) | Op::Push(_) | Op::Set(_) | Op::Unset => true,
            // the condition of $pull may have expressions
            Op::Pull(_) | Op::CurrentDate(_) | Op::RenameFrom | Op::RenameTo(_) | Op::SetOnInsert(_) => false,
        }
    }
}

/// The names of all operators.
pub const NAMES: &[&str] = &[
    "$addToSet",
    "$bit",
    "$currentDate",
    "$inc",
    "$max",
    "$min",
    "$mul",
    "$pop",
    "$pull",
    "$pullAll",
    "$push",
    "$rename",
    "$set",
    "$setOnInsert",
    "$unset",
];

impl Op {
    /// Every operator but `$rename`, which has two paths.
    pub(super) fn parse(name: &str, path: &UpdatePath, operand: ValueRef, context: &Context) -> Result<Op> {
        let field = path.as_str();
        Ok(match name {
            "$addToSet" => Op::AddToSet(add_to_set::AddToSet::parse(operand, &context.collation)?),
            "$bit" => Op::Bit(bit::Bit::parse(field, operand)?),
            "$currentDate" => Op::CurrentDate(current_date::CurrentDate::parse(operand, context)?),
            "$inc" => Op::Inc(inc::Inc::parse(field, operand)?),
            "$max" => Op::Max(max::Max::parse(operand)),
            "$min" => Op::Min(min::Min::parse(operand)),
            "$mul" => Op::Mul(mul::Mul::parse(field, operand)?),
            "$pop" => Op::Pop(pop::Pop::parse(field, operand)?),
            "$pull" => Op::Pull(pull::Pull::parse(operand, context)?),
            "$pullAll" => Op::PullAll(pull_all::PullAll::parse(operand)?),
            "$push" => Op::Push(push::Push::parse(operand, context)?),
            "$set" => Op::Set(set::Set::parse(operand)),
            "$setOnInsert" => Op::SetOnInsert(set_on_insert::SetOnInsert::parse(operand)),
            "$unset" => Op::Unset,
            _ => return Err(unknown(name)),
        })
    }

    pub(super) fn modify<'a>(&'a self, slot: &mut Slot<'a>, run: &Run<'a>) -> Result<Change> {
        match self {
            Op::AddToSet(op) => op.modify(slot, run),
            Op::Bit(op) => op.modify(slot, run),
            Op::CurrentDate(op) => Ok(replace(slot, Slot::Raw(op.value()))),
            Op::Inc(op) => op.modify(slot, run),
            Op::Max(op) => Ok(op.modify(slot, run)),
            Op::Min(op) => Ok(op.modify(slot, run)),
            Op::Mul(op) => op.modify(slot, run),
            Op::Pop(op) => op.modify(slot, run),
            Op::Pull(op) => op.modify(slot, run),
            Op::PullAll(op) => op.modify(slot, run),
            Op::Push(op) => op.modify(slot, run),
            Op::RenameFrom | Op::Unset => Ok(Change::Removed),
            Op::RenameTo(number) => Ok(match rename::moved(*number, run) {
                Some(value) => replace(slot, value),
                None => Change::None,
            }),
            Op::Set(op) => Ok(replace(slot, Slot::Raw(op.value()))),
            Op::SetOnInsert(op) => Ok(op.modify(slot, run)),
        }
    }

    /// Returns the number of elements of an array that the operator only appends to, unless it is empty.
    pub(super) fn appends_behind(&self, slot: &mut Slot<'_>) -> Option<usize> {
        match self {
            Op::Push(op) => op.appends_behind(slot),
            _ => None,
        }
    }

    /// The value of a field that is not there yet; none if the operator makes none.
    pub(super) fn create<'a>(&'a self, run: &Run<'a>) -> Result<Option<Slot<'a>>> {
        Ok(match self {
            Op::AddToSet(op) => Some(op.create()),
            Op::Bit(op) => Some(op.create()),
            Op::CurrentDate(op) => Some(Slot::Raw(op.value())),
            Op::Inc(op) => Some(op.create()),
            Op::Max(op) => Some(op.create()),
            Op::Min(op) => Some(op.create()),
            Op::Mul(op) => Some(op.create()),
            Op::Push(op) => Some(op.create(run.collation)),
            Op::RenameTo(number) => rename::moved(*number, run),
            Op::Set(op) => Some(Slot::Raw(op.value())),
            Op::SetOnInsert(op) => op.create(run),
            Op::Pop(_) | Op::Pull(_) | Op::PullAll(_) | Op::RenameFrom | Op::Unset => None,
        })
    }

    /// Returns its behaviour at a path that leads through something that is no document.
    pub(super) fn blocked(&self, run: &Run<'_>) -> Blocked {
        match self {
            Op::Unset | Op::RenameFrom => Blocked::Ignore,
            Op::SetOnInsert(_) if !run.inserting => Blocked::Ignore,
            Op::RenameTo(number) if rename::moved(*number, run).is_none() => Blocked::Ignore,
            Op::Pop(_) | Op::Pull(_) | Op::PullAll(_) => Blocked::Refuse,
            _ => Blocked::Create,
        }
    }
}

pub(super) fn unknown(name: &str) -> Error {
    Error::failed_to_parse(format!(
        "Unknown modifier: {name}. Expected a valid update modifier or pipeline-style update specified as an array"
    ))
}

/// Puts a new value in place, unless it is the same, type included.
fn replace<'a>(slot: &mut Slot<'a>, mut new: Slot<'a>) -> Change {
    if slot.peek().is_some_and(|old| identical(old, new.value())) {
        return Change::None;
    }
    *slot = new;
    Change::Changed
}

fn replace_value(slot: &mut Slot<'_>, new: Value) -> Change {
    replace(slot, Slot::Owned(new))
}
