//! `setQuerySettings`, `removeQuerySettings`, `$querySettings`: settings for all statements of one shape.
//!
//! They are kept in `config.clusterParameters`, and read back when the server starts.

use std::sync::Arc;

use arbor_bson::{ArrayBuf, Code, Doc, DocBuf, ValueRef};
use arbor_protocol::arguments::{Field, is_present};
use arbor_protocol::cluster_time::timestamp;
use arbor_query::{DocOrName, IndexHints, QueryShape, Setting, SettingsQuery};
use arbor_store::Namespace;

use super::cluster_parameter;
use crate::call::Call;
use crate::cmd::crud::{aggregate, distinct, find};
use crate::{Commands, Error, Result, registry};

/// `_id` of the document with all settings.
const ID: &str = "querySettings";

pub(crate) fn set(call: &mut Call<'_>) -> Result<()> {
    cluster_parameter::check_member(call)?;
    call.only(&["settings"])?;
    let settings = call.field("settings").document(call.required("settings")?)?;
    if settings.is_empty() {
        return Err(Error::new(Code(8727502), "settings field in setQuerySettings command cannot be empty"));
    }
    let (shape, representative, debug_shape) = target(call)?;
    let before = call.database().query_settings.of(shape);
    if before.is_none() && representative.is_none() {
        let text = "New query settings can only be created with a query instance, but a query hash was given.";
        return Err(Error::new(Code(7746401), text));
    }
    let before_settings = before.as_ref().map(|own| own.settings.clone()).unwrap_or_default();
    let settings = merged(&before_settings, settings)?;
    let representative = representative.or_else(|| before.as_ref().and_then(|own| own.representative.clone()));
    let debug_shape = debug_shape.or_else(|| before.as_ref().and_then(|own| own.debug_shape.clone()));
    let setting = setting_of(settings, representative, debug_shape)?;
    call.reply = setting.shown(shape);
    call.database().query_settings.set(shape, setting);
    call.server.keep_query_settings()
}

pub(crate) fn remove(call: &mut Call<'_>) -> Result<()> {
    cluster_parameter::check_member(call)?;
    call.only(&[])?;
    let (shape, ..) = target(call)?;
    if call.database().query_settings.of(shape).is_some() {
        call.database().query_settings.remove(shape);
        call.server.keep_query_settings()?;
    }
    Ok(())
}

/// `$querySettings`.
pub(crate) fn stage(call: &Call<'_>, options: ValueRef<'_>) -> Result<Vec<DocBuf>> {
    let ValueRef::Document(options) = options else {
        let text = "$querySettings stage expects a document as argument";
        return Err(Error::new(Code(7746800), text));
    };
    let mut shows_shape = false;
    for (name, value) in options {
        let field = Field::new("$querySettings", name);
        match name {
            "showDebugQueryShape" => shows_shape = field.strict_bool(value)?,
            _ => return Err(field.unknown().into()),
        }
    }
    let shown = call.database().query_settings.all().into_iter().map(|(shape, setting)| {
        let mut doc = setting.shown(shape);
        if let Some(debug_shape) = setting.debug_shape.as_ref().filter(|_| shows_shape) {
            doc.append("debugQueryShape", debug_shape);
        }
        doc
    });
    Ok(shown.collect())
}

impl Call<'_> {
    /// Returns the settings for a statement of this shape. Errors: they refuse it.
    pub(crate) fn query_settings(
        &self,
        shape: impl FnOnce() -> arbor_query::Result<QueryShape>,
    ) -> Result<Option<Arc<Setting>>> {
        let found = self.database().query_settings.find(shape)?;
        if found.as_ref().is_some_and(|setting| setting.reject) {
            return Err(Error::new(Code(411), "Query rejected by admin query settings"));
        }
        Ok(found)
    }
}

/// Returns the shape that the command is about, given by its hash or by a statement, which is returned with its shape.
fn target(call: &mut Call<'_>) -> Result<(QueryShape, Option<DocBuf>, Option<DocBuf>)> {
    let statement = match call.target() {
        ValueRef::String(hash) => {
            let invalid = || Error::bad_value(format!("Invalid query shape hash: {hash}"));
            return Ok((QueryShape::parse(hash).ok_or_else(invalid)?, None, None));
        }
        ValueRef::Document(statement) => statement,
        other => return Err(call.field(call.info.name).wrong_type(other, "[string, object]").into()),
    };
    let db = match statement.get("$db") {
        Some(ValueRef::String(db)) => db,
        Some(other) => return Err(call.field("$db").wrong_type(other, "string").into()),
        None => return Err(call.field("$db").missing().into()),
    };
    let name = statement.first().map_or("", |(name, _)| name);
    let unknown = || Error::new(Code(7746402), format!("QueryShape can not be computed for command: {name}"));
    let info = registry::info(name).filter(|info| matches!(info.name, "find" | "distinct" | "aggregate"));
    let info = info.ok_or_else(unknown)?;
    let body: DocBuf = statement.iter().filter(|(name, _)| !name.starts_with('$')).collect();
    let inner = call.inside(info, db, body.as_doc());
    let query = match name {
        "find" => SettingsQuery::Find(find::parse(&inner)?.0),
        "distinct" => SettingsQuery::Distinct(distinct::parse(&inner)?),
        _ => SettingsQuery::Aggregate(aggregate::parse(&inner)?.spec),
    };
    check(&query)?;
    let shape = query.shape_doc();
    call.interrupt.check()?;
    Ok((QueryShape::of(&shape), Some(statement.to_buf()), Some(shape)))
}

