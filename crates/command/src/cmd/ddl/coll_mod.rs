//! `collMod`: `index` changes an index, `storageEngine` moves the collection to another engine while it is in use, `viewOn`
//! and `pipeline` give a view another definition, `validator`, `validationLevel` and `validationAction` change what a
//! collection says about its documents, `changeStreamPreAndPostImages` whether the history keeps what they were like before.

use arbor_bson::{Array, Code, Doc, DocBuf, ValueRef};
use arbor_protocol::arguments::Field;
use arbor_store::{EngineChange, Namespace, Switched, ViewDefinition};

use crate::call::Call;
use crate::cmd::ddl::create::view_source;
use crate::cmd::shared::capped::size as capped_size;
use crate::cmd::shared::validation::Validation;
use crate::cmd::shared::{clustered, coll_mod_index, images};
use crate::watcher::Watcher;
use crate::{Error, Result};

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    let namespace = call.namespace()?;
    if let Some(buckets) = call.database().store.buckets_of(&namespace) {
        return crate::cmd::shared::time_series::coll_mod(call, &namespace, &buckets);
    }
    if call.database().store.view(&namespace).is_some() {
        return change_view(call, namespace);
    }
    let (mut storage_engine, mut index, mut dry_run) = (None, None, false);
    let (mut validation, mut capped, mut expiry, mut kept_images) = (Vec::new(), Vec::new(), None, None);
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        match name {
            "cappedSize" => capped.push(("size", capped_size(field, value)?)),
            "cappedMax" => capped.push(("max", capped_max(field, value)?)),
            "storageEngine" => storage_engine = Some(field.document(value)?),
            "index" => index = Some(field.document(value)?),
            "dryRun" => dry_run = field.bool(value)?,
            "viewOn" | "pipeline" => {
                let text = format!("option not supported on a collection: {name}");
                return Err(Error::new(Code::INVALID_OPTIONS, text));
            }
            "validator" | "validationLevel" | "validationAction" => validation.push((name, value)),
            "expireAfterSeconds" => expiry = Some((field, value)),
            images::NAME => kept_images = Some((field, value)),
            "timeseries" => {
                field.document(value)?;
                let text = "option only supported on a time-series collection: timeseries";
                return Err(Error::new(Code::INVALID_OPTIONS, text));
            }
            _ => return Err(field.unknown().into()),
        }
    }
    if call.database().store.collection(&namespace).is_none() {
        if !capped.is_empty() && crate::cmd::shared::oplog::statistics(call, &namespace).is_some() {
            return Err(Error::new(Code::INVALID_OPTIONS, "the oplog is resized by replSetResizeOplog"));
        }
        if !validation.is_empty() && namespace.is_system_views() {
            let text = format!("Document validators not allowed on system collection {namespace}");
            return Err(Error::new(Code::INVALID_OPTIONS, text));
        }
        return Err(Error::new(Code::NAMESPACE_NOT_FOUND, format!("ns does not exist: {namespace}")));
    }
    match index {
        Some(index) => coll_mod_index::run(call, &namespace, index, dry_run)?,
        None if dry_run => return Err(coll_mod_index::only_with_unique()),
        None => {}
    }
    let changes_nothing = index.is_none()
        && storage_engine.is_none()
        && expiry.is_none()
        && kept_images.is_none()
        && capped.is_empty()
        && validation.is_empty();
    if changes_nothing && let Some(collection) = call.database().store.collection(&namespace) {
        // the history says that it was run
        return Ok(call.database().store.set_options(&namespace, &collection.options)?);
    }
    if let Some((field, value)) = expiry {
        change_expiry(call, &namespace, field, value)?;
    }
    if let Some((field, value)) = kept_images {
        change_images(call, &namespace, field, value)?;
    }
    if !capped.is_empty() {
        change_capped(call, &namespace, &capped)?;
    }
    if !validation.is_empty() {
        change_validation(call, &namespace, &validation)?;
    }
    match storage_engine {
        Some(storage_engine) => change_engine(call, &namespace, storage_engine),
        None => Ok(()),
    }
}

/// COMPAT: MongoDB keeps it below 2^31.
fn capped_max(field: Field<'_>, value: ValueRef<'_>) -> Result<i64> {
    match field.integer(value)? {
        max if max < 1 << 31 => Ok(max),
        max => Err(field.out_of_bounds("< 2147483648", max).into()),
    }
}

/// The documents that have no room any more go with the next insert.
fn change_capped(call: &Call<'_>, namespace: &Namespace, given: &[(&str, i64)]) -> Result<()> {
    let store = &call.database().store;
    let Some(collection) = store.collection(namespace) else { return Ok(()) };
    if collection.capped().is_none() {
        return Err(Error::new(Code::INVALID_OPTIONS, "Collection must be capped."));
    }
    let others = collection.options.as_doc().iter();
    let mut options: DocBuf = others.filter(|(name, _)| given.iter().all(|(changed, _)| changed != name)).collect();
    for (name, value) in given.iter().filter(|(_, value)| *value > 0) {
        options.append(name, *value);
    }
    Ok(store.set_options(namespace, &options)?)
}

