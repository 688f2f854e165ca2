//! The engine and the settings of a new tree: the server's defaults for that engine, then what
//! `storageEngine` says.
//!
//! A collection is on the engine that its own `storageEngine` names, else on the default one. An index is on the
//! engine that its specification names, else the collection's `indexOptionDefaults`, else the engine of its collection.

use arbor_bson::{Doc, ValueRef};
use arbor_txn::TreeOptions;

use crate::{Error, Result};

/// One engine of this build, as users name it, and what its new trees are created with.
#[derive(Clone, Debug, Default)]
pub struct EngineNames {
    pub name: &'static str,
    /// Other names of it. Names are compared without regard to case.
    pub aliases: &'static [&'static str],
    pub collections: TreeOptions,
    pub indexes: TreeOptions,
}

/// The engines for trees. Without any, as in tests over one engine, `storageEngine` says nothing.
#[derive(Clone, Debug, Default)]
pub struct TreeDefaults {
    pub engines: Vec<EngineNames>,
    /// The engine of collections that name none.
    pub default: &'static str,
    /// The engine of catalogue entries that were written before entries named their engine.
    pub home: &'static str,
}

/// Settings of trees that TokuMX accepted among the other options of `create` and of an index.
pub(crate) const TOKUMX_SETTINGS: &[&str] = &["compression", "pageSize", "readPageSize", "fanout"];

/// The engine and options of a new tree.
#[derive(Clone, Debug)]
pub(crate) struct NewTree {
    pub engine: String,
    pub options: TreeOptions,
}

impl EngineNames {
    fn is_called(&self, name: &str) -> bool {
        std::iter::once(&self.name).chain(self.aliases).any(|own| own.eq_ignore_ascii_case(name))
    }
}

impl TreeDefaults {
    pub(crate) fn of_collection(&self, options: Doc<'_>) -> Result<NewTree> {
        // What it says is checked now, not when the first index comes.
        if let Some(ValueRef::Document(defaults)) = options.get("indexOptionDefaults") {
            self.named(defaults)?;
        }
        self.tree(options, self.named(options)?, self.default, |engine| &engine.collections)
    }

    /// Requires the options and the engine of the collection.
    pub(crate) fn of_partition(&self, options: Doc<'_>, engine: &str) -> Result<NewTree> {
        self.tree(options, self.named(options)?, engine, |engine| &engine.collections)
    }

    pub(crate) fn of_index(&self, spec: Doc<'_>, options: Doc<'_>, engine: &str) -> Result<NewTree> {
        let named = match self.named(spec)? {
            None => match options.get("indexOptionDefaults") {
                Some(ValueRef::Document(defaults)) => self.named(defaults)?,
                _ => None,
            },
            own => own,
        };
        self.tree(spec, named, engine, |engine| &engine.indexes)
    }

    /// Returns true if the index is on whatever engine its collection is on.
    pub(crate) fn follows_collection(&self, spec: Doc<'_>, options: Doc<'_>) -> bool {
        let names = |doc: Doc<'_>| matches!(doc.get("storageEngine"), Some(ValueRef::Document(_)));
        let by_default = matches!(options.get("indexOptionDefaults"), Some(ValueRef::Document(doc)) if names(doc));
        !names(spec) && !by_default
    }

    /// The one engine that `storageEngine` in this document names, with its options.
    pub(crate) fn named<'d>(&self, doc: Doc<'d>) -> Result<Option<(&EngineNames, Doc<'d>)>> {
        let given = match doc.get("storageEngine") {
            None => return Ok(None),
            _ if self.engines.is_empty() => return Ok(None),
            Some(ValueRef::Document(given)) => given,
            Some(_) => return bad_value("'storageEngine' has to be an embedded document."),
        };
        let mut all = given.iter();
        let Some((name, options)) = all.next() else {
            return bad_value("Empty 'storageEngine' options are invalid. Please remove, or include valid options.");
        };
        if let Some((other, _)) = all.next() {
            return bad_value(format!("'storageEngine' names '{name}' and '{other}'; it has to name one engine."));
        }
        let ValueRef::Document(options) = options else {
            return bad_value(format!("'storageEngine.{name}' has to be an embedded document."));
        };
        match self.engines.iter().find(|engine| engine.is_called(name)) {
            Some(engine) => Ok(Some((engine, options))),
            None => Err(Error::UnknownEngine { name: name.to_owned(), known: self.known() }),
        }
    }

    fn known(&self) -> String {
        self.engines.iter().map(|engine| engine.name).collect::<Vec<_>>().join(", ")
    }

    /// Later settings win, so the given ones come after the defaults.
    fn tree(
        &self,
        doc: Doc<'_>,
        named: Option<(&EngineNames, Doc<'_>)>,
        otherwise: &str,
        defaults: impl Fn(&EngineNames) -> &TreeOptions,
    ) -> Result<NewTree> {
        let own = named.map(|(engine, _)| engine);
        let engine = own.or_else(|| self.engines.iter().find(|engine| engine.name == otherwise));
        let mut options = engine.map(|engine| defaults(engine).clone()).unwrap_or_default();
        for (name, value) in doc.iter().filter(|(name, _)| TOKUMX_SETTINGS.contains(name)) {
            options.settings.push((name.to_owned(), setting(name, value)?));
        }
        for (name, value) in named.into_iter().flat_map(|(_, given)| given) {
            options.settings.push((name.to_owned(), setting(name, value)?));
        }
        let engine = engine.map_or(otherwise, |engine| engine.name).to_owned();
        // One engine alone takes its trees without being named.
        let options = if self.engines.len() > 1 { options.with_engine(&engine) } else { options };
        Ok(NewTree { engine, options })
    }
}

