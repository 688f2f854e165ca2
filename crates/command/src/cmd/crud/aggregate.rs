//! `aggregate`. Stages that ask the server and not a collection for their documents begin here; the rest is `query`'s.

use arbor_bson::{Array, ArrayBuf, Code, Doc, DocBuf, ValueRef};
use arbor_protocol::arguments::Field;
use arbor_protocol::read_concern::Level;
use arbor_query::{AggregateSpec, Verbosity};
use arbor_store::Namespace;

use crate::call::Call;
use crate::cmd::admin::plan_cache_clear;
use crate::cmd::crud::explain;
use crate::cmd::diagnostics::{coll_stats, current_op};
use crate::cmd::shared::cursor_reply::{First, answer_first, collation, cursor_option, refuse_if_given};
use crate::session::collections;
use crate::{Error, Result, usage};

pub struct Parsed<'c> {
    pub spec: AggregateSpec<'c>,
    first: First,
    explain: bool,
}

pub fn run(call: &mut Call<'_>) -> Result<()> {
    let Parsed { spec, first, explain } = parse(call)?;
    if explain {
        call.reply = explain::explain_call(call, Verbosity::QueryPlanner)?;
        explain::append_surroundings(call, call.body);
        return Ok(());
    }
    if arbor_query::stream::is_change_stream(&spec)
        && let Some(level) = call.generic.read_concern.level.filter(|level| *level != Level::Majority)
        && call.body.get("readConcern").is_some()
    {
        let text = format!(
            "$changeStream cannot run with a readConcern other than 'majority', or in a multi-document transaction. \
             Current readConcern: {{ level: \"{}\" }}",
            level.name()
        );
        return Err(Error::new(Code::INVALID_OPTIONS, text));
    }
    if let Some(documents) = collections::documents(call.server, &spec.namespace)?
        && !asks_server(spec.pipeline)
    {
        let cursor = arbor_query::aggregate_documents(&call.scope(), &spec, documents, &call.interrupt)?;
        return answer_first(call, cursor, first);
    }
    let cursor = match server_documents(call, &spec)? {
        Some(documents) => {
            let rest: ArrayBuf = spec.pipeline.iter().skip(1).collect();
            let spec = AggregateSpec { pipeline: rest.as_array(), ..spec };
            arbor_query::aggregate_documents(&call.scope(), &spec, documents, &call.interrupt)?
        }
        None => arbor_query::aggregate(&call.scope(), &spec, &call.interrupt)?,
    };
    answer_first(call, cursor, first)
}

/// Reads the command; `explain` uses it as well.
pub fn parse<'c>(call: &Call<'c>) -> Result<Parsed<'c>> {
    let (namespace, collectionless) = match call.target() {
        ValueRef::String(_) => (call.namespace()?, false),
        value if call.field("aggregate").integer(value).is_ok_and(|n| n == 1) => {
            (Namespace::new(call.db, "$cmd.aggregate")?, true)
        }
        _ => {
            let text = "Invalid command format: the 'aggregate' field must specify a collection name or 1";
            return Err(Error::failed_to_parse(text));
        }
    };
    let (mut pipeline, mut hint, mut own_collation, mut let_variables) = (None, None, None, None);
    let (mut cursor, mut explain, mut bypass_validation) = (None, false, false);
    let mut allow_disk_use = call.server.parameters.bool("allowDiskUseByDefault");
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        match name {
            "pipeline" => pipeline = Some(field.array(value)?),
            "cursor" => cursor = Some(cursor_option(field, value)?),
            "explain" => explain = field.strict_bool(value)?,
            "hint" => hint = crate::cmd::shared::hint::read(field, value)?,
            "let" => let_variables = Some(field.document(value)?),
            "collation" => own_collation = collation(field, value)?,
            "allowDiskUse" => allow_disk_use = field.strict_bool(value)?,
            "bypassDocumentValidation" => bypass_validation = field.bool(value)?,
            "exchange" => refuse_if_given(field, value, "exchange")?,
            _ => return Err(field.unknown().into()),
        }
    }
    let pipeline: Array<'c> = pipeline.ok_or_else(|| call.field("pipeline").missing())?;
    if call.generic.api_strict {
        check_stable(pipeline)?;
    }
    if cursor.is_none() && !explain && call.info.name == "aggregate" && call.body.get("aggregate").is_some() {
        let text = "The 'cursor' option is required, except for aggregate with the explain argument";
        if !is_explained(call) {
            return Err(Error::failed_to_parse(text));
        }
    }
    let first = First::of(cursor.flatten());
    let durability = call.generic.write_concern.durability();
    let spec = AggregateSpec {
        namespace,
        collectionless,
        pipeline,
        hint,
        collation: own_collation,
        let_variables,
        durability,
        allow_disk_use,
        bypass_validation,
    };
    Ok(Parsed { spec, first, explain })
}

