//! `replSetExpireOplog` and `replGetExpireOplog` of TokuMX: the oplog is kept by time alone, whatever its size.

use arbor_bson::{Code, ValueRef};

use crate::call::Call;
use crate::replication::OplogSize;
use crate::{Error, Result};

const HOURS_OF_A_DAY: f64 = 24.0;
/// A century.
const HOURS_MAX: f64 = 876_000.0;

pub(crate) fn set(call: &mut Call<'_>) -> Result<()> {
    let mut hours = 0.0;
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        let unit = match name {
            "expireOplogDays" => HOURS_OF_A_DAY,
            "expireOplogHours" => 1.0,
            _ => return call.unknown(field),
        };
        let number = match value {
            ValueRef::Double(number) => number,
            value => field.integer(value)? as f64,
        };
        if !(0.0..=HOURS_MAX).contains(&number) {
            return Err(field.out_of_bounds(&format!("between 0 and {HOURS_MAX}"), number).into());
        }
        hours += unit * number;
    }
    call.replication()?;
    if hours == 0.0 {
        let text = "expireOplogDays and expireOplogHours are together more than 0";
        return Err(Error::new(Code::BAD_VALUE, text));
    }
    call.server.resize_oplog(OplogSize { megabytes: Some(0.0), hours_min: Some(hours) })
}

/// Both are 0 if the oplog is kept by its size.
pub(crate) fn get(call: &mut Call<'_>) -> Result<()> {
    call.only(&[])?;
    call.replication()?;
    let retention = call.database().transactions.retention();
    let by_time = retention.filter(|retention| retention.bytes == 0);
    let hours = by_time.map_or(0.0, |retention| retention.time.as_secs_f64() / 3600.0);
    let days = (hours / HOURS_OF_A_DAY).floor();
    call.reply.append("expireOplogDays", days as i64).append("expireOplogHours", hours - days * HOURS_OF_A_DAY);
    Ok(())
}