fn check(query: &SettingsQuery<'_>) -> Result<()> {
    let namespace = query.namespace();
    if matches!(namespace.db(), "admin" | "config" | "local") {
        return Err(Error::new(Code(8584900), "setQuerySettings command cannot be used on internal databases"));
    }
    if namespace.is_system() {
        return Err(Error::new(Code(8584901), "setQuerySettings command cannot be used on system collections"));
    }
    match query {
        SettingsQuery::Find(spec) if arbor_query::is_point_query(spec) => {
            let text = "setQuerySettings command cannot be used on find queries eligible for IDHACK";
            Err(Error::new(Code(7746606), text))
        }
        _ => Ok(()),
    }
}

/// Returns the settings with those that were there before. Errors: they set nothing, or something unknown.
fn merged(before: &DocBuf, settings: Doc<'_>) -> Result<DocBuf> {
    let mut given = DocBuf::new();
    for (name, value) in settings.iter().filter(|(name, value)| *name == "comment" || is_present(*value)) {
        let field = Field::new("QuerySettings", name);
        match name {
            "indexHints" => {
                let hints = match value {
                    ValueRef::Document(hint) => [hint].into_iter().collect(),
                    value => field.array(value)?.to_buf(),
                };
                given.append(name, &hints);
            }
            "queryFramework" => drop(given.append(name, field.one_of(value, &["classic", "sbe"])?)),
            "reject" => drop(given.append(name, field.strict_bool(value)?)),
            "comment" => drop(given.append(name, value)),
            _ => return Err(field.unknown().into()),
        }
    }
    let mut all: DocBuf = before.as_doc().iter().filter(|(name, _)| given.get(name).is_none()).collect();
    for (name, value) in given.as_doc() {
        all.append(name, value);
    }
    if Setting::is_empty(all.as_doc()) {
        let text = "the resulting settings cannot be empty or contain only default values";
        return Err(Error::new(Code(7746604), text));
    }
    Ok(all)
}

fn setting_of(settings: DocBuf, representative: Option<DocBuf>, debug_shape: Option<DocBuf>) -> Result<Setting> {
    let mut hints = IndexHints::default();
    if let Some(ValueRef::Array(each)) = settings.get("indexHints") {
        for hint in Field::new("QuerySettings", "indexHints").documents(each.into())? {
            add_hint(&mut hints, hint)?;
        }
    }
    let reject = matches!(settings.get("reject"), Some(ValueRef::Bool(true)));
    Ok(Setting { settings, representative, debug_shape, hints, reject })
}

/// `{ ns: { db, coll }, allowedIndexes: [...] }`.
fn add_hint(hints: &mut IndexHints, hint: Doc<'_>) -> Result<()> {
    let field = |name| Field::new("QuerySettings.indexHints", name);
    let ns = field("ns").document(hint.get("ns").ok_or_else(|| field("ns").missing())?)?;
    let part = |name: &str, code: i32| match ns.get(name) {
        Some(ValueRef::String(part)) => Ok(part),
        _ => Err(Error::new(Code(code), format!("invalid namespace: the '{name}' field of 'ns' is missing"))),
    };
    let namespace = Namespace::new(part("db", 8727500)?, part("coll", 8727501)?)?;
    let allowed = hint.get("allowedIndexes").ok_or_else(|| field("allowedIndexes").missing())?;
    let indexes = field("allowedIndexes").array(allowed)?.iter().map(|index| {
        let wrong = || field("allowedIndexes").wrong_type(index, "[string, object]");
        DocOrName::read(index).ok_or_else(wrong)
    });
    let indexes = indexes.collect::<std::result::Result<Vec<_>, _>>()?;
    if hints.of(&namespace).is_some() {
        let text = format!("In the 'indexHints' the namespace '{namespace}' is given more than once");
        return Err(Error::new(Code(7746608), text));
    }
    Ok(hints.add(namespace, indexes)?)
}

impl Commands {
    /// Stores all settings.
    fn keep_query_settings(&self) -> Result<()> {
        let settings: Vec<DocBuf> = self
            .database
            .query_settings
            .all()
            .into_iter()
            .map(|(shape, setting)| {
                let mut doc = setting.shown(shape);
                if let Some(debug_shape) = &setting.debug_shape {
                    doc.append("debugQueryShape", debug_shape);
                }
                doc
            })
            .collect();
        let doc = DocBuf::new()
            .with("_id", ID)
            .with("clusterParameterTime", timestamp(self.database.transactions.time()))
            .with("settingsArray", &settings.iter().collect::<ArrayBuf>());
        self.persist(&cluster_parameter::namespace()?, doc.as_doc())
    }

    /// Reads, at the start, what was set before.
    pub(super) fn read_query_settings(&self) -> Result<()> {
        let Some(stored) = cluster_parameter::stored(self, ID)? else { return Ok(()) };
        let Some(ValueRef::Array(settings)) = stored.get("settingsArray") else { return Ok(()) };
        for setting in Field::new(ID, "settingsArray").documents(settings.into())? {
            let document = |name: &str| match setting.get(name) {
                Some(ValueRef::Document(doc)) => Some(doc.to_buf()),
                _ => None,
            };
            let Some(ValueRef::String(hash)) = setting.get("queryShapeHash") else { continue };
            let (Some(shape), Some(settings)) = (QueryShape::parse(hash), document("settings")) else { continue };
            let setting = setting_of(settings, document("representativeQuery"), document("debugQueryShape"))?;
            self.database.query_settings.set(shape, setting);
        }
        Ok(())
    }
}
