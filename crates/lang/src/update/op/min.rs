//! `$min: { field: value }`: sets the value where it is less than what is there, by the order of all types, or nothing is.

use arbor_bson::{Value, ValueRef};

use super::{Change, Run, Slot};

#[derive(Clone, Debug)]
pub(in crate::update) struct Min(Value);

impl Min {
    pub(super) fn parse(operand: ValueRef) -> Min {
        Min(operand.to_value())
    }

    pub(super) fn modify<'a>(&'a self, slot: &mut Slot<'a>, run: &Run<'a>) -> Change {
        if run.collation.compare(self.0.as_ref(), slot.value()).is_lt() {
            *slot = self.create();
            return Change::Changed;
        }
        Change::None
    }

    pub(super) fn create(&self) -> Slot<'_> {
        Slot::Raw(self.0.as_ref())
    }
}
