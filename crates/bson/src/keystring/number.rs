//! Numbers of all four types as one range of components (layout in the parent).

use super::{class, code, reader::Reader, types::TypeReader, types::TypeWriter};
use crate::{
    Decimal128, Error, Value,
    decimal::{EXPONENT_MIN, Finite, Parts},
};

const INT64_END: f64 = 9_223_372_036_854_775_808.0;
const FRACTION_BITS: u32 = 55;
const FIRST_DIGIT_BIAS: i32 = 8192;

/// A magnitude that is neither zero nor infinite, in the form its component has.
#[derive(Clone, Copy, Debug)]
enum Magnitude {
    /// `1 <= whole < 2^63`; a fraction if there is one.
    Whole { whole: u64, fraction: Option<Fraction> },
    /// Below 1 or from 2^63: the double that is not above it.
    Other { double: f64, tail: Option<Tail> },
}

/// `bits / 2^55`, and the whole number again as a decimal if that is not all.
#[derive(Clone, Copy, Debug)]
struct Fraction {
    bits: u64,
    tail: Option<Tail>,
}

#[derive(Clone, Copy, Debug)]
struct Tail {
    first_digit: i32,
    coefficient: u128,
}

pub(super) fn int32(out: &mut Vec<u8>, types: &mut TypeWriter, v: i32) {
    whole_number(out, v < 0, u64::from(v.unsigned_abs()));
    types.push(code::DEFAULT);
}

pub(super) fn int64(out: &mut Vec<u8>, types: &mut TypeWriter, v: i64) {
    whole_number(out, v < 0, v.unsigned_abs());
    let as_default = i32::try_from(v).is_err() && v != i64::MIN;
    types.push(if as_default { code::DEFAULT } else { code::INT64 });
}

fn whole_number(out: &mut Vec<u8>, negative: bool, magnitude: u64) {
    match magnitude {
        0 => out.push(class::ZERO),
        _ if magnitude >> 63 == 1 => Magnitude::Other { double: magnitude as f64, tail: None }.write(out, negative),
        _ => write_whole(out, negative, magnitude << 1),
    }
}

/// PERF: the hottest path of all; one compare, one shift, two appends.
fn write_whole(out: &mut Vec<u8>, negative: bool, shifted: u64) {
    let len = 8 - shifted.leading_zeros() / 8;
    let (class, bytes) = if negative {
        (class::NEGATIVE_WHOLE - len as u8, (!shifted).to_be_bytes())
    } else {
        (class::WHOLE + len as u8, shifted.to_be_bytes())
    };
    out.push(class);
    out.extend_from_slice(bytes.get(8 - len as usize..).unwrap_or_default());
}

pub(super) fn double(out: &mut Vec<u8>, types: &mut TypeWriter, v: f64) {
    if v.is_nan() {
        out.push(class::NAN);
        return match v.to_bits() == f64::NAN.to_bits() {
            true => types.push(code::DEFAULT),
            false => types.push_with(code::RAW_DOUBLE, &v.to_le_bytes()),
        };
    }
    if v == 0.0 {
        out.push(class::ZERO);
        return types.push(if v.is_sign_negative() { code::NEGATIVE_ZERO } else { code::DOUBLE });
    }
    if v.is_infinite() {
        out.push(if v < 0.0 { class::NEGATIVE_INFINITY } else { class::INFINITY });
        return types.push(code::DEFAULT);
    }
    let magnitude = v.abs();
    let whole_in_int64 = v.fract() == 0.0 && magnitude < INT64_END;
    types.push(if whole_in_int64 { code::DOUBLE } else { code::DEFAULT });
    Magnitude::of_double(magnitude).write(out, v < 0.0);
}

pub(super) fn decimal(out: &mut Vec<u8>, types: &mut TypeWriter, v: Decimal128) {
    let finite = match v.parts() {
        Parts::Finite(finite) if finite.coefficient != 0 => finite,
        special => {
            out.push(match special {
                Parts::Nan => class::NAN,
                Parts::Infinity { negative: true } => class::NEGATIVE_INFINITY,
                Parts::Infinity { negative: false } => class::INFINITY,
                Parts::Finite(_) => class::ZERO,
            });
            return types.push_with(code::RAW_DECIMAL, &v.0);
        }
    };
    let magnitude = Magnitude::of_decimal(finite);
    magnitude.write(out, finite.negative);
    if magnitude.holds_digits() {
        types.push_with(code::DECIMAL_EXPONENT, &((finite.exponent - EXPONENT_MIN) as u16).to_le_bytes());
    } else {
        types.push_with(code::RAW_DECIMAL, &v.0);
    }
}