/// Stages that are not in version 1 of the stable API.
const UNSTABLE: &[&str] = &[
    "$currentOp",
    "$indexStats",
    "$listLocalSessions",
    "$listSampledQueries",
    "$listSearchIndexes",
    "$listSessions",
    "$planCacheStats",
    "$queryStats",
    "$search",
    "$searchMeta",
    "$vectorSearch",
];

fn check_stable(pipeline: Array<'_>) -> Result<()> {
    for stage in pipeline.iter() {
        let ValueRef::Document(stage) = stage else { continue };
        let text = match stage.first() {
            Some((name, _)) if UNSTABLE.contains(&name) => {
                format!("stage {name} is not allowed with 'apiStrict: true' in API Version 1")
            }
            Some(("$collStats", ValueRef::Document(options))) if options.iter().any(|(name, _)| name != "count") => {
                "only the 'count' parameter to $collStats is supported in API Version 1".to_owned()
            }
            _ => continue,
        };
        return Err(Error::new(Code::API_STRICT_ERROR, text));
    }
    Ok(())
}

/// A command inside `explain` needs no cursor: it has no `$db` of its own.
fn is_explained(call: &Call<'_>) -> bool {
    call.body.get("$db").is_none()
}

fn asks_server(pipeline: Array<'_>) -> bool {
    matches!(pipeline.get(0), Some(ValueRef::Document(stage)) if stage.get("$listSessions").is_some())
}

/// Documents of a first stage that reads the server; `None`: the pipeline begins with a collection.
fn server_documents(call: &mut Call<'_>, spec: &AggregateSpec<'_>) -> Result<Option<Vec<DocBuf>>> {
    let Some(ValueRef::Document(stage)) = spec.pipeline.get(0) else { return Ok(None) };
    let Some((name, options)) = stage.first() else { return Ok(None) };
    let of_series = call.database().store.buckets_of(&spec.namespace).is_some();
    if matches!(name, "$collStats" | "$indexStats" | "$planCacheStats") && !of_series {
        call.database().store.refuse_view(&spec.namespace)?;
    }
    let documents = match (name, spec.collectionless) {
        ("$currentOp", true) if call.db != "admin" => {
            let text = "$currentOp must be run against the 'admin' database with {aggregate: 1}";
            return Err(Error::new(Code::INVALID_NAMESPACE, text));
        }
        ("$currentOp", true) => {
            let idle = current_op::idle_options(call.field(name).document(options)?)?;
            current_op::shown(call.server, idle)
        }
        ("$listLocalSessions", local) => sessions(call, call.field(name), options, local)?,
        ("$listSessions", _) => {
            let is_at_home = spec.namespace.as_str() == "config.system.sessions";
            sessions(call, call.field(name), options, is_at_home)?
        }
        ("$collStats", false) => {
            vec![collection_statistics(call, &spec.namespace, call.field(name).document(options)?)?]
        }
        ("$planCacheStats", false) => plan_cache_clear::stats(call, &spec.namespace),
        ("$indexStats", false) if !matches!(options, ValueRef::Document(options) if options.is_empty()) => {
            let text = "The $indexStats stage specification must be an empty object";
            return Err(Error::from(arbor_lang::Error::location(28803, text)));
        }
        ("$indexStats", false) => index_statistics(call, &spec.namespace)?,
        _ => return Ok(None),
    };
    Ok(Some(documents))
}

