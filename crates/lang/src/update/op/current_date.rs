//! `$currentDate: { field: true }` or `{ field: { $type: "date" | "timestamp" } }`

use arbor_bson::{Timestamp, Value, ValueRef};

use crate::{Context, Error, Result, text};

#[derive(Clone, Debug)]
pub(in crate::update) struct CurrentDate(Value);

impl CurrentDate {
    pub(super) fn parse(operand: ValueRef, context: &Context) -> Result<CurrentDate> {
        let date = Ok(CurrentDate(Value::DateTime(context.now)));
        let ValueRef::Document(options) = operand else {
            return match operand {
                ValueRef::Bool(_) => date,
                other => Err(Error::bad_value(format!(
                    "{} is not valid type for $currentDate. Please use a boolean ('true') or a $type expression \
                     ({{$type: 'timestamp/date'}}).",
                    text::type_alias(other.ty()),
                ))),
            };
        };
        if let Some((unknown, _)) = options.iter().find(|(name, _)| *name != "$type") {
            return Err(Error::bad_value(format!("Unrecognized $currentDate option: {unknown}")));
        }
        match options.get("$type") {
            Some(ValueRef::String("date")) => date,
            Some(ValueRef::String("timestamp")) => Ok(CurrentDate(Value::Timestamp(timestamp(context)))),
            _ => Err(Error::bad_value(
                "The '$type' string field is required to be 'date' or 'timestamp': {$currentDate: {field : {$type: \
                 'date'}}}",
            )),
        }
    }

    pub(super) fn value(&self) -> ValueRef<'_> {
        self.0.as_ref()
    }
}

/// The time of the command as a timestamp.
pub(in crate::update) fn timestamp(context: &Context) -> Timestamp {
    let now = Timestamp { seconds: (context.now / 1000) as u32, increment: 1 };
    context.cluster_time.unwrap_or(now)
}