impl Magnitude {
    fn of_double(v: f64) -> Magnitude {
        if !(1.0..INT64_END).contains(&v) {
            return Magnitude::Other { double: v, tail: None };
        }
        // a double from 1 on has at most 52 bits behind the point, so 55 hold them all
        let bits = (v.fract() * (1u64 << FRACTION_BITS) as f64) as u64;
        let fraction = (bits != 0).then_some(Fraction { bits, tail: None });
        Magnitude::Whole { whole: v as u64, fraction }
    }

    fn of_decimal(v: Finite) -> Magnitude {
        let (first_digit, coefficient) = v.normalized();
        let tail = Tail { first_digit, coefficient };
        if (0..=18).contains(&first_digit) {
            let (whole, rest, unit) = if v.exponent >= 0 {
                (v.coefficient * 10u128.pow(v.exponent as u32), 0, 1)
            } else {
                let unit = 10u128.pow(v.exponent.unsigned_abs());
                (v.coefficient / unit, v.coefficient % unit, unit)
            };
            if whole < 1 << 63 {
                let fraction = (rest != 0).then(|| Fraction::of_ratio(rest, unit, tail));
                return Magnitude::Whole { whole: whole as u64, fraction };
            }
        }
        let (double, exact) = v.truncate_to_f64();
        Magnitude::Other { double, tail: (!exact).then_some(tail) }
    }

    /// Returns true if [`Magnitude::coefficient`] can restore a decimal's digits from the component.
    fn holds_digits(&self) -> bool {
        match self {
            Magnitude::Whole { fraction: None, .. } => true,
            Magnitude::Whole { fraction: Some(Fraction { tail, .. }), .. } | Magnitude::Other { tail, .. } => {
                tail.is_some()
            }
        }
    }

    fn coefficient(&self, exponent: i32) -> Option<u128> {
        let (coefficient, own_exponent) = match *self {
            Magnitude::Whole { whole, fraction: None } => (u128::from(whole), 0),
            Magnitude::Whole { fraction: Some(Fraction { tail, .. }), .. } | Magnitude::Other { tail, .. } => {
                let Tail { first_digit, coefficient } = tail?;
                (coefficient, first_digit - 33)
            }
        };
        let power = 10u128.checked_pow(own_exponent.abs_diff(exponent))?;
        if exponent > own_exponent { Some(coefficient / power) } else { coefficient.checked_mul(power) }
    }

    fn write(self, out: &mut Vec<u8>, negative: bool) {
        let start = out.len() + 1;
        match self {
            Magnitude::Whole { whole, fraction: None } => return write_whole(out, negative, whole << 1),
            Magnitude::Whole { whole, fraction: Some(fraction) } => {
                write_whole(out, false, whole << 1 | 1);
                let bits = fraction.bits << 1 | u64::from(fraction.tail.is_some());
                out.extend_from_slice(bits.to_be_bytes().get(1..).unwrap_or_default());
                fraction.tail.iter().for_each(|tail| tail.write(out));
            }
            Magnitude::Other { double, tail } => {
                out.push(if double < 1.0 { class::TINY } else { class::HUGE });
                out.extend_from_slice(&(double.to_bits() << 1 | u64::from(tail.is_some())).to_be_bytes());
                tail.iter().for_each(|tail| tail.write(out));
            }
        }
        if negative {
            // the classes mirror around zero
            if let Some(class) = out.get_mut(start - 1) {
                *class = 2 * class::ZERO - *class;
            }
            out.iter_mut().skip(start).for_each(|byte| *byte = !*byte);
        }
    }

    fn read(reader: &mut Reader<'_>, class: u8) -> Result<Magnitude, Error> {
        if class == class::TINY || class == class::HUGE {
            let bits = u64::from_be_bytes(reader.array()?);
            let double = f64::from_bits(bits >> 1);
            let tail = if bits & 1 == 1 { Some(Tail::read(reader)?) } else { None };
            return Ok(Magnitude::Other { double, tail });
        }
        let mut shifted = 0u64;
        for _ in class::WHOLE..class {
            shifted = shifted << 8 | u64::from(reader.byte()?);
        }
        let fraction = if shifted & 1 == 1 { Some(Fraction::read(reader)?) } else { None };
        Ok(Magnitude::Whole { whole: shifted >> 1, fraction })
    }

    fn to_f64(self) -> f64 {
        match self {
            Magnitude::Whole { whole, fraction } => {
                whole as f64 + fraction.map_or(0.0, |f| f.bits as f64 / (1u64 << FRACTION_BITS) as f64)
            }
            Magnitude::Other { double, .. } => double,
        }
    }
}

