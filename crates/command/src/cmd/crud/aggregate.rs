//! `aggregate`. Stages that ask the server and not a collection for their documents begin here; the rest is `query`'s.

use arbor_auth::UserName;
use arbor_bson::{Array, ArrayBuf, Code, Doc, DocBuf, USER_SIZE_MAX, ValueRef};
use arbor_protocol::arguments::{Field, is_present, present};
use arbor_protocol::read_concern::Level;
use arbor_protocol::request::NO_USER;
use arbor_query::{AggregateSpec, BatchLimit, Cursor, QueryShape, Verbosity};
use arbor_store::Namespace;

use crate::analysis::SAMPLES;
use crate::call::Call;
use crate::cmd::admin::{index_filters, query_settings};
use crate::cmd::crud::{backup_cursor, explain, query_stats};
use crate::cmd::ddl::{list_collections, search_indexes};
use crate::cmd::diagnostics::{coll_stats, current_op};
use crate::cmd::shared::cursor_reply::{
    DURING_AGGREGATION, First, answer_first, collation, cursor_option, refuse_if_given,
};
use crate::cmd::shared::numbers::fitting;
use crate::session::collections;
use crate::{Error, Result, usage};

pub(crate) struct Parsed<'c> {
    pub spec: AggregateSpec<'c>,
    first: First,
    explain: bool,
}

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    let Parsed { spec, first, explain } = parse(call)?;
    if explain {
        call.reply = explain::explain_call(call, Verbosity::QueryPlanner)?;
        explain::append_surroundings(call, call.body);
        return Ok(());
    }
    if arbor_query::stream::is_change_stream(&spec)
        && let Some(level) = call.generic.read_concern.level.filter(|level| *level != Level::Majority)
        && call.optional("readConcern").is_some()
    {
        let text = format!(
            "$changeStream cannot run with a readConcern other than 'majority', or in a multi-document transaction. \
             Current readConcern: {{ level: \"{}\" }}",
            level.name()
        );
        return Err(Error::new(Code::INVALID_OPTIONS, text));
    }
    check_level(call, spec.pipeline)?;
    if spec.pipeline.get(0).and_then(first_field).is_some_and(backup_cursor::is_asked) {
        let cursor = backup_cursor::run(call, &spec)?;
        return answer_first(call, cursor, first);
    }
    let cursor = match server_documents(call, &spec)? {
        Some(documents) => {
            let rest: ArrayBuf = spec.pipeline.iter().skip(1).collect();
            let spec = AggregateSpec { pipeline: rest.as_array(), ..spec };
            arbor_query::aggregate_documents(&call.scope(), &spec, documents, &call.interrupt)?
        }
        None => {
            call.note_shape(|| QueryShape::doc_of_aggregate(&spec));
            let settings = call.query_settings(|| QueryShape::of_aggregate(&spec))?;
            let scope = call.scope().with_hints(settings.as_ref().map(|settings| &settings.hints));
            arbor_query::aggregate(&scope, &spec, &call.interrupt)?
        }
    };
    match call.body.get("cursor") {
        None if call.is_of_old_client => answer_inline(call, cursor),
        _ => answer_first(call, cursor, first),
    }
}

/// Replies with all documents in `result`, as servers before 3.6 did. They fit into one document.
fn answer_inline(call: &mut Call<'_>, mut cursor: Cursor) -> Result<()> {
    let batch = cursor.next_batch(BatchLimit::more(), &call.interrupt);
    let batch = batch.map_err(|error| Error::from(error).during(DURING_AGGREGATION))?;
    if !batch.exhausted || batch.docs.as_array().as_bytes().len() > USER_SIZE_MAX {
        let text = format!("aggregation result exceeds maximum document size ({}MB)", USER_SIZE_MAX >> 20);
        return Err(Error::new(Code(16389), text));
    }
    call.plan.returned = Some(batch.docs.len() as u64);
    call.server.metrics.documents.returned.add(batch.docs.len() as u64);
    call.reply.append("result", &batch.docs);
    call.reply_memory = Some(batch.reservation);
    Ok(())
}

/// Refuses what no server takes, before it is known where the pipeline runs.
pub(crate) fn check(call: &Call<'_>) -> Result<()> {
    let Parsed { spec, .. } = parse(call)?;
    check_level(call, spec.pipeline)?;
    match spec.pipeline.get(0).and_then(first_field) {
        Some(name) if backup_cursor::is_asked(name) => backup_cursor::check(call, &spec),
        Some("$currentOp") if spec.collectionless => check_current_op(call),
        Some(name) if SEARCHES.contains(&name) => Err(search_indexes::not_enabled(name)),
        _ => Ok(()),
    }
}

