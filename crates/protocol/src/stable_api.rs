//! Version 1 of the stable API: what `apiVersion`, `apiStrict` and `apiDeprecationErrors` let through.

use arbor_bson::{Code, Doc, ValueRef};

use crate::{CommandInfo, Error, Result};

/// Fields of commands of the API that are not in it themselves, as the manual lists them.
const UNSTABLE_FIELDS: &[(&str, &[&str])] = &[
    ("aggregate", &["explain", "exchange"]),
    ("create", &["autoIndexId", "capped", "indexOptionDefaults", "max", "size", "storageEngine"]),
    ("find", &["awaitData", "max", "min", "noCursorTimeout", "oplogReplay", "returnKey", "showRecordId", "tailable"]),
];

/// Like `UNSTABLE_FIELDS`, but of the elements of `createIndexes.indexes`.
const UNSTABLE_INDEX_OPTIONS: &[&str] = &["background", "bucketSize", "sparse", "storageEngine"];

/// Stable API fields of a command.
#[derive(Clone, Copy, Debug, Default)]
pub struct Declared<'a> {
    pub version: Option<&'a str>,
    /// `apiStrict` or `apiDeprecationErrors` was given.
    pub flags: bool,
    pub strict: bool,
}

pub fn check(info: &CommandInfo, declared: Declared<'_>, body: Doc<'_>) -> Result<()> {
    match declared.version {
        None if declared.flags => {
            let text = "Provided apiStrict and/or apiDeprecationErrors without passing apiVersion";
            Err(Error::new(Code(4886600), text))
        }
        Some(version) if version != "1" => {
            let text = format!("Provided API version must be \"1\", found \"{version}\"");
            Err(Error::new(Code::API_VERSION_ERROR, text))
        }
        Some(_) if declared.strict => check_strict(info, body),
        _ => Ok(()),
    }
}

fn check_strict(info: &CommandInfo, body: Doc<'_>) -> Result<()> {
    let name = info.name;
    if !info.is_in_stable_api() {
        return Err(not_strict(format!(
            "Provided apiStrict:true, but the command {name} is not in API Version 1. Information on supported commands \
             and migrations in API Version 1 can be found at https://dochub.mongodb.org/core/manual-versioned-api"
        )));
    }
    let fields = UNSTABLE_FIELDS.iter().find(|(command, _)| *command == name).map_or(&[][..], |(_, fields)| fields);
    if let Some((field, _)) = body.iter().skip(1).find(|(field, _)| fields.contains(field)) {
        return Err(not_strict(format!("BSON field '{name}.{field}' is not allowed with apiStrict:true.")));
    }
    if name == "createIndexes" { check_index_options(body) } else { Ok(()) }
}

fn check_index_options(body: Doc<'_>) -> Result<()> {
    let Some(ValueRef::Array(indexes)) = body.get("indexes") else { return Ok(()) };
    for index in indexes.iter() {
        let ValueRef::Document(index) = index else { continue };
        if let Some((option, _)) = index.iter().find(|(option, _)| UNSTABLE_INDEX_OPTIONS.contains(option)) {
            let text = format!("BSON field 'createIndexes.indexes.{option}' is not allowed with apiStrict:true.");
            return Err(not_strict(text));
        }
    }
    Ok(())
}

fn not_strict(text: String) -> Error {
    Error::new(Code::API_STRICT_ERROR, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arbor_bson::{ArrayBuf, DocBuf};

    fn info(name: &str) -> CommandInfo {
        match name {
            "find" => CommandInfo::read("find", "").v1(),
            "aggregate" => CommandInfo::read("aggregate", "").v1(),
            "create" => CommandInfo::slow("create", "").v1(),
            "createIndexes" => CommandInfo::slow("createIndexes", "").v1(),
            _ => CommandInfo::read("distinct", ""),
        }
    }

    fn code(body: &DocBuf, strict: bool) -> i32 {
        let (name, _) = body.as_doc().first().unwrap();
        let declared = Declared { version: Some("1"), flags: true, strict };
        check(&info(name), declared, body.as_doc()).map_or_else(|error| error.code.0, |()| 0)
    }

    #[test]
    fn strict_clients_get_the_api_alone() {
        let index = |option: &'static str| {
            let indexes: ArrayBuf = [DocBuf::new().with("name", "i").with(option, true)].iter().collect();
            DocBuf::new().with("createIndexes", "c").with("indexes", &indexes)
        };
        for (body, expected) in [
            (DocBuf::new().with("find", "c").with("limit", 1i32), 0),
            (DocBuf::new().with("find", "c").with("tailable", true), 323),
            (DocBuf::new().with("aggregate", "c").with("explain", true), 323),
            (DocBuf::new().with("create", "c").with("capped", true), 323),
            (DocBuf::new().with("create", "c").with("viewOn", "d"), 0),
            (index("unique"), 0),
            (index("sparse"), 323),
            (index("background"), 323),
            (DocBuf::new().with("distinct", "c"), 323),
        ] {
            assert_eq!(code(&body, true), expected, "{body:?}");
            assert_eq!(code(&body, false), 0, "{body:?}");
        }
    }
}
