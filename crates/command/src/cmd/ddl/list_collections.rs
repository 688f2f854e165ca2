//! `listCollections`.

use std::sync::Arc;

use arbor_auth::{Action, Target};
use arbor_bson::{ArrayBuf, Doc, DocBuf, ValueRef};
use arbor_lang::{Context, Filter};
use arbor_protocol::arguments::{Field, present};
use arbor_store::{Collection, Namespace, ViewDefinition};

use crate::Result;
use crate::call::Call;
use crate::cmd::shared::cursor_reply::{answer_documents, cursor_option};

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    let (mut filter, mut name_only, mut batch_size, mut authorized) = (Doc::empty(), false, None, false);
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        match name {
            "filter" if matches!(value, ValueRef::Null) => {}
            "filter" => filter = field.document(value)?,
            "nameOnly" => name_only = field.bool(value)?,
            "cursor" => batch_size = cursor_option(field, value)?,
            "authorizedCollections" => authorized = field.strict_bool(value)?,
            "includePendingDrops" => drop(field.bool(value)?),
            _ => return Err(field.unknown().into()),
        }
    }
    let filter =
        Filter::parse(filter, &Context { without_times: true, ..Context::new(arbor_protocol::log::now_ms()) })?;
    let mut listed = Vec::new();
    for entry in entries(call, call.db, name_only) {
        if (!authorized || is_reached(call, &entry)) && filter.matches(entry.as_doc())? {
            listed.push(entry);
        }
    }
    answer_documents(call, Namespace::new(call.db, "$cmd.listCollections")?, listed, batch_size)
}

/// Returns the entries of a database.
fn entries(call: &Call<'_>, db: &str, name_only: bool) -> Vec<DocBuf> {
    let store = &call.database().store;
    let own = &call.database().server_collections;
    let of_server = own.iter().flat_map(|own| own.listed(db)).map(|name| describe_of_server(name, name_only));
    let shown = |collection: &Arc<Collection>| !call.database().has_of_server(&collection.namespace);
    let collections = store.list_collections(db).into_iter().filter(shown).map(|own| describe(&own, name_only));
    let views = store.list_views(db).into_iter().map(|own| match store.buckets_of(&own.namespace) {
        Some(buckets) => crate::cmd::shared::time_series::describe(&own.namespace, &buckets, name_only),
        None => describe_view(&own, name_only),
    });
    let views: Vec<DocBuf> = views.collect();
    let of_views = (!views.is_empty()).then(|| describe_system_views(name_only));
    let of_log = crate::cmd::shared::oplog::listed(call, db, name_only);
    collections.chain(views).chain(of_views).chain(of_log).chain(of_server).collect()
}

/// `$listClusterCatalog`: of one database, or on `admin` of all.
pub(crate) fn cluster_catalog(call: &Call<'_>, stage: Field<'_>, options: ValueRef<'_>) -> Result<Vec<DocBuf>> {
    let mut shards = false;
    for (name, value) in present(stage.document(options)?) {
        let field = Field::new("$listClusterCatalog", name);
        match name {
            "shards" => shards = field.bool(value)?,
            // there is no balancer
            "balancingConfiguration" => drop(field.bool(value)?),
            _ => return Err(field.unknown().into()),
        }
    }
    let databases = match call.db {
        "admin" => call.database().store.list_databases(),
        db => vec![db.to_owned()],
    };
    let shown = |db: &String| {
        entries(call, db, false)
            .into_iter()
            .map(|entry| {
                let name = match entry.get("name") {
                    Some(ValueRef::String(name)) => name.to_owned(),
                    _ => String::new(),
                };
                let mut doc = DocBuf::new().with("ns", &format!("{db}.{name}")).with("db", db);
                for (name, value) in entry.as_doc().iter().filter(|(name, _)| *name != "name") {
                    doc.append(name, value);
                }
                doc.append("sharded", false);
                if shards {
                    doc.append("shards", &ArrayBuf::new());
                }
                doc
            })
            .collect::<Vec<_>>()
    };
    Ok(databases.iter().flat_map(shown).collect())
}

/// Returns true if the user may do anything with the collection.
fn is_reached(call: &Call<'_>, entry: &DocBuf) -> bool {
    let Some(ValueRef::String(collection)) = entry.get("name") else { return false };
    let target = Target::Collection { db: call.db, collection };
    ANY_OF.iter().any(|action| call.server.permits(call.connection, target, *action))
}

/// Actions of which one shows the name of a collection.
const ANY_OF: &[Action] = &[Action::Find, Action::Insert, Action::Update, Action::Remove, Action::CollStats];

fn describe(collection: &Collection, name_only: bool) -> DocBuf {
    let entry = DocBuf::new().with("name", collection.namespace.collection()).with("type", "collection");
    if name_only {
        return entry;
    }
    let uuid = ValueRef::Binary { subtype: 4, bytes: collection.uuid.as_bytes() };
    let info = DocBuf::new().with("readOnly", false).with("uuid", uuid);
    let entry = entry.with("options", &shown_options(collection)).with("info", &info);
    match collection.clustered_index() {
        Some(_) => entry,
        None => entry.with("idIndex", &collection.id_index_spec()),
    }
}

/// COMPAT: the bounds of a capped collection are int32 where they fit, as MongoDB shows them.
fn shown_options(collection: &Collection) -> DocBuf {
    let shown = collection.options.as_doc().iter().map(|(name, value)| match (name, value) {
        ("size" | "max", ValueRef::Int64(bound)) => (name, i32::try_from(bound).map_or(value, ValueRef::Int32)),
        shown => shown,
    });
    shown.collect()
}

fn describe_of_server(name: &str, name_only: bool) -> DocBuf {
    let entry = DocBuf::new().with("name", name).with("type", "collection");
    if name_only {
        return entry;
    }
    entry.with("options", &DocBuf::new()).with("info", &DocBuf::new().with("readOnly", true))
}

/// The views themselves, which can be read as documents.
fn describe_system_views(name_only: bool) -> DocBuf {
    let entry = DocBuf::new().with("name", "system.views").with("type", "collection");
    if name_only {
        return entry;
    }
    entry.with("options", &DocBuf::new()).with("info", &DocBuf::new().with("readOnly", false))
}

fn describe_view(view: &ViewDefinition, name_only: bool) -> DocBuf {
    let entry = DocBuf::new().with("name", view.namespace.collection()).with("type", "view");
    if name_only {
        return entry;
    }
    entry.with("options", &view.options()).with("info", &DocBuf::new().with("readOnly", true))
}
