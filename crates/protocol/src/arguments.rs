//! Reading one field of a command, or MongoDB's error for it.

use arbor_bson::{Array, Code, Decimal128, Doc, Type, ValueRef};

use crate::{Error, Result};

/// The name of a type in error texts and in `$type`.
pub fn type_name(ty: Type) -> &'static str {
    match ty {
        Type::Double => "double",
        Type::String => "string",
        Type::Document => "object",
        Type::Array => "array",
        Type::Binary => "binData",
        Type::Undefined => "undefined",
        Type::ObjectId => "objectId",
        Type::Bool => "bool",
        Type::DateTime => "date",
        Type::Null => "null",
        Type::Regex => "regex",
        Type::DbPointer => "dbPointer",
        Type::JavaScript => "javascript",
        Type::Symbol => "symbol",
        Type::JavaScriptWithScope => "javascriptWithScope",
        Type::Int32 => "int",
        Type::Timestamp => "timestamp",
        Type::Int64 => "long",
        Type::Decimal128 => "decimal",
        Type::MinKey => "minKey",
        Type::MaxKey => "maxKey",
    }
}

/// Returns the fields of a command, or of one of its sub-documents, that have a value: null and undefined mean that an optional
/// field is absent, and that a required one is missing.
pub fn present<'a>(doc: Doc<'a>) -> impl Iterator<Item = (&'a str, ValueRef<'a>)> {
    doc.iter().filter(|(_, value)| is_present(*value))
}

/// Returns false for null and undefined.
pub fn is_present(value: ValueRef<'_>) -> bool {
    !matches!(value, ValueRef::Null | ValueRef::Undefined)
}

/// Path of a field, for error texts only: `find.filter`.
#[derive(Clone, Copy)]
pub struct Field<'a> {
    pub command: &'a str,
    pub name: &'a str,
}

impl<'a> Field<'a> {
    pub fn new(command: &'a str, name: &'a str) -> Field<'a> {
        Field { command, name }
    }

    pub fn document<'v>(self, value: ValueRef<'v>) -> Result<Doc<'v>> {
        match value {
            ValueRef::Document(value) => Ok(value),
            other => Err(self.wrong_type(other, "object")),
        }
    }

    pub fn array<'v>(self, value: ValueRef<'v>) -> Result<Array<'v>> {
        match value {
            ValueRef::Array(value) => Ok(value),
            other => Err(self.wrong_type(other, "array")),
        }
    }

    /// An array of documents.
    pub fn documents<'v>(self, value: ValueRef<'v>) -> Result<Vec<Doc<'v>>> {
        let elements = self.array(value)?.iter().enumerate();
        elements
            .map(|(index, value)| match value {
                ValueRef::Document(doc) => Ok(doc),
                other => Err(wrong_type(&format!("{self}.{index}"), other, "object")),
            })
            .collect()
    }

    pub fn string<'v>(self, value: ValueRef<'v>) -> Result<&'v str> {
        match value {
            ValueRef::String(value) => Ok(value),
            other => Err(self.wrong_type(other, "string")),
        }
    }

    /// A bool and nothing else.
    pub fn strict_bool(self, value: ValueRef<'_>) -> Result<bool> {
        match value {
            ValueRef::Bool(value) => Ok(value),
            other => Err(self.wrong_type(other, "bool")),
        }
    }

    /// A bool or a number.
    pub fn bool(self, value: ValueRef<'_>) -> Result<bool> {
        match value {
            ValueRef::Bool(value) => Ok(value),
            ValueRef::Int32(value) => Ok(value != 0),
            ValueRef::Int64(value) => Ok(value != 0),
            ValueRef::Double(value) => Ok(value != 0.0),
            ValueRef::Decimal128(value) => Ok(!value.is_zero()),
            other => Err(self.wrong_types(other, "[bool, long, int, decimal, double']")),
        }
    }

    /// Any number, cut to a whole one.
    pub fn integer(self, value: ValueRef<'_>) -> Result<i64> {
        match value {
            ValueRef::Int32(value) => Ok(value.into()),
            ValueRef::Int64(value) => Ok(value),
            ValueRef::Double(value) => Ok(value as i64),
            ValueRef::Decimal128(value) => Ok(whole_decimal(value)),
            other => Err(self.wrong_types(other, "[long, int, decimal, double']")),
        }
    }

    /// Any number that is not below zero.
    pub fn unsigned(self, value: ValueRef<'_>) -> Result<u64> {
        let number = self.integer(value)?;
        u64::try_from(number).map_err(|_| self.below_zero(number))
    }

    pub fn below_zero(self, number: i64) -> Error {
        self.out_of_bounds(">= 0", number)
    }

    /// `bound` is like ">= 1".
    pub fn out_of_bounds(self, bound: &str, value: impl std::fmt::Display) -> Error {
        let name = self.name;
        Error::bad_value(format!("BSON field '{name}' value must be {bound}, actual value '{value}'"))
    }

    /// Refuses a value that is none of the names of an enumeration.
    pub fn one_of<'v>(self, value: ValueRef<'v>, names: &[&str]) -> Result<&'v str> {
        let name = self.string(value)?;
        if names.contains(&name) { Ok(name) } else { Err(self.not_in_enumeration(name)) }
    }

    pub fn not_in_enumeration(self, name: &str) -> Error {
        Error::bad_value(format!("Enumeration value '{name}' for field '{self}' is not a valid value."))
    }

    pub fn wrong_type(self, found: ValueRef<'_>, expected: &str) -> Error {
        wrong_type(&self.to_string(), found, expected)
    }

    pub fn wrong_types(self, found: ValueRef<'_>, expected: &str) -> Error {
        let found = type_name(found.ty());
        Error::type_mismatch(format!("BSON field '{self}' is the wrong type '{found}', expected types '{expected}"))
    }

    pub fn unknown(self) -> Error {
        Error::new(Code(40415), format!("BSON field '{self}' is an unknown field."))
    }

    pub fn missing(self) -> Error {
        Error::new(Code(40414), format!("BSON field '{self}' is missing but a required field"))
    }
}

