//! KeyString: bytes whose order is the order of values.
//!
//! A key is a row of components, one per value. Numbers are big-endian here (the one named exception to little-endian).
//!
//! | component | bytes |
//! |---|---|
//! | MinKey, Undefined, Null, MaxKey, Bool | class |
//! | NaN, -infinity, zero, infinity | class |
//! | number, 1 <= magnitude < 2^63 | class (sign, n), n bytes `whole * 2 + has_fraction`, then fraction if it has one |
//! | - its fraction | 7 bytes `floor(fraction * 2^55) * 2 + inexact`, then tail if inexact |
//! | number, magnitude below 1 or from 2^63 | class, 8 bytes `bits of the double not above it * 2 + inexact`, then tail if inexact |
//! | - tail (decimals no double holds) | 2 bytes exponent of the first digit + 8192, 15 bytes coefficient scaled to 34 digits |
//! | String, Symbol, JavaScript | class, text |
//! | String, Symbol by a [`crate::TextOrder`] | class, the key of that order as text |
//! | text | its bytes with 00 as 01 01 and 01 as 01 02, then 00 |
//! | Document | class, elements, 00; element: canonical type, name as text, component |
//! | Array | class, components, 00 |
//! | Binary | class, length (1 byte below 255, else FF and 4 bytes), subtype, bytes |
//! | ObjectId | class, 12 bytes |
//! | DateTime | class, 8 bytes with the sign bit inverted |
//! | Timestamp | class, 4 bytes seconds, 4 bytes increment |
//! | Regex | class, pattern as text, options as text |
//! | DbPointer | class, 4 bytes length of the namespace, namespace, 12 bytes |
//! | JavaScriptWithScope | class, code as text, elements of the scope, 00 |
//!
//! Everything behind the class of a negative number is inverted bitwise; a descending component is inverted as a whole.
//!
//! K1: no component is a prefix of another, so each is compared on its own and inverting it reverses its order.
//! K2: classes, and inverted classes, lie within 04..=FB. 00 and FF at a component's place therefore sort before and after
//! every value ([`KeyBuilder::push_min`], [`KeyBuilder::push_max`]), in either direction.
//! K3: values that compare equal have equal bytes. Their difference, if any, goes into the type bits.
//!
//! Type bits: one code per number and per text of class String, in the order of the values; codes of zero at the end are
//! left out, so they are empty for Int32, for Int64 beyond Int32, for Double with a fraction, and for String.
//!
//! | code | means | followed by |
//! |---|---|---|
//! | 0 | whole number: Int32 if it fits, else Int64, else Double; other number: Double; text: String | |
//! | 1 | Int64; Symbol | |
//! | 2 | Double | |
//! | 3 | Double -0 | |
//! | 4 | Double, another NaN | 8 bytes, the double little-endian |
//! | 5 | Decimal128 | 16 bytes as in BSON |
//! | 6 | Decimal128 whose digits are in the key | 2 bytes exponent + 6176, little-endian |

mod bounds;
mod decode;
mod encode;
mod number;
mod reader;
mod types;

pub use bounds::{successor, type_lower_bound, type_upper_bound};
pub use decode::{Decoder, decode};
pub use encode::{Key, KeyBuilder, key_of};
pub use reader::component_len;

/// First bytes of components. Gaps are left for types to come.
mod class {
    pub(super) const MIN_KEY: u8 = 0x04;
    pub(super) const UNDEFINED: u8 = 0x06;
    pub(super) const NULL: u8 = 0x08;
    pub(super) const NAN: u8 = 0x10;
    pub(super) const NEGATIVE_INFINITY: u8 = 0x11;
    /// Minus the number of bytes: 0x13 (8 bytes) to 0x1A (1 byte).
    pub(super) const NEGATIVE_WHOLE: u8 = 0x1B;
    /// The classes of negative numbers mirror those of positive ones around it.
    pub(super) const ZERO: u8 = 0x1C;
    pub(super) const TINY: u8 = 0x1D;
    /// Plus the number of bytes: 0x1E (1 byte) to 0x25 (8 bytes).
    pub(super) const WHOLE: u8 = 0x1D;
    pub(super) const HUGE: u8 = 0x26;
    pub(super) const INFINITY: u8 = 0x27;
    pub(super) const STRING: u8 = 0x30;
    pub(super) const DOCUMENT: u8 = 0x34;
    pub(super) const ARRAY: u8 = 0x38;
    pub(super) const BINARY: u8 = 0x3C;
    pub(super) const OBJECT_ID: u8 = 0x40;
    pub(super) const FALSE: u8 = 0x44;
    pub(super) const TRUE: u8 = 0x45;
    pub(super) const DATE_TIME: u8 = 0x48;
    pub(super) const TIMESTAMP: u8 = 0x4C;
    pub(super) const REGEX: u8 = 0x50;
    pub(super) const DB_POINTER: u8 = 0x54;
    pub(super) const JAVASCRIPT: u8 = 0x58;
    pub(super) const JAVASCRIPT_WITH_SCOPE: u8 = 0x5C;
    pub(super) const MAX_KEY: u8 = 0x70;
}

/// End of a text, of a document's elements and of an array.
const END: u8 = 0x00;
/// Starts the two bytes that encode 00 (01 01) or 01 (01 02) inside a text.
const ESCAPE: u8 = 0x01;
/// Before and after every component (K2).
const MIN: u8 = 0x00;
const MAX: u8 = 0xFF;

/// Codes of the type bits.
mod code {
    pub(super) const DEFAULT: u8 = 0;
    pub(super) const INT64: u8 = 1;
    pub(super) const SYMBOL: u8 = 1;
    pub(super) const DOUBLE: u8 = 2;
    pub(super) const NEGATIVE_ZERO: u8 = 3;
    pub(super) const RAW_DOUBLE: u8 = 4;
    pub(super) const RAW_DECIMAL: u8 = 5;
    pub(super) const DECIMAL_EXPONENT: u8 = 6;
}
