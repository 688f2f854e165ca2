//! Values in the texts of error messages: `{ a: 1, b: "x" }`.

use arbor_bson::{Type, ValueRef};

use crate::matcher::type_set;

/// A value as MongoDB writes it in an error text.
pub fn shell(value: ValueRef) -> String {
    value.to_string()
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
}
