//! `validateDBMetadata`: which indexes a version of the stable API does not have.

use arbor_bson::{ArrayBuf, Code, Doc, DocBuf};
use arbor_protocol::arguments::{Field, present};
use arbor_store::Collection;

use crate::call::Call;
use crate::{Error, Result};

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    let (mut db, mut collection, mut parameters) = (None, None, None);
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        match name {
            "db" => db = Some(field.string(value)?),
            "collection" => collection = Some(field.string(value)?),
            "apiParameters" => parameters = Some(field.document(value)?),
            _ => return Err(field.unknown().into()),
        }
    }
    let strict = is_strict(parameters.ok_or_else(|| call.field("apiParameters").missing())?)?;
    if let Some(db) = db {
        check_database(db)?;
    }
    let store = &call.database().store;
    let databases = match db {
        Some(db) => vec![db.to_owned()],
        None => store.list_databases(),
    };
    let mut errors = ArrayBuf::new();
    for own in databases.iter().flat_map(|db| store.list_collections(db)) {
        if strict && collection.is_none_or(|name| name == own.namespace.collection()) {
            report(&own, &mut errors);
        }
    }
    call.reply.append("apiVersionErrors", &errors);
    Ok(())
}

fn is_strict(parameters: Doc<'_>) -> Result<bool> {
    let (mut version, mut strict) = (None, false);
    for (name, value) in present(parameters) {
        let field = Field::new("validateDBMetadata.apiParameters", name);
        match name {
            "version" => version = Some(field.string(value)?),
            "strict" => strict = field.bool(value)?,
            "deprecationErrors" => drop(field.bool(value)?),
            _ => return Err(field.unknown().into()),
        }
    }
    match version {
        Some("1") => Ok(strict),
        Some(other) => {
            let text = format!("Provided API version must be \"1\", found \"{other}\"");
            Err(Error::new(Code::API_VERSION_ERROR, text))
        }
        None => Err(Field::new("validateDBMetadata.apiParameters", "version").missing().into()),
    }
}

/// COMPAT: `$` is fine in the name of a database that is only looked for.
fn check_database(name: &str) -> Result<()> {
    if name.is_empty() {
        return Err(Error::new(Code(28539), "db name is empty"));
    }
    if name.contains(['.', '\0']) || name.len() > arbor_store::DATABASE_BYTES_MAX {
        return Err(crate::error_map::invalid_namespace(name));
    }
    if name.contains([' ', '/', '\\', '"']) {
        return Err(Error::new(Code(13280), format!("invalid db name: {name}")));
    }
    Ok(())
}

fn report(collection: &Collection, errors: &mut ArrayBuf) {
    for index in collection.indexes.iter().filter(|index| index.sparse || index.generator.text().is_some()) {
        let text = format!("The index with name {} is not allowed in API version 1.", index.name);
        let error = DocBuf::new()
            .with("ns", collection.namespace.as_str())
            .with("code", Code::API_STRICT_ERROR.0)
            .with("codeName", "APIStrictError")
            .with("errmsg", &text);
        errors.push(&error);
    }
}
