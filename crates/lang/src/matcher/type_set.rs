//! Sets of BSON types, as `$type` takes them: numbers, aliases, `"number"`, and arrays of these.

use arbor_bson::{Type, ValueRef};

use crate::stop::tick;
use crate::{Error, Result};

/// A set of BSON types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TypeSet(u32);

/// Types with their numbers and aliases.
const TYPES: [(Type, i32, &str); 21] = [
    (Type::Double, 1, "double"),
    (Type::String, 2, "string"),
    (Type::Document, 3, "object"),
    (Type::Array, 4, "array"),
    (Type::Binary, 5, "binData"),
    (Type::Undefined, 6, "undefined"),
    (Type::ObjectId, 7, "objectId"),
    (Type::Bool, 8, "bool"),
    (Type::DateTime, 9, "date"),
    (Type::Null, 10, "null"),
    (Type::Regex, 11, "regex"),
    (Type::DbPointer, 12, "dbPointer"),
    (Type::JavaScript, 13, "javascript"),
    (Type::Symbol, 14, "symbol"),
    (Type::JavaScriptWithScope, 15, "javascriptWithScope"),
    (Type::Int32, 16, "int"),
    (Type::Timestamp, 17, "timestamp"),
    (Type::Int64, 18, "long"),
    (Type::Decimal128, 19, "decimal"),
    (Type::MinKey, -1, "minKey"),
    (Type::MaxKey, 127, "maxKey"),
];

/// The alias of a type, as `$type` (the expression) returns it.
pub fn alias(ty: Type) -> &'static str {
    TYPES.iter().find(|(known, ..)| *known == ty).map_or("missing", |(_, _, alias)| alias)
}

/// The type with this alias.
pub fn by_alias(alias: &str) -> Option<Type> {
    TYPES.iter().find(|(_, _, known)| *known == alias).map(|(ty, ..)| *ty)
}

/// The type with this number.
pub fn by_number(number: i32) -> Option<Type> {
    TYPES.iter().find(|(_, known, _)| *known == number).map(|(ty, ..)| *ty)
}

impl TypeSet {
    pub fn of(types: &[Type]) -> TypeSet {
        types.iter().fold(TypeSet(0), |set, ty| TypeSet(set.0 | bit(*ty)))
    }

    pub fn numbers() -> TypeSet {
        TypeSet::of(&[Type::Double, Type::Int32, Type::Int64, Type::Decimal128])
    }

    pub fn contains(self, ty: Type) -> bool {
        self.0 & bit(ty) != 0
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn iter(self) -> impl Iterator<Item = Type> {
        TYPES.iter().map(|(ty, ..)| *ty).filter(move |ty| self.contains(*ty))
    }

    /// Parses the operand of `$type`.
    pub fn parse(value: ValueRef) -> Result<TypeSet> {
        match value {
            ValueRef::Array(types) => {
                let joined = |set: TypeSet, ty| tick().and_then(|()| Ok(TypeSet(set.0 | TypeSet::parse_one(ty)?.0)));
                types.iter().try_fold(TypeSet(0), joined)
            }
            other => TypeSet::parse_one(other),
        }
    }

    fn parse_one(value: ValueRef) -> Result<TypeSet> {
        if let ValueRef::String(name) = value {
            if name == "number" {
                return Ok(TypeSet::numbers());
            }
            let ty = by_alias(name).ok_or_else(|| Error::bad_value(format!("Unknown type name alias: {name}")))?;
            return Ok(TypeSet(bit(ty)));
        }
        let number = match value {
            ValueRef::Int32(v) => f64::from(v),
            ValueRef::Int64(v) => v as f64,
            ValueRef::Double(v) => v,
            ValueRef::Decimal128(v) => v.to_f64(),
            _ => return Err(Error::type_mismatch("type must be represented as a number or a string")),
        };
        let known = (number.fract() == 0.0).then(|| by_number(number as i32)).flatten();
        let ty = known.ok_or_else(|| Error::bad_value(format!("Invalid numerical type code: {}", number)))?;
        Ok(TypeSet(bit(ty)))
    }
}

fn bit(ty: Type) -> u32 {
    match ty {
        Type::MinKey => 1 << 30,
        Type::MaxKey => 1 << 31,
        other => 1 << (other as u32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notation::value;

    #[test]
    fn parses() {
        let set = TypeSet::parse(value("['string', 16, 'number']").as_ref()).unwrap();
        assert!(set.contains(Type::String) && set.contains(Type::Int32) && set.contains(Type::Double));
        assert!(!set.contains(Type::Bool));
        assert_eq!(TypeSet::parse(value("-1").as_ref()).unwrap().iter().collect::<Vec<_>>(), [Type::MinKey]);
        for (text, code) in [("'foo'", 2), ("0", 2), ("1.5", 2), ("{}", 14)] {
            assert_eq!(TypeSet::parse(value(text).as_ref()).unwrap_err().code.0, code, "{text}");
        }
    }
}