impl std::fmt::Display for Field<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.command {
            "" => f.write_str(self.name),
            command => write!(f, "{command}.{}", self.name),
        }
    }
}

pub fn wrong_type(field: &str, found: ValueRef<'_>, expected: &str) -> Error {
    let found = type_name(found.ty());
    Error::type_mismatch(format!("BSON field '{field}' is the wrong type '{found}', expected type '{expected}'"))
}

/// Returns the nearest whole number; what is beyond them becomes the nearest bound, and NaN 0.
fn whole_decimal(value: Decimal128) -> i64 {
    match value.to_i64_rounded() {
        Some(whole) => whole,
        None if value.is_nan() => 0,
        None if value.is_negative() => i64::MIN,
        None => i64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arbor_bson::{ArrayBuf, DocBuf};

    const FIELD: Field<'static> = Field { command: "find", name: "filter" };

    fn text<T: std::fmt::Debug>(outcome: Result<T>) -> (i32, String) {
        let error = outcome.unwrap_err();
        (error.code.0, error.message)
    }

    #[test]
    fn wrong_types_are_named() {
        let array: ArrayBuf = [1i32].into_iter().collect();
        for (outcome, code, expect) in [
            (
                text(FIELD.document("x".into())),
                14,
                "BSON field 'find.filter' is the wrong type 'string', expected type 'object'",
            ),
            (
                text(FIELD.string(1i32.into())),
                14,
                "BSON field 'find.filter' is the wrong type 'int', expected type 'string'",
            ),
            (
                text(FIELD.integer("x".into())),
                14,
                "BSON field 'find.filter' is the wrong type 'string', expected types '[long, int, decimal, double']",
            ),
            (
                text(FIELD.documents((&array).into())),
                14,
                "BSON field 'find.filter.0' is the wrong type 'int', expected type 'object'",
            ),
            (text(FIELD.unsigned((-1i64).into())), 2, "BSON field 'filter' value must be >= 0, actual value '-1'"),
            (text::<()>(Err(FIELD.unknown())), 40415, "BSON field 'find.filter' is an unknown field."),
            (text::<()>(Err(FIELD.missing())), 40414, "BSON field 'find.filter' is missing but a required field"),
        ] {
            assert_eq!(outcome, (code, expect.to_owned()));
        }
    }

    #[test]
    fn numbers_of_every_type() {
        for (value, expect) in [(ValueRef::Int32(3), 3), (ValueRef::Int64(-4), -4), (ValueRef::Double(5.9), 5)] {
            assert_eq!(FIELD.integer(value).unwrap(), expect);
        }
        assert!(FIELD.bool(1i32.into()).unwrap() && !FIELD.bool(0.0.into()).unwrap());
        assert!(FIELD.strict_bool(1i32.into()).is_err());
        assert!(FIELD.document((&DocBuf::new()).into()).is_ok());
    }
}
