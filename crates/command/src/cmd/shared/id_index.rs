//! `idIndex` of `create`: the specification of the index on `_id`, which says nothing new and must be right.

use arbor_bson::{Code, Doc, ValueRef};
use arbor_lang::{Collation, number};
use arbor_protocol::arguments::Field;

use crate::{Error, Result};

/// Errors: the specification is not that of the index on `_id` of a collection with this collation.
pub(crate) fn check(spec: Doc<'_>, collation: Option<ValueRef<'_>>) -> Result<()> {
    let field = |name| Field::new("create.idIndex", name);
    let required = |name: &str| {
        let missing =
            || Error::failed_to_parse(format!("The '{name}' field is a required property of an index specification"));
        spec.get(name).ok_or_else(missing)
    };
    let key = field("key").document(required("key")?)?;
    let name = field("name").string(required("name")?)?;
    let mut fields = key.iter();
    let first = fields.next().and_then(|(name, value)| Some((name, number::exact_i64(value)?)));
    if first != Some(("_id", 1)) || fields.next().is_some() {
        return Err(Error::bad_value("The field 'key' for an _id index must be {_id: 1}"));
    }
    if name.is_empty() {
        return Err(Error::new(Code::CANNOT_CREATE_INDEX, "The index name cannot be empty"));
    }
    for (name, value) in spec {
        match name {
            "key" | "name" | "ns" => {}
            "v" => check_version(field(name), value)?,
            "collation" => {
                let own = Collation::parse(field(name).document(value)?)?;
                let expected = match collation {
                    Some(ValueRef::Document(collation)) => Collation::parse(collation)?,
                    _ => Collation::simple(),
                };
                if own != expected {
                    return Err(Error::bad_value("The _id index must have the same collation as the collection"));
                }
            }
            _ => {
                let text = format!("The field '{name}' is not valid for an _id index specification");
                return Err(Error::new(Code::INVALID_INDEX_SPECIFICATION_OPTION, text));
            }
        }
    }
    Ok(())
}

fn check_version(field: Field<'_>, value: ValueRef<'_>) -> Result<()> {
    let given = field.integer(value)?;
    match number::exact_i64(value) {
        Some(1 | 2) => Ok(()),
        Some(_) => Err(Error::new(Code::CANNOT_CREATE_INDEX, format!("cannot create an index with v={given}"))),
        None => Err(Error::bad_value("Index version must be representable as a 32-bit integer")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arbor_notation::doc;

    #[test]
    fn wrong_specifications_get_their_codes() {
        let code = |text: &str| check(doc(text).as_doc(), None).map_err(|error| error.code.0);
        assert_eq!(code("{ key: { _id: 1 }, name: '_id_', v: 2 }"), Ok(()));
        for (text, expected) in [
            ("{}", 9),
            ("{ key: { _id: 1 } }", 9),
            ("{ key: 1, name: '_id_' }", 14),
            ("{ key: { x: 1 }, name: '_id_' }", 2),
            ("{ key: { _id: -1 }, name: '_id_' }", 2),
            ("{ key: { _id: 1 }, name: '' }", 67),
            ("{ key: { _id: 1 }, name: '_id_', v: 3 }", 67),
            ("{ key: { _id: 1 }, name: '_id_', v: 1.5 }", 2),
            ("{ key: { _id: 1 }, name: '_id_', v: 'x' }", 14),
            ("{ key: { _id: 1 }, name: '_id_', unique: true }", 197),
            ("{ key: { _id: 1 }, name: '_id_', collation: { locale: 'fr' } }", 2),
        ] {
            assert_eq!(code(text), Err(expected), "{text}");
        }
    }
}
