//! What the trees of new collections and indexes are created with: the server's defaults, then what `storageEngine` says
//! for the engine that is used. Options for other engines are kept and change nothing.

use arbor_bson::{Doc, ValueRef};
use arbor_txn::TreeOptions;

use crate::{Error, Result};

#[derive(Clone, Debug, Default)]
pub struct TreeDefaults {
    /// Names that users know the engine by, in lower case.
    pub engine_names: &'static [&'static str],
    pub collections: TreeOptions,
    pub indexes: TreeOptions,
}

impl TreeDefaults {
    pub(crate) fn of_collection(&self, options: Doc<'_>) -> Result<TreeOptions> {
        self.with_given(&self.collections, options)
    }

    pub(crate) fn of_index(&self, spec: Doc<'_>) -> Result<TreeOptions> {
        self.with_given(&self.indexes, spec)
    }

    /// Later settings win, so those that were given stand behind the defaults.
    fn with_given(&self, defaults: &TreeOptions, doc: Doc<'_>) -> Result<TreeOptions> {
        let mut options = defaults.clone();
        let Some(ValueRef::Document(engines)) = doc.get("storageEngine") else { return Ok(options) };
        for (engine, given) in engines {
            if !self.engine_names.contains(&engine.to_ascii_lowercase().as_str()) {
                continue;
            }
            let ValueRef::Document(given) = given else {
                return Err(invalid(engine, "an embedded document is wanted"));
            };
            for (name, value) in given {
                let value = text(value).ok_or_else(|| invalid(name, "a string, a whole number or a bool is wanted"))?;
                options.settings.push((name.to_owned(), value));
            }
        }
        Ok(options)
    }
}

fn text(value: ValueRef<'_>) -> Option<String> {
    match value {
        ValueRef::String(text) => Some(text.to_owned()),
        ValueRef::Int32(number) => Some(number.to_string()),
        ValueRef::Int64(number) => Some(number.to_string()),
        ValueRef::Double(number) if number.fract() == 0.0 => Some(format!("{number:.0}")),
        ValueRef::Bool(value) => Some(value.to_string()),
        _ => None,
    }
}

fn invalid(name: &str, reason: &str) -> Error {
    arbor_engine::Error::InvalidOption { name: name.to_owned(), reason: reason.to_owned() }.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arbor_bson::DocBuf;

    fn given(engine: &str, options: &DocBuf) -> Result<Vec<(String, String)>> {
        let collections = TreeOptions { settings: vec![("compression".to_owned(), "lz4".to_owned())] };
        let defaults = TreeDefaults { engine_names: &["ftree", "tokuft"], collections, ..TreeDefaults::default() };
        let doc = DocBuf::new().with("storageEngine", &DocBuf::new().with(engine, options));
        defaults.of_collection(doc.as_doc()).map(|options| options.settings)
    }

    #[test]
    fn what_is_given_stands_behind_the_defaults() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let options =
            DocBuf::new().with("compression", "zstd").with("readPageSize", 16384i32).with("leafFilters", true);
        let all = [
            pair("compression", "lz4"),
            pair("compression", "zstd"),
            pair("readPageSize", "16384"),
            pair("leafFilters", "true"),
        ];
        assert_eq!(given("tokuFT", &options).unwrap(), all);
        assert_eq!(given("wiredTiger", &options).unwrap(), all[..1]);
        assert!(given("ftree", &DocBuf::new().with("fanout", 1.5)).is_err());
    }
}
