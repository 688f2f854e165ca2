//! `clusteredIndex` of `create`, and the `expireAfterSeconds` of a collection.

use arbor_bson::{Code, Doc, DocBuf, ValueRef};
use arbor_protocol::arguments::{Field, present};
use arbor_store::Namespace;

use crate::{Error, Result};

/// Reads `clusteredIndex`; answers it as `listCollections` shows it.
pub(crate) fn read(namespace: &Namespace, field: Field<'_>, value: ValueRef<'_>) -> Result<DocBuf> {
    // COMPAT: a number is the old format as well
    if field.bool(value).is_ok() {
        let text = format!(
            "The 'clusteredIndex' legacy format {{clusteredIndex: <bool>}} is only supported for specific internal \
             collections and not {namespace}"
        );
        return Err(Error::new(Code(5_979_703), text));
    }
    let (mut version, mut key, mut index_name, mut unique) = (2, None, "_id_", None);
    for (name, value) in present(field.document(value)?) {
        let field = Field::new("create.clusteredIndex", name);
        match name {
            "v" => version = field.integer(value)?,
            "key" => key = Some(field.document(value)?),
            "name" => index_name = field.string(value)?,
            "unique" => unique = Some(field.bool(value)?),
            _ => return Err(field.unknown().into()),
        }
    }
    let missing = |name| Field::new("create.clusteredIndex", name).missing();
    let (key, unique) = (key.ok_or_else(|| missing("key"))?, unique.ok_or_else(|| missing("unique"))?);
    if version != 2 {
        return Err(Error::new(Code(5_979_704), format!("The clusteredIndex option requires v:2, found v:{version}")));
    }
    if !is_by_id(key) {
        let text = "The clusteredIndex option is only supported for key: {_id: 1}";
        return Err(Error::new(Code::INVALID_INDEX_SPECIFICATION_OPTION, text));
    }
    if !unique {
        let text = "The clusteredIndex option requires unique: true to be specified";
        return Err(Error::new(Code(5_979_700), text));
    }
    let spec = DocBuf::new().with("v", 2i32).with("key", &DocBuf::new().with("_id", 1i32));
    Ok(spec.with("name", index_name).with("unique", true))
}

fn is_by_id(key: Doc<'_>) -> bool {
    let mut fields = key.iter();
    let first = fields.next().and_then(|(name, value)| Some((name, arbor_lang::number::exact_i64(value)?)));
    first == Some(("_id", 1)) && fields.next().is_none()
}

/// Seconds after which a clustered collection or a time series forgets.
pub(crate) fn seconds(field: Field<'_>, value: ValueRef<'_>) -> Result<i64> {
    match field.integer(value)? {
        seconds @ 0..=2_147_483_647 => Ok(seconds),
        other => {
            let text = format!(
                "TTL index 'expireAfterSeconds' option must be within an acceptable range, try a different value than \
                 {other}"
            );
            Err(Error::new(Code::INVALID_OPTIONS, text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specifications_are_whole() {
        let namespace = Namespace::parse("d.c").unwrap();
        let read = |spec: DocBuf| {
            read(&namespace, Field::new("create", "clusteredIndex"), (&spec).into()).map_err(|error| error.code.0)
        };
        let key = |n: f64| DocBuf::new().with("_id", n);
        let spec = |key: DocBuf| DocBuf::new().with("key", &key);
        let good = read(spec(key(1.0)).with("unique", true)).unwrap();
        assert_eq!(
            arbor_bson::display::shell_doc(good.as_doc()).to_string(),
            "{ v: 2, key: { _id: 1 }, name: \"_id_\", unique: true }"
        );
        assert_eq!(read(spec(key(1.0))).err(), Some(40414));
        assert_eq!(read(DocBuf::new().with("unique", true)).err(), Some(40414));
        assert_eq!(read(spec(key(-1.0)).with("unique", true)).err(), Some(197));
        assert_eq!(read(spec(key(1.0).with("a", 1i32)).with("unique", true)).err(), Some(197));
        assert_eq!(read(spec(key(1.0)).with("unique", false)).err(), Some(5_979_700));
        assert_eq!(read(spec(key(1.0)).with("unique", true).with("v", 1i32)).err(), Some(5_979_704));
        assert_eq!(read(spec(key(1.0)).with("unique", true).with("sparse", true)).err(), Some(40415));
    }
}
