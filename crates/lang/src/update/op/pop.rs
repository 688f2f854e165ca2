//! `$pop: { field: 1 | -1 }`: takes the last (1) or the first (-1) element away.

use arbor_bson::ValueRef;

use super::{Change, Run, Slot};
use crate::{Error, Result, text};

#[derive(Clone, Copy, Debug)]
pub(in crate::update) enum Pop {
    First,
    Last,
}

impl Pop {
    pub(super) fn parse(field: &str, operand: ValueRef) -> Result<Pop> {
        let Some(number) = operand.as_number() else {
            let message = format!("Expected a number in: {}", text::field(field, operand));
            return Err(Error::failed_to_parse(message));
        };
        match number.to_i64_exact() {
            Some(1) => Ok(Pop::Last),
            Some(-1) => Ok(Pop::First),
            Some(other) => Err(Error::failed_to_parse(format!("$pop expects 1 or -1, found: {other}"))),
            None => {
                let message = format!("Expected an integer: {}", text::field(field, operand));
                Err(Error::failed_to_parse(message))
            }
        }
    }

    pub(super) fn modify(self, slot: &mut Slot<'_>, run: &Run<'_>) -> Result<Change> {
        if !slot.is_array() {
            let path = run.dotted();
            let ty = text::type_alias(slot.value().ty());
            let message = format!("Path '{path}' contains an element of non-array type '{ty}'");
            return Err(Error::type_mismatch(message));
        }
        match slot.elements() {
            Some(elements) if !elements.is_empty() => {
                match self {
                    Pop::First => drop(elements.remove(0)),
                    Pop::Last => drop(elements.pop()),
                }
                Ok(Change::Changed)
            }
            _ => Ok(Change::None),
        }
    }
}
