//! `capped`, `size` and `max` of `create`, `cappedSize` and `cappedMax` of `collMod`.

use arbor_bson::{Code, DocBuf, ValueRef};
use arbor_protocol::arguments::Field;

use crate::{Error, Result};

/// Most bytes of a capped collection: 1 PB, as in MongoDB.
const SIZE_MAX: i64 = 1 << 50;
/// Sizes are multiples of this.
const SIZE_UNIT: i64 = 256;

#[derive(Default)]
pub(crate) struct Capped {
    pub capped: bool,
    pub size: Option<i64>,
    pub max: Option<i64>,
}

impl Capped {
    /// As `listCollections` shows them.
    pub(crate) fn append_to(&self, options: &mut DocBuf) -> Result<()> {
        if !self.capped {
            if self.size.is_some() || self.max.is_some() {
                let text = "the 'capped' field needs to be true when either the 'size' or 'max' fields are present";
                return Err(Error::new(Code::INVALID_OPTIONS, text));
            }
            return Ok(());
        }
        let missing = || Error::new(Code::INVALID_OPTIONS, "the 'size' field is required when 'capped' is true");
        let size = self.size.ok_or_else(missing)?;
        options.append("capped", true).append("size", size);
        if let Some(max) = self.max.filter(|max| *max > 0) {
            options.append("max", max);
        }
        Ok(())
    }
}

/// A size in bytes, rounded up.
pub(crate) fn size(field: Field<'_>, value: ValueRef<'_>) -> Result<i64> {
    let size = field.integer(value)?;
    if !(1..=SIZE_MAX).contains(&size) {
        let bound = if size < 1 { ">= 1" } else { "<= 1125899906842624" };
        return Err(field.out_of_bounds(bound, size).into());
    }
    Ok((size + SIZE_UNIT - 1) / SIZE_UNIT * SIZE_UNIT)
}
