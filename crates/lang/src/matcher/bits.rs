//! `$bitsAllSet`, `$bitsAllClear`, `$bitsAnySet`, `$bitsAnyClear`.
//!
//! A number is seen as a 64-bit two's complement number with infinite sign extension; binary data as its bytes,
//! the lowest bit of the first byte first, followed by zeros.

use arbor_bson::ValueRef;

use crate::stop::tick;
use crate::{Error, Result, number, text};

/// COMPAT: MongoDB takes masks as long as a document; 1 MiB keeps the list of positions below 32 MiB.
const MASK_BYTES_MAX: usize = 1 << 20;

/// Which bits must be how.
#[derive(Clone, Debug)]
pub struct BitTest {
    pub kind: BitKind,
    /// Sorted positions, each once.
    pub positions: Vec<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitKind {
    AllSet,
    AllClear,
    AnySet,
    AnyClear,
}

impl BitKind {
    pub fn of_operator(name: &str) -> Option<BitKind> {
        Some(match name {
            "$bitsAllSet" => BitKind::AllSet,
            "$bitsAllClear" => BitKind::AllClear,
            "$bitsAnySet" => BitKind::AnySet,
            "$bitsAnyClear" => BitKind::AnyClear,
            _ => return None,
        })
    }
}

impl BitTest {
    pub fn parse(kind: BitKind, name: &str, value: ValueRef) -> Result<BitTest> {
        let mut positions = match value {
            ValueRef::Array(array) => {
                let positions = array.as_doc().iter().map(|(at, value)| tick().and_then(|()| position(at, value)));
                positions.collect::<Result<Vec<_>>>()?
            }
            ValueRef::Binary { bytes, .. } if bytes.len() > MASK_BYTES_MAX => {
                return Err(Error::bad_value(format!("{name}: the mask is longer than {MASK_BYTES_MAX} bytes")));
            }
            ValueRef::Binary { bytes, .. } => positions_of(|position| bit_of_bytes(bytes, position), bytes.len() * 8),
            ValueRef::Int32(_) | ValueRef::Int64(_) | ValueRef::Double(_) | ValueRef::Decimal128(_) => {
                let mask = whole_number(name, value)?;
                if mask < 0 {
                    let field = text::field(name, value);
                    return Err(Error::failed_to_parse(format!("Expected a non-negative number in: {field}")));
                }
                positions_of(|position| mask >> position & 1 != 0, 63)
            }
            _ => {
                let field = text::field(name, value);
                let message = format!("{name} takes an Array, a number, or a BinData but received: {field}");
                return Err(Error::bad_value(message));
            }
        };
        positions.sort_unstable();
        positions.dedup();
        Ok(BitTest { kind, positions })
    }

    pub fn matches(&self, value: ValueRef) -> bool {
        match value {
            ValueRef::Binary { bytes, .. } => self.check(|position| bit_of_bytes(bytes, position)),
            _ => match number::exact_i64(value) {
                Some(number) => self.check(|position| number >> position.min(63) & 1 != 0),
                None => false,
            },
        }
    }

    fn check(&self, set: impl Fn(u32) -> bool) -> bool {
        let mut positions = self.positions.iter().copied();
        match self.kind {
            BitKind::AllSet => positions.all(set),
            BitKind::AllClear => positions.all(|position| !set(position)),
            BitKind::AnySet => positions.any(set),
            BitKind::AnyClear => positions.any(|position| !set(position)),
        }
    }
}

fn positions_of(set: impl Fn(u32) -> bool, count: usize) -> Vec<u32> {
    (0..count as u32).filter(|position| set(*position)).collect()
}

fn bit_of_bytes(bytes: &[u8], position: u32) -> bool {
    bytes.get(position as usize / 8).is_some_and(|byte| byte >> (position % 8) & 1 != 0)
}

fn position(at: &str, value: ValueRef) -> Result<u32> {
    let field = || text::field(at, value);
    let position = match value {
        ValueRef::Int32(_) | ValueRef::Int64(_) | ValueRef::Double(_) | ValueRef::Decimal128(_) => {
            let prefix = "Failed to parse bit position. ";
            whole_number(at, value).map_err(|error| Error::bad_value(format!("{prefix}{}", error.message)))?
        }
        _ => {
            let message = format!("Failed to parse bit position. Expected a number in: {}", field());
            return Err(Error::bad_value(message));
        }
    };
    u32::try_from(position).ok().filter(|position| *position <= i32::MAX as u32).ok_or_else(|| {
        Error::bad_value(format!("Failed to parse bit position. Expected a non-negative number in: {}", field()))
    })
}

/// A number without a fraction that fits 64 bits.
fn whole_number(name: &str, value: ValueRef) -> Result<i64> {
    number::exact_i64(value).ok_or_else(|| {
        let field = text::field(name, value);
        let fraction = matches!(value, ValueRef::Double(v) if v.is_finite() && v.fract() != 0.0);
        let problem = if fraction { "Expected an integer" } else { "Cannot represent as a 64-bit integer" };
        Error::failed_to_parse(format!("{problem}: {field}"))
    })
}
