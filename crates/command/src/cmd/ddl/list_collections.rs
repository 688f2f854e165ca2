//! `listCollections`.

use arbor_bson::{Doc, DocBuf, ValueRef};
use arbor_lang::{Context, Filter};
use arbor_store::{Collection, Namespace, ViewDefinition};

use crate::Result;
use crate::call::Call;
use crate::cmd::shared::cursor_reply::{answer_documents, cursor_option};

pub fn run(call: &mut Call<'_>) -> Result<()> {
    let (mut filter, mut name_only, mut batch_size) = (Doc::empty(), false, None);
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        match name {
            "filter" if matches!(value, ValueRef::Null) => {}
            "filter" => filter = field.document(value)?,
            "nameOnly" => name_only = field.bool(value)?,
            "cursor" => batch_size = cursor_option(field, value)?,
            "authorizedCollections" | "includePendingDrops" => drop(field.bool(value)?),
            _ => return Err(field.unknown().into()),
        }
    }
    let filter = Filter::parse(filter, &Context::new(arbor_protocol::log::now_ms()))?;
    let store = &call.database().store;
    let collections = store.list_collections(call.db).into_iter().map(|own| describe(&own, name_only));
    let views = store.list_views(call.db).into_iter().map(|own| match store.buckets_of(&own.namespace) {
        Some(buckets) => crate::cmd::shared::time_series::describe(&own.namespace, &buckets, name_only),
        None => describe_view(&own, name_only),
    });
    let views: Vec<DocBuf> = views.collect();
    let of_views = (!views.is_empty()).then(|| describe_system_views(name_only));
    let mut listed = Vec::new();
    for entry in collections.chain(views).chain(of_views).chain(crate::cmd::shared::oplog::listed(call, name_only)) {
        if filter.matches(entry.as_doc())? {
            listed.push(entry);
        }
    }
    answer_documents(call, Namespace::new(call.db, "$cmd.listCollections")?, listed, batch_size)
}

fn describe(collection: &Collection, name_only: bool) -> DocBuf {
    let entry = DocBuf::new().with("name", collection.namespace.collection()).with("type", "collection");
    if name_only {
        return entry;
    }
    let uuid = ValueRef::Binary { subtype: 4, bytes: collection.uuid.as_bytes() };
    let info = DocBuf::new().with("readOnly", false).with("uuid", uuid);
    let entry = entry.with("options", &collection.options).with("info", &info);
    match collection.clustered_index() {
        Some(_) => entry,
        None => entry.with("idIndex", &collection.id_index_spec()),
    }
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