/// Seconds, or "off".
fn change_expiry(call: &Call<'_>, namespace: &Namespace, field: Field<'_>, value: ValueRef<'_>) -> Result<()> {
    let store = &call.database().store;
    let Some(collection) = store.collection(namespace) else { return Ok(()) };
    if collection.clustered_index().is_none() {
        let text = "'expireAfterSeconds' option is only supported on collections clustered by _id";
        return Err(Error::new(Code::INVALID_OPTIONS, text));
    }
    let seconds = match value {
        ValueRef::String("off") => None,
        ValueRef::String(_) => {
            return Err(Error::new(Code::INVALID_OPTIONS, "expireAfterSeconds must be a number or 'off'"));
        }
        value => Some(clustered::seconds(field, value)?),
    };
    let others = collection.options.as_doc().iter();
    let mut options: DocBuf = others.filter(|(name, _)| *name != "expireAfterSeconds").collect();
    if let Some(seconds) = seconds {
        options.append("expireAfterSeconds", seconds);
    }
    Ok(store.set_options(namespace, &options)?)
}

fn change_images(call: &Call<'_>, namespace: &Namespace, field: Field<'_>, value: ValueRef<'_>) -> Result<()> {
    let store = &call.database().store;
    let Some(collection) = store.collection(namespace) else { return Ok(()) };
    let kept = images::read(namespace, field, value)?;
    let others = collection.options.as_doc().iter();
    let mut options: DocBuf = others.filter(|(name, _)| *name != images::NAME).collect();
    if let Some(kept) = kept {
        options.append(images::NAME, &kept);
    }
    Ok(store.set_options(namespace, &options)?)
}

fn change_validation(call: &Call<'_>, namespace: &Namespace, given: &[(&str, ValueRef<'_>)]) -> Result<()> {
    let store = &call.database().store;
    let Some(collection) = store.collection(namespace) else { return Ok(()) };
    let mut validation = Validation::of(collection.options.as_doc());
    for (name, value) in given {
        validation.read(call.field(name), *value)?;
    }
    validation.check(namespace)?;
    let others = collection.options.as_doc().iter();
    let mut options: DocBuf = others.filter(|(name, _)| !VALIDATION.contains(name)).collect();
    validation.append_to(&mut options);
    Ok(store.set_options(namespace, &options)?)
}

const VALIDATION: &[&str] = &["validator", "validationLevel", "validationAction"];

fn change_view(call: &mut Call<'_>, namespace: Namespace) -> Result<()> {
    let (mut view_on, mut pipeline) = (None, None);
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        match name {
            "viewOn" => view_on = Some(view_source(call, field.string(value)?)?),
            "pipeline" => pipeline = Some(field.array(value)?),
            "index"
            | "validator"
            | "validationLevel"
            | "validationAction"
            | "expireAfterSeconds"
            | "timeseries"
            | "changeStreamPreAndPostImages"
            | "cappedSize"
            | "cappedMax"
            | "storageEngine" => {
                let text = format!("option not supported on a view: {name}");
                return Err(Error::new(Code::INVALID_OPTIONS, text));
            }
            _ => return Err(field.unknown().into()),
        }
    }
    let (view_on, pipeline) = match (view_on, pipeline) {
        (Some(view_on), Some(pipeline)) => (view_on, pipeline),
        (None, None) => return Ok(()),
        (Some(view_on), None) => (view_on, Array::empty()),
        (None, Some(_)) => {
            let text = "Must specify both 'viewOn' and 'pipeline' when modifying a view";
            return Err(Error::new(Code::INVALID_OPTIONS, text));
        }
    };
    let old = call.database().store.view(&namespace);
    let collation = old.map(|old| old.collation.clone()).unwrap_or_default();
    let view = ViewDefinition { namespace, view_on, pipeline: pipeline.to_buf(), collation };
    arbor_query::check_view(&call.scope(), &view)?;
    Ok(call.database().store.change_view(view)?)
}

fn change_engine(call: &mut Call<'_>, namespace: &Namespace, storage_engine: Doc<'_>) -> Result<()> {
    let watcher = Watcher::of(call);
    let changed = call.database().store.change_engine(namespace, &storage_engine.to_buf(), &watcher);
    if let EngineChange::Moved(switched) = watcher.explained(changed)? {
        call.reply.append("engineSwitch", &described(&switched));
    }
    Ok(())
}

/// COMPAT: MongoDB's reply has `ok` only.
fn described(switched: &Switched) -> DocBuf {
    DocBuf::new()
        .with("rows", switched.rows as i64)
        .with("copyMillis", switched.copied_in.as_millis() as i64)
        .with("logRecords", switched.records as i64)
        .with("rounds", i64::from(switched.rounds))
        .with("writersBlockedMicros", switched.blocked.as_micros() as i64)
}
