//! `replSetResizeOplog`: how much of the log is kept as `local.oplog.rs`. Stays so over restarts, whatever the flags say.

use arbor_bson::{Code, ValueRef};
use arbor_protocol::arguments::Field;

use crate::call::Call;
use crate::replication::OplogSize;
use crate::{Error, Result};

/// Megabytes.
const SIZE_MIN: f64 = 990.0;
const SIZE_MAX: f64 = (1u64 << 30) as f64;

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    let mut size = OplogSize::default();
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        match name {
            "size" => size.megabytes = Some(bounded(field, value, SIZE_MIN, SIZE_MAX)?),
            "minRetentionHours" => size.hours_min = Some(bounded(field, value, 0.0, f64::MAX)?),
            _ => call.unknown(field)?,
        }
    }
    if call.server.replication.is_none() {
        let text = "replSetResizeOplog command can only be run on replica sets";
        return Err(Error::new(Code::ILLEGAL_OPERATION, text));
    }
    if size == OplogSize::default() {
        let text = "Either 'size' or 'minRetentionHours' must be specified";
        return Err(Error::new(Code::INVALID_OPTIONS, text));
    }
    call.server.resize_oplog(size)
}

fn bounded(field: Field<'_>, value: ValueRef<'_>, min: f64, max: f64) -> Result<f64> {
    let number = match value {
        ValueRef::Double(number) => number,
        value => field.integer(value)? as f64,
    };
    if !(min..=max).contains(&number) {
        let bound = if number > max { format!("<= {max}") } else { format!(">= {min}") };
        return Err(field.out_of_bounds(&bound, number).into());
    }
    Ok(number)
}