/// `$listSessions` and `$listLocalSessions`. All sessions are those of all users while there are none.
fn sessions(call: &Call<'_>, stage: Field<'_>, options: ValueRef<'_>, is_at_home: bool) -> Result<Vec<DocBuf>> {
    for (name, value) in stage.document(options)? {
        let field = Field::new(stage.name, name);
        match name {
            "allUsers" => drop(field.strict_bool(value)?),
            "users" => drop(field.documents(value)?),
            _ => return Err(field.unknown().into()),
        }
    }
    if !is_at_home {
        let text = match stage.name {
            "$listSessions" => "$listSessions may only be run against config.system.sessions",
            _ => "$listLocalSessions must be run against the database with {aggregate: 1}, not a collection",
        };
        return Err(Error::new(Code::INVALID_NAMESPACE, text));
    }
    Ok(collections::sessions(call.server))
}

/// `$collStats`.
fn collection_statistics(call: &Call<'_>, namespace: &Namespace, options: Doc<'_>) -> Result<DocBuf> {
    let missing = || {
        let text = format!(
            "Unable to retrieve storageStats in $collStats stage :: caused by :: Collection [{namespace}] not found."
        );
        Error::new(Code::NAMESPACE_NOT_FOUND, text)
    };
    let store = &call.database().store;
    let buckets = store.buckets_of(namespace);
    let collection = store.collection(namespace).or_else(|| buckets.clone());
    let statistics = match (crate::cmd::shared::oplog::statistics(call, namespace), &collection) {
        (Some(statistics), _) => statistics,
        (None, collection) => coll_stats::Statistics::of(call, collection.as_ref().ok_or_else(missing)?)?,
    };
    let mut doc = DocBuf::new().with("ns", namespace.as_str()).with("host", &arbor_protocol::process::host_name());
    doc.append("localTime", ValueRef::DateTime(arbor_protocol::log::now_ms()));
    for (name, value) in options {
        let field = arbor_protocol::arguments::Field::new("$collStats", name);
        match name {
            "storageStats" => {
                let scale = match field.document(value)?.get("scale") {
                    Some(value) => coll_stats::read_scale(field, value)?,
                    None => 1,
                };
                let shown = match &buckets {
                    Some(buckets) => crate::cmd::shared::time_series::statistics(call, namespace, buckets, scale)?,
                    None => coll_stats::statistics_doc(call, &statistics, true, scale),
                };
                doc.append(name, &shown);
            }
            "count" => drop(doc.append(name, statistics.documents as i64)),
            "latencyStats" => {
                let histograms = match field.document(value)?.get("histograms") {
                    Some(value) => field.bool(value)?,
                    None => false,
                };
                let used = call.server.usages.of(namespace.as_str());
                let latencies = used.map_or_else(|| usage::no_latencies(histograms), |used| used.latencies(histograms));
                doc.append(name, &latencies);
            }
            "queryExecStats" => {
                let scans = collection.as_ref().map_or(0, |own| own.usage.scans.count()) as i64;
                let scans = DocBuf::new().with("total", scans).with("nonTailable", scans);
                doc.append(name, &DocBuf::new().with("collectionScans", &scans));
            }
            _ => return Err(field.unknown().into()),
        }
    }
    Ok(doc)
}

/// `$indexStats`. Of a time series those of its buckets, under the keys of measurements.
fn index_statistics(call: &Call<'_>, namespace: &Namespace) -> Result<Vec<DocBuf>> {
    let store = &call.database().store;
    let Some(collection) = store.collection(namespace).or_else(|| store.buckets_of(namespace)) else {
        return Ok(Vec::new());
    };
    let shown =
        crate::cmd::shared::time_series::index_specs(call, namespace)?.unwrap_or_else(|| collection.index_specs());
    let host = format!("{}:{}", arbor_protocol::process::host_name(), call.server.options.port);
    let describe = |spec: DocBuf| {
        let mut doc = DocBuf::new();
        for (name, value) in spec.as_doc().iter().filter(|(name, _)| matches!(*name, "name" | "key")) {
            doc.append(name, value);
        }
        let index = match spec.get("name") {
            Some(ValueRef::String(name)) => collection.index(name),
            _ => None,
        };
        let usage = index.map_or(&collection.usage.id_index, |index| &index.usage);
        let since = ValueRef::DateTime(usage.since_ms());
        let accesses = DocBuf::new().with("ops", usage.count() as i64).with("since", since);
        doc.with("host", &host).with("accesses", &accesses).with("spec", &spec)
    };
    Ok(shown.into_iter().map(describe).collect())
}