fn first_field(stage: ValueRef<'_>) -> Option<&str> {
    match stage {
        ValueRef::Document(stage) => stage.first().map(|(name, _)| name),
        _ => None,
    }
}

fn check_current_op(call: &Call<'_>) -> Result<()> {
    if call.db == "admin" {
        return Ok(());
    }
    let text = "$currentOp must be run against the 'admin' database with {aggregate: 1}";
    Err(Error::new(Code::INVALID_NAMESPACE, text))
}

/// Stages for which there is no search index.
const SEARCHES: &[&str] = &["$listSearchIndexes", "$search", "$searchMeta", "$vectorSearch"];

/// Reads the command; `explain` uses it as well.
pub(crate) fn parse<'c>(call: &Call<'c>) -> Result<Parsed<'c>> {
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
        if !is_explained(call) && !call.is_of_old_client {
            return Err(Error::failed_to_parse(text));
        }
    }
    if explain && call.optional("writeConcern").is_some() {
        let text = "Aggregation explain does not support the 'writeConcern' option";
        return Err(Error::failed_to_parse(text));
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

/// Refuses a read concern that a stage at the begin or the end cannot have.
fn check_level(call: &Call<'_>, pipeline: Array<'_>) -> Result<()> {
    let Some(level) = call.generic.read_concern.level.filter(|_| call.optional("readConcern").is_some()) else {
        return Ok(());
    };
    let name = |stage: Option<ValueRef<'_>>| match stage {
        Some(ValueRef::Document(stage)) => stage.first().map_or(String::new(), |(name, _)| name.to_owned()),
        _ => String::new(),
    };
    let (first, last) = (name(pipeline.get(0)), name(pipeline.iter().last()));
    let local = matches!(&*first, "$currentOp" | "$listLocalSessions" | "$planCacheStats") && level != Level::Local;
    let writes = matches!(&*last, "$out" | "$merge") && level == Level::Linearizable;
    let stage = match (local, writes) {
        (true, _) => first,
        (_, true) => last,
        _ => return Ok(()),
    };
    let text = format!("Aggregation stage {stage} cannot run with a readConcern of level '{}'", level.name());
    Err(Error::new(Code::INVALID_OPTIONS, text))
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
            Some(("$changeStream", ValueRef::Document(options))) if options.get("showExpandedEvents").is_some() => {
                "BSON field '$changeStream.showExpandedEvents' is not allowed with apiStrict:true.".to_owned()
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

/// Stages whose documents are the server's own.
const SERVER_STAGES: &[&str] = &[
    "$collStats",
    "$currentOp",
    "$indexStats",
    "$listClusterCatalog",
    "$listLocalSessions",
    "$listSearchIndexes",
    "$listSessions",
    "$planCacheStats",
    "$querySettings",
    "$queryStats",
];

/// Documents of a first stage that reads the server; `None`: the pipeline begins with a collection.
fn server_documents(call: &mut Call<'_>, spec: &AggregateSpec<'_>) -> Result<Option<Vec<DocBuf>>> {
    let Some(ValueRef::Document(stage)) = spec.pipeline.get(0) else { return Ok(None) };
    let Some((name, options)) = stage.first() else { return Ok(None) };
    if SERVER_STAGES.contains(&name) && stage.iter().count() > 1 {
        let text = "A pipeline stage specification object must contain exactly one field.";
        return Err(Error::new(Code(40323), text));
    }
    let coll_stats = match (name, options) {
        ("$collStats", options) => Some(CollStats::parse(call.field(name).document(options)?)?),
        _ => None,
    };
    let of_series = call.database().store.buckets_of(&spec.namespace).is_some();
    if matches!(name, "$collStats" | "$indexStats") && !of_series {
        call.database().store.refuse_view(&spec.namespace)?;
    }
    let documents = match (name, spec.collectionless) {
        ("$querySettings", true) => query_settings::stage(call, options)?,
        ("$querySettings", false) => {
            query_settings::stage(call, options)?;
            let text = "$querySettings must be run against the database with {aggregate: 1}, not a collection";
            return Err(Error::new(Code::INVALID_NAMESPACE, text));
        }
        ("$currentOp", true) => {
            check_current_op(call)?;
            let idle = current_op::idle_options(call.field(name).document(options)?)?;
            let user = current_op::own_user(call, !idle.all_users);
            current_op::shown(call.server, idle, user)
        }
        ("$listLocalSessions", local) => sessions(call, call.field(name), options, local)?,
        ("$listSessions", _) => {
            let is_at_home = spec.namespace.as_str() == "config.system.sessions";
            sessions(call, call.field(name), options, is_at_home)?
        }
        ("$collStats", false) => {
            let statistics = collection_statistics(call, &spec.namespace, &coll_stats.unwrap_or_default())?;
            of_shard(call, vec![statistics], "ns")?
        }
        ("$planCacheStats", false) => of_shard(call, plans(call, &spec.namespace, options)?, "host")?,
        ("$listClusterCatalog", true) => list_collections::cluster_catalog(call, call.field(name), options)?,
        ("$listClusterCatalog", false) => {
            let text = "$listClusterCatalog must be run against the database with {aggregate: 1}, not a collection";
            return Err(Error::new(Code(9621301), text));
        }
        ("$queryStats", true) if call.db == "admin" => query_stats::stage(call, options)?,
        ("$queryStats", _) => {
            let text = "$queryStats must be run against the 'admin' database with {aggregate: 1}";
            return Err(Error::new(Code::INVALID_NAMESPACE, text));
        }
        ("$listSampledQueries", true) if call.db == "admin" => sampled_queries(call, call.field(name), options)?,
        ("$listSampledQueries", _) => {
            let text = "$listSampledQueries must be run against the 'admin' database with {aggregate: 1}";
            return Err(Error::new(Code::INVALID_NAMESPACE, text));
        }
        (name, _) if SEARCHES.contains(&name) => return Err(search_indexes::not_enabled(name)),
        ("$indexStats", false) if !matches!(options, ValueRef::Document(options) if options.is_empty()) => {
            let text = "The $indexStats stage specification must be an empty object";
            return Err(Error::from(arbor_lang::Error::location(28803, text)));
        }
        ("$indexStats", false) => of_shard(call, index_statistics(call, &spec.namespace)?, "accesses")?,
        _ => return Ok(None),
    };
    Ok(Some(documents))
}

/// `$listSampledQueries`, on a set or a router.
fn sampled_queries(call: &Call<'_>, stage: Field<'_>, options: ValueRef<'_>) -> Result<Vec<DocBuf>> {
    let mut filter = DocBuf::new();
    for (name, value) in present(stage.document(options)?) {
        let field = Field::new(stage.name, name);
        match name {
            "namespace" => {
                let namespace = Namespace::parse(field.string(value)?)?;
                filter.append("ns", namespace.as_str());
            }
            _ => return Err(field.unknown().into()),
        }
    }
    if call.server.router.is_none() {
        crate::cmd::sharding::analyze_shard_key::refuse_alone(call, "$listSampledQueries")?;
    }
    call.server.config_collections().read(SAMPLES, &filter, &call.interrupt)
}

/// Inserts the name of the shard after a field, on a server that is part of a cluster.
fn of_shard(call: &Call<'_>, documents: Vec<DocBuf>, after: &str) -> Result<Vec<DocBuf>> {
    let identity = if call.server.is_shard() { call.server.shard_identity()? } else { None };
    let Some(shard) = identity.as_ref().and_then(|identity| identity.get("shardName")) else { return Ok(documents) };
    let placed = |document: DocBuf| {
        let fields = document.as_doc().iter();
        fields.flat_map(|field| [Some(field), (field.0 == after).then_some(("shard", shard))]).flatten().collect()
    };
    Ok(documents.into_iter().map(placed).collect())
}

/// `$listSessions` and `$listLocalSessions`. Without access control all sessions are shown.
fn sessions(call: &Call<'_>, stage: Field<'_>, options: ValueRef<'_>, is_at_home: bool) -> Result<Vec<DocBuf>> {
    let (mut all, mut users) = (false, None);
    for (name, value) in present(stage.document(options)?) {
        let field = Field::new(stage.name, name);
        match name {
            "allUsers" => all = field.strict_bool(value)?,
            "users" => {
                let named: ArrayBuf = field.array(value)?.iter().filter(|user| is_present(*user)).collect();
                let digest = |doc: Doc<'_>| match (doc.get("user"), doc.get("db")) {
                    (Some(ValueRef::String("")), Some(ValueRef::String(""))) => Ok(NO_USER),
                    _ => UserName::read(ValueRef::Document(doc), call.db).map(|name| name.digest()),
                };
                let named = field.documents((&named).into())?.into_iter().map(digest);
                users = Some(named.collect::<arbor_protocol::Result<Vec<_>>>()?);
            }
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
    // without access control every session is of no user
    let owners = match users.filter(|users| !users.is_empty()) {
        Some(users) => Some(users),
        None if all || !call.server.accounts.enabled => None,
        None => Some(vec![call.server.session_user(call.connection)]),
    };
    Ok(collections::sessions(&call.server.sessions, owners.as_deref()))
}

/// The parts of `$collStats` that are requested.
#[derive(Default)]
struct CollStats {
    /// With or without histograms.
    latencies: Option<bool>,
    /// With the scale of sizes.
    storage: Option<u64>,
    count: bool,
    executions: bool,
}

impl CollStats {
    fn parse(options: Doc<'_>) -> Result<CollStats> {
        let mut parsed = CollStats::default();
        for (name, value) in present(options) {
            let field = Field::new("$collStats", name);
            match name {
                "latencyStats" => {
                    let mut histograms = false;
                    for (name, value) in present(field.document(value)?) {
                        let field = Field::new("$collStats.latencyStats", name);
                        match name {
                            "histograms" => histograms = field.bool(value)?,
                            _ => return Err(field.unknown().into()),
                        }
                    }
                    parsed.latencies = Some(histograms);
                }
                "storageStats" => {
                    let scale = field.document(value)?.get("scale").filter(|value| is_present(*value));
                    parsed.storage = Some(scale.map_or(Ok(1), |scale| coll_stats::read_scale(field, scale))?);
                }
                "count" | "queryExecStats" => {
                    if !field.document(value)?.is_empty() {
                        let text = format!("{name} argument to $collStats must be an empty object");
                        return Err(Error::new(Code(31170), text));
                    }
                    parsed.count |= name == "count";
                    parsed.executions |= name == "queryExecStats";
                }
                _ => return Err(field.unknown().into()),
            }
        }
        Ok(parsed)
    }
}

/// `$collStats`.
fn collection_statistics(call: &Call<'_>, namespace: &Namespace, parts: &CollStats) -> Result<DocBuf> {
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
    if let Some(histograms) = parts.latencies {
        let used = call.server.usages.of(namespace.as_str());
        let latencies = used.map_or_else(|| usage::no_latencies(histograms), |used| used.latencies(histograms));
        doc.append("latencyStats", &latencies);
    }
    if let Some(scale) = parts.storage {
        let shown = match &buckets {
            Some(buckets) => crate::cmd::shared::time_series::statistics(call, namespace, buckets, scale)?,
            None => coll_stats::statistics_doc(call, &statistics, true, scale),
        };
        doc.append("storageStats", &shown);
    }
    if parts.count {
        doc.append("count", fitting(statistics.documents));
    }
    if parts.executions {
        let scans = collection.as_ref().map_or(0, |own| own.usage.scans.count()) as i64;
        let scans = DocBuf::new().with("total", scans).with("nonTailable", scans);
        doc.append("queryExecStats", &DocBuf::new().with("collectionScans", &scans));
    }
    Ok(doc)
}

/// `$planCacheStats`.
fn plans(call: &Call<'_>, namespace: &Namespace, options: ValueRef<'_>) -> Result<Vec<DocBuf>> {
    let ValueRef::Document(options) = options else {
        return Err(Error::failed_to_parse("$planCacheStats value must be an object"));
    };
    let mut all_hosts = None;
    for (name, value) in options {
        match (name, value) {
            ("allHosts", ValueRef::Bool(value)) if all_hosts.is_none() => all_hosts = Some(value),
            ("allHosts", ValueRef::Bool(_)) => {
                return Err(Error::failed_to_parse("$planCacheStats: allHosts is given more than once"));
            }
            ("allHosts", _) => {
                return Err(Error::failed_to_parse("allHosts option of $planCacheStats must be a bool"));
            }
            _ => {
                return Err(Error::failed_to_parse(format!(
                    "$planCacheStats parameters object may contain only 'allHosts', found: {name}"
                )));
            }
        }
    }
    if all_hosts == Some(true) {
        let text = "$planCacheStats stage supports allHosts parameter only for sharded clusters";
        return Err(Error::new(Code(4503200), text));
    }
    let store = &call.database().store;
    if store.buckets_of(namespace).is_some() {
        return Err(Error::new(Code(40602), "$planCacheStats is only valid as the first stage in a pipeline"));
    }
    let of_view = store.view(namespace);
    if of_view.is_none() && store.collection(namespace).is_none() {
        let text = format!("collection '{namespace}' does not exist");
        return Err(Error::new(Code(50933), text));
    }
    let read = of_view.as_ref().map_or(namespace, |view| &view.view_on);
    Ok(index_filters::plans(call, read))
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
