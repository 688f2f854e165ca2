//! `$bit: { field: { and | or | xor: integer } }`; a field that is not there counts as 0.
//!
//! `{ a: 13 }`, `{ $bit: { a: { and: 10 } } }` -> `{ a: 8 }`

use arbor_bson::{Number, ValueRef};

use super::{Change, Run, Slot, replace_value};
use crate::{Error, Result, text};

#[derive(Clone, Debug)]
pub(in crate::update) struct Bit(Vec<(Operator, Number)>);

#[derive(Clone, Copy, Debug)]
enum Operator {
    And,
    Or,
    Xor,
}

impl Bit {
    pub(super) fn parse(_field: &str, operand: ValueRef) -> Result<Bit> {
        let ValueRef::Document(operations) = operand else {
            return Err(Error::bad_value(format!(
                "The $bit modifier is not compatible with a {}. You must pass in an embedded document: {{$bit: \
                 {{field: {{and/or/xor: #}}}}",
                text::type_alias(operand.ty()),
            )));
        };
        let operations: Vec<_> =
            operations.iter().map(|(name, value)| operation(name, value)).collect::<Result<_>>()?;
        if operations.is_empty() {
            return Err(Error::bad_value(
                "You must pass in at least one bitwise operation. The format is: {$bit: {field: {and/or/xor: #}}",
            ));
        }
        Ok(Bit(operations))
    }

    pub(super) fn modify(&self, slot: &mut Slot<'_>, run: &Run<'_>) -> Result<Change> {
        let value = slot.value();
        let old = match value.as_number() {
            Some(old @ (Number::Int32(_) | Number::Int64(_))) => old,
            _ => {
                let field = run.path.last().map(|name| &**name).unwrap_or_default();
                return Err(Error::bad_value(format!(
                    "Cannot apply $bit to a value of non-integral type.{} has the field {field} of non-integer type {}",
                    run.id_text(),
                    text::type_alias(value.ty()),
                )));
            }
        };
        Ok(replace_value(slot, self.apply(old).to_value()))
    }

    pub(super) fn create<'a>(&self) -> Slot<'a> {
        Slot::Owned(self.apply(Number::Int32(0)).to_value())
    }

    fn apply(&self, old: Number) -> Number {
        self.0.iter().fold(old, |old, (operator, operand)| operator.apply(old, *operand))
    }
}

impl Operator {
    fn apply(self, a: Number, b: Number) -> Number {
        let combine = |a: i64, b: i64| match self {
            Operator::And => a & b,
            Operator::Or => a | b,
            Operator::Xor => a ^ b,
        };
        match (a, b) {
            (Number::Int32(a), Number::Int32(b)) => Number::Int32(combine(i64::from(a), i64::from(b)) as i32),
            (a, b) => {
                let (a, b) = (a.to_i64_exact().unwrap_or_default(), b.to_i64_exact().unwrap_or_default());
                Number::Int64(combine(a, b))
            }
        }
    }
}

fn operation(name: &str, value: ValueRef) -> Result<(Operator, Number)> {
    let operator = match name {
        "and" => Operator::And,
        "or" => Operator::Or,
        "xor" => Operator::Xor,
        _ => {
            let operation = text::field(name, value);
            return Err(Error::bad_value(format!(
                "The $bit modifier only supports 'and', 'or', and 'xor', not '{name}' which is an unknown operator: \
                 {{{operation}}}"
            )));
        }
    };
    match value.as_number() {
        Some(number @ (Number::Int32(_) | Number::Int64(_))) => Ok((operator, number)),
        _ => {
            let ty = text::type_alias(value.ty());
            let operation = text::field(name, value);
            Err(Error::bad_value(format!(
                "The $bit modifier field must be an Integer(32/64 bit); a '{ty}' is not supported here: {{{operation}}}"
            )))
        }
    }
}