impl Fraction {
    /// `rest / unit` below 1, bit by bit; both are below 2^113.
    fn of_ratio(mut rest: u128, unit: u128, tail: Tail) -> Fraction {
        let mut bits = 0;
        for _ in 0..FRACTION_BITS {
            rest <<= 1;
            bits <<= 1;
            if rest >= unit {
                rest -= unit;
                bits |= 1;
            }
        }
        Fraction { bits, tail: (rest != 0).then_some(tail) }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Fraction, Error> {
        let mut bits = 0u64;
        for byte in reader.array::<7>()? {
            bits = bits << 8 | u64::from(byte);
        }
        let tail = if bits & 1 == 1 { Some(Tail::read(reader)?) } else { None };
        Ok(Fraction { bits: bits >> 1, tail })
    }
}

impl Tail {
    fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&((self.first_digit + FIRST_DIGIT_BIAS) as u16).to_be_bytes());
        out.extend_from_slice(self.coefficient.to_be_bytes().get(1..).unwrap_or_default());
    }

    fn read(reader: &mut Reader<'_>) -> Result<Tail, Error> {
        let first_digit = i32::from(u16::from_be_bytes(reader.array()?)) - FIRST_DIGIT_BIAS;
        let mut coefficient = 0u128;
        for byte in reader.array::<15>()? {
            coefficient = coefficient << 8 | u128::from(byte);
        }
        Ok(Tail { first_digit, coefficient })
    }
}

/// Returns true if the class is that of a number.
pub(super) fn is_number(class: u8) -> bool {
    (class::NAN..=class::INFINITY).contains(&class)
}

/// Reads past what follows a number's class.
pub(super) fn skip(reader: &mut Reader<'_>, class: u8) -> Result<(), Error> {
    read_magnitude(reader, class).map(drop)
}

fn read_magnitude(reader: &mut Reader<'_>, class: u8) -> Result<Option<(bool, Magnitude)>, Error> {
    match class {
        class::NAN | class::NEGATIVE_INFINITY | class::ZERO | class::INFINITY => Ok(None),
        _ if class > class::ZERO => Ok(Some((false, Magnitude::read(reader, class)?))),
        _ => {
            reader.invert();
            let magnitude = Magnitude::read(reader, 2 * class::ZERO - class);
            reader.invert();
            Ok(Some((true, magnitude?)))
        }
    }
}

/// Reads what follows a number's class, and the number's type code.
pub(super) fn read(reader: &mut Reader<'_>, types: &mut TypeReader<'_>, class: u8) -> Result<Value, Error> {
    let magnitude = read_magnitude(reader, class)?;
    let lost = || Error::BadKey("type bits end early");
    let value = match (types.code(), magnitude) {
        (code::RAW_DOUBLE, _) => Value::Double(f64::from_le_bytes(types.content().ok_or_else(lost)?)),
        (code::RAW_DECIMAL, _) => Value::Decimal128(Decimal128(types.content().ok_or_else(lost)?)),
        (code::NEGATIVE_ZERO, None) => Value::Double(-0.0),
        (code, None) => special(class, code),
        (code::DECIMAL_EXPONENT, Some((negative, magnitude))) => {
            let exponent = i32::from(u16::from_le_bytes(types.content().ok_or_else(lost)?)) + EXPONENT_MIN;
            let coefficient = magnitude.coefficient(exponent).filter(|c| *c <= crate::decimal::COEFFICIENT_MAX);
            let coefficient = coefficient.ok_or(Error::BadKey("decimal digits"))?;
            Value::Decimal128(Decimal128::from_finite(Finite { negative, coefficient, exponent }))
        }
        (code, Some((negative, magnitude))) => binary_number(code, negative, magnitude),
    };
    Ok(value)
}

fn special(class: u8, code: u8) -> Value {
    match (class, code) {
        (class::NAN, _) => Value::Double(f64::NAN),
        (class::NEGATIVE_INFINITY, _) => Value::Double(f64::NEG_INFINITY),
        (class::INFINITY, _) => Value::Double(f64::INFINITY),
        (_, code::DOUBLE) => Value::Double(0.0),
        (_, code::INT64) => Value::Int64(0),
        _ => Value::Int32(0),
    }
}

fn binary_number(code: u8, negative: bool, magnitude: Magnitude) -> Value {
    match (code, magnitude) {
        (code::DEFAULT | code::INT64, Magnitude::Whole { whole, fraction: None }) => {
            let v = if negative { -(whole as i64) } else { whole as i64 };
            match i32::try_from(v) {
                Ok(v) if code == code::DEFAULT => Value::Int32(v),
                _ => Value::Int64(v),
            }
        }
        (code::INT64, _) => Value::Int64(i64::MIN),
        _ => Value::Double(if negative { -magnitude.to_f64() } else { magnitude.to_f64() }),
    }
}
