//! `$setOnInsert: { field: value }`: as `$set`, but only in a document that an upsert inserts.

use arbor_bson::{Value, ValueRef};

use super::{Change, Run, Slot, replace};

#[derive(Clone, Debug)]
pub(in crate::update) struct SetOnInsert(Value);

impl SetOnInsert {
    pub(super) fn parse(operand: ValueRef) -> SetOnInsert {
        SetOnInsert(operand.to_value())
    }

    pub(super) fn modify<'a>(&'a self, slot: &mut Slot<'a>, run: &Run<'a>) -> Change {
        match run.inserting {
            true => replace(slot, Slot::Raw(self.0.as_ref())),
            false => Change::None,
        }
    }

    pub(super) fn create<'a>(&'a self, run: &Run<'a>) -> Option<Slot<'a>> {
        run.inserting.then(|| Slot::Raw(self.0.as_ref()))
    }
}
