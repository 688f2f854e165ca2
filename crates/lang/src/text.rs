//! Values in the texts of error messages: `{ a: 1, b: "x" }`.

use std::fmt::{self, Display, Write};

use arbor_bson::{Type, ValueRef};

use crate::matcher::type_set;

/// Longer values are cut: a text of 16 MB helps no reader, and would take hundreds of milliseconds to write.
const SHOWN_BYTES_MAX: usize = 16 << 10;

/// A value as MongoDB writes it in an error text. A long one ends in `...`.
pub fn shell(value: ValueRef) -> String {
    cut(value)
}

/// The begin of what may be long, with `...` if there is more.
pub fn cut(long: impl Display) -> String {
    let mut shown = Shown(String::new());
    match write!(shown, "{long}") {
        Ok(()) => shown.0,
        Err(fmt::Error) => shown.0 + "...",
    }
}

/// Text of bounded length.
struct Shown(String);

impl Write for Shown {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = text.floor_char_boundary(SHOWN_BYTES_MAX - self.0.len());
        self.0.push_str(text.get(..end).unwrap_or_default());
        if end == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

/// `name: value`, as a field is written in an error text.
pub fn field(name: &str, value: ValueRef) -> String {
    format!("{name}: {}", shell(value))
}

/// The alias of a value's type, with "missing" for none.
pub fn type_name(value: Option<ValueRef>) -> &'static str {
    value.map_or("missing", |value| type_set::alias(value.ty()))
}

/// The alias of a type.
pub fn type_alias(ty: Type) -> &'static str {
    type_set::alias(ty)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notation::value;

    #[test]
    fn shell_form() {
        for (text, expect) in [
            ("{a: 1, b: ['x', 2.5, null]}", "{ a: 1, b: [ \"x\", 2.5, null ] }"),
            ("{}", "{}"),
            ("[]", "[]"),
            ("1.0", "1.0"),
            ("Infinity", "inf.0"),
        ] {
            assert_eq!(shell(value(text).as_ref()), expect);
        }
    }

    #[test]
    fn a_long_value_is_cut() {
        let long = "é".repeat(SHOWN_BYTES_MAX);
        let shown = shell(ValueRef::String(&long));
        assert!(shown.len() <= SHOWN_BYTES_MAX + 3 && shown.ends_with("é..."), "{}", shown.len());
        let numbers: arbor_bson::ArrayBuf = (0..1_000_000).collect();
        assert!(shell(ValueRef::Array(numbers.as_array())).ends_with("..."));
    }
}