fn setting(name: &str, value: ValueRef<'_>) -> Result<String> {
    match value {
        ValueRef::String(text) => Ok(text.to_owned()),
        ValueRef::Int32(number) => Ok(number.to_string()),
        ValueRef::Int64(number) => Ok(number.to_string()),
        ValueRef::Double(number) if number.fract() == 0.0 => Ok(format!("{number:.0}")),
        ValueRef::Bool(value) => Ok(value.to_string()),
        _ => {
            let reason = "expected a string, a whole number or a bool".to_owned();
            Err(arbor_engine::Error::InvalidOption { name: name.to_owned(), reason }.into())
        }
    }
}

fn bad_value<T>(reason: impl Into<String>) -> Result<T> {
    Err(Error::BadStorageEngine(reason.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arbor_bson::DocBuf;

    type Settings = Vec<(String, String)>;

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    fn defaults() -> TreeDefaults {
        let collections = TreeOptions { settings: vec![pair("compression", "lz4")] };
        let ftree = EngineNames { name: "ftree", aliases: &["tokuft"], collections, ..EngineNames::default() };
        let lmdb = EngineNames { name: "lmdb", aliases: &["mmapv1"], ..EngineNames::default() };
        TreeDefaults { engines: vec![ftree, lmdb], default: "ftree", home: "ftree" }
    }

    fn in_engine(engine: &str, options: &DocBuf) -> DocBuf {
        DocBuf::new().with("storageEngine", &DocBuf::new().with(engine, options))
    }

    fn collection(doc: &DocBuf) -> Result<(String, Settings)> {
        defaults().of_collection(doc.as_doc()).map(|tree| (tree.engine, tree.options.settings))
    }

    #[test]
    fn given_settings_come_after_the_defaults() {
        let options =
            DocBuf::new().with("compression", "zstd").with("readPageSize", 16384i32).with("leafFilters", true);
        let all = [
            pair("engine", "ftree"),
            pair("compression", "lz4"),
            pair("compression", "zstd"),
            pair("readPageSize", "16384"),
            pair("leafFilters", "true"),
        ];
        assert_eq!(collection(&in_engine("tokuFT", &options)).unwrap(), ("ftree".to_owned(), all.to_vec()));
        assert_eq!(collection(&DocBuf::new()).unwrap(), ("ftree".to_owned(), all[..2].to_vec()));
        let lmdb = ("lmdb".to_owned(), vec![pair("engine", "lmdb")]);
        assert_eq!(collection(&in_engine("MMAPv1", &DocBuf::new())).unwrap(), lmdb);
        let tokumx = DocBuf::new().with("compression", "zstd").with("capped", false);
        assert_eq!(collection(&tokumx).unwrap().1, all[..3]);
    }

    #[test]
    fn an_index_follows_its_collection_unless_specified_otherwise() {
        let (plain, on_lmdb) = (DocBuf::new(), in_engine("lmdb", &DocBuf::new()));
        let by_default = DocBuf::new().with("indexOptionDefaults", &on_lmdb);
        let check = |spec: &DocBuf, options: &DocBuf, engine: &str, expect: &str, follows: bool| {
            let own = defaults();
            assert_eq!(own.of_index(spec.as_doc(), options.as_doc(), engine).unwrap().engine, expect);
            assert_eq!(own.follows_collection(spec.as_doc(), options.as_doc()), follows);
        };
        check(&plain, &plain, "ftree", "ftree", true);
        check(&plain, &on_lmdb, "lmdb", "lmdb", true);
        check(&on_lmdb, &plain, "ftree", "lmdb", false);
        check(&plain, &by_default, "ftree", "lmdb", false);
        check(&in_engine("ftree", &plain), &by_default, "lmdb", "ftree", false);
    }

    #[test]
    fn one_known_engine_has_to_be_named() {
        let check = |doc: DocBuf, part: &str| {
            let error = collection(&doc).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        };
        let empty = DocBuf::new();
        let two = DocBuf::new().with("ftree", &empty).with("lmdb", &empty);
        check(DocBuf::new().with("storageEngine", &two), "names 'ftree' and 'lmdb'");
        check(DocBuf::new().with("storageEngine", &empty), "Empty 'storageEngine'");
        check(DocBuf::new().with("storageEngine", "ftree"), "has to be an embedded document");
        check(DocBuf::new().with("storageEngine", &DocBuf::new().with("ftree", 1i32)), "'storageEngine.ftree'");
        check(in_engine("paper", &empty), "paper is not a registered storage engine for this server");
        check(in_engine("paper", &empty), "ftree, lmdb");
        check(in_engine("ftree", &DocBuf::new().with("fanout", 1.5)), "fanout");
        check(DocBuf::new().with("indexOptionDefaults", &in_engine("paper", &empty)), "paper");
    }

    #[test]
    fn one_engine_alone_is_not_named() {
        let mut own = defaults();
        own.engines.truncate(1);
        let tree = own.of_collection(DocBuf::new().as_doc()).unwrap();
        assert_eq!((tree.engine.as_str(), tree.options.engine()), ("ftree", None));
    }
}
