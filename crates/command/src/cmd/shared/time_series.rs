//! Time series in commands: their options, indexes and statistics, which are those of their buckets.

use std::sync::Arc;

use arbor_bson::{ArrayBuf, Code, Doc, DocBuf, ValueRef};
use arbor_lang::Collation;
use arbor_lang::time_series::{TimeSeriesOptions, Unpack, of_buckets, of_measurements};
use arbor_store::{Collection, IndexSelection, Namespace, ORIGINAL_SPEC};

use crate::call::Call;
use crate::cmd::diagnostics::coll_stats;
use crate::cmd::shared::{clustered, coll_mod_index};
use crate::{Error, Result};

fn invalid(text: impl Into<String>) -> Error {
    Error::new(Code::INVALID_OPTIONS, text)
}

fn options_of(buckets: &Collection) -> Result<TimeSeriesOptions> {
    Ok(TimeSeriesOptions::parse(buckets.time_series().unwrap_or(Doc::empty()))?)
}

fn stages(options: &TimeSeriesOptions) -> ArrayBuf {
    [&Unpack::of(options).to_doc()].into_iter().collect()
}

// ---- create, collMod

pub(crate) fn create(call: &mut Call<'_>, namespace: &Namespace, given: Doc<'_>) -> Result<()> {
    let time_series = TimeSeriesOptions::parse(given)?;
    let mut options = DocBuf::new();
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        match name {
            "timeseries" | "writeConcern" => {}
            "expireAfterSeconds" => drop(options.append(name, clustered::seconds(field, value)?)),
            "storageEngine" | "indexOptionDefaults" => drop(options.append(name, field.document(value)?)),
            "compression" | "pageSize" | "readPageSize" | "fanout" => drop(options.append(name, value)),
            "collation" => {
                if let Some(own) =
                    crate::cmd::shared::cursor_reply::collation(field, value)?.filter(|own| !own.is_simple())
                {
                    options.append(name, &own.to_doc());
                }
            }
            "capped" | "autoIndexId" | "temp" if !field.bool(value)? => {}
            "capped"
            | "size"
            | "max"
            | "viewOn"
            | "pipeline"
            | "clusteredIndex"
            | "validator"
            | "validationLevel"
            | "validationAction"
            | "idIndex"
            | "autoIndexId"
            | "temp"
            | "encryptedFields"
            | "changeStreamPreAndPostImages"
            | "flags" => {
                return Err(invalid(format!("'{name}' is not allowed with 'timeseries'")));
            }
            _ => return Err(field.unknown().into()),
        }
    }
    let options = arbor_query::bucket_options(&time_series, options);
    arbor_query::create_time_series(&call.database().store, namespace, &time_series, &options)?;
    Ok(())
}

pub(crate) fn coll_mod(call: &mut Call<'_>, namespace: &Namespace, buckets: &Collection) -> Result<()> {
    let mut options: DocBuf = buckets.options.clone();
    let mut time_series = options_of(buckets)?;
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        let others = |options: &DocBuf| -> DocBuf { options.as_doc().iter().filter(|(own, _)| *own != name).collect() };
        match name {
            "timeseries" => {
                time_series = time_series.changed(field.document(value)?)?;
                options = others(&options).with(name, &time_series.to_doc());
            }
            "expireAfterSeconds" => {
                options = others(&options);
                match value {
                    ValueRef::String("off") => {}
                    ValueRef::String(_) => return Err(invalid("expireAfterSeconds must be a number or 'off'")),
                    value => {
                        let seconds = clustered::seconds(field, value)?;
                        if seconds > arbor_protocol::log::now_ms() / 1000 {
                            return Err(invalid("expireAfterSeconds must not go back beyond 1970"));
                        }
                        options.append(name, seconds);
                    }
                }
            }
            "index" => coll_mod_index::run(call, &buckets.namespace, field.document(value)?, false)?,
            "writeConcern" => {}
            "validator"
            | "validationLevel"
            | "validationAction"
            | "viewOn"
            | "pipeline"
            | "cappedSize"
            | "cappedMax"
            | "changeStreamPreAndPostImages"
            | "dryRun"
            | "storageEngine" => {
                return Err(invalid(format!("option not supported on a time-series collection: {name}")));
            }
            _ => return Err(field.unknown().into()),
        }
    }
    if options.as_bytes() != buckets.options.as_bytes() {
        call.database().store.change_time_series(namespace, &options, stages(&time_series))?;
    }
    Ok(())
}

// ---- listings

/// An entry of `listCollections`.
pub(crate) fn describe(namespace: &Namespace, buckets: &Collection, name_only: bool) -> DocBuf {
    let entry = DocBuf::new().with("name", namespace.collection()).with("type", "timeseries");
    if name_only {
        return entry;
    }
    let shown = buckets.options.as_doc().iter().filter(|(name, _)| *name != "clusteredIndex");
    entry.with("options", &shown.collect::<DocBuf>()).with("info", &DocBuf::new().with("readOnly", false))
}

/// Returns the specifications for `listIndexes`. None: the namespace is not a time series.
pub(crate) fn index_specs(call: &Call<'_>, namespace: &Namespace) -> Result<Option<Vec<DocBuf>>> {
    let Some(buckets) = call.database().store.buckets_of(namespace) else { return Ok(None) };
    let options = options_of(&buckets)?;
    let shown = |spec: &DocBuf| -> Option<DocBuf> {
        let ValueRef::Document(key) = spec.get("key")? else { return None };
        let key = of_measurements(key, &options)?;
        let original = match spec.get(ORIGINAL_SPEC) {
            Some(ValueRef::Document(original)) => original.get(PARTIAL),
            _ => None,
        };
        let with_key = |(name, value)| match name {
            "key" => Some((name, ValueRef::from(&key))),
            PARTIAL => None,
            ORIGINAL_SPEC => original.map(|filter| (PARTIAL, filter)),
            _ => Some((name, value)),
        };
        Some(spec.as_doc().iter().filter_map(with_key).collect())
    };
    Ok(Some(buckets.indexes.iter().filter_map(|index| shown(&index.spec.doc)).collect()))
}

// ---- indexes

const PARTIAL: &str = "partialFilterExpression";

/// Options that an index on measurements may not have.
const REFUSED: &[(&str, &str)] =
    &[("unique", "Unique"), ("prepareUnique", "Unique"), ("sparse", "Sparse"), ("wildcardProjection", "Wildcard")];

/// The collection of buckets and the specifications as they are there. None: it is no time series.
pub(crate) fn specs_of_buckets(
    call: &Call<'_>,
    namespace: &Namespace,
    specs: &[DocBuf],
) -> Result<Option<(Namespace, Vec<DocBuf>)>> {
    let Some(buckets) = call.database().store.buckets_of(namespace) else { return Ok(None) };
    let options = options_of(&buckets)?;
    let specs = specs.iter().map(|spec| spec_of_buckets(spec, &options, &buckets.collation)).collect::<Result<_>>()?;
    Ok(Some((buckets.namespace.clone(), specs)))
}

fn spec_of_buckets(spec: &DocBuf, options: &TimeSeriesOptions, collation: &Collation) -> Result<DocBuf> {
    let given = |name: &str| !matches!(spec.get(name), None | Some(ValueRef::Bool(false)));
    if let Some((_, what)) = REFUSED.iter().find(|(name, _)| given(name)) {
        return Err(invalid(format!("{what} indexes are not supported on time-series collections")));
    }
    // the store has the words for what is no key
    let Some(ValueRef::Document(key)) = spec.get("key") else { return Ok(spec.clone()) };
    let cannot = |text: &str| Error::new(Code::CANNOT_CREATE_INDEX, text);
    let wrong = || cannot("this key is not supported by indexes on time-series collections");
    if key.iter().any(|(path, _)| path == "_id" || path.contains('$')) {
        return Err(wrong());
    }
    let own = of_buckets(key, options).ok_or_else(wrong)?;
    let part = |(path, value): (&str, ValueRef<'_>)| format!("{path}_{value}").replace('"', "");
    let name = key.iter().map(part).collect::<Vec<_>>().join("_");
    let partial = match spec.get(PARTIAL) {
        Some(ValueRef::Document(filter)) => Some(filter),
        _ => None,
    };
    if given("expireAfterSeconds") {
        let of_time = key.iter().map(|(path, _)| path).eq([options.time_field.as_str()]);
        let of_meta = partial.map(|filter| arbor_query::is_about_meta(options, filter, collation)).transpose()?;
        if !of_time || of_meta != Some(true) {
            return Err(invalid("TTL indexes are not supported on time-series collections"));
        }
    }
    let mut changed = DocBuf::new().with("key", &own);
    for (name, value) in spec.as_doc().iter().filter(|(name, _)| !matches!(*name, "key" | ORIGINAL_SPEC)) {
        match partial.filter(|_| name == PARTIAL) {
            Some(filter) => {
                let of_buckets = arbor_query::bucket_filter(options, filter, collation)?;
                if !of_buckets.as_doc().is_empty() {
                    changed.append(name, &of_buckets);
                }
                changed.append(ORIGINAL_SPEC, spec);
            }
            None => drop(changed.append(name, value)),
        }
    }
    if spec.get("name").is_none() {
        changed.append("name", &name);
    }
    Ok(changed)
}

/// Maps an index that `dropIndexes` drops from a time series to the index of its buckets.
pub(crate) fn dropped(
    call: &Call<'_>,
    namespace: Namespace,
    which: IndexSelection,
) -> Result<(Namespace, IndexSelection)> {
    let Some(buckets) = call.database().store.buckets_of(&namespace) else { return Ok((namespace, which)) };
    let which = match which {
        IndexSelection::Key(key) => {
            let own = of_buckets(key.as_doc(), &options_of(&buckets)?);
            IndexSelection::Key(own.unwrap_or(key))
        }
        which => which,
    };
    Ok((buckets.namespace.clone(), which))
}

// ---- statistics

/// Returns the `collStats` document: the statistics of the buckets, without a count of measurements.
pub(crate) fn statistics(
    call: &Call<'_>,
    namespace: &Namespace,
    buckets: &Arc<Collection>,
    scale: u64,
) -> Result<DocBuf> {
    let statistics = coll_stats::Statistics::of(call, buckets)?;
    let count = statistics.documents;
    let average = statistics.data_bytes.checked_div(count).unwrap_or(0);
    let section = DocBuf::new()
        .with("bucketsNs", buckets.namespace.as_str())
        .with("bucketCount", count as i64)
        .with("avgBucketSize", average as i64);
    let mut doc = DocBuf::new().with("ns", namespace.as_str());
    let all = coll_stats::statistics_doc(call, &statistics, true, scale);
    for (name, value) in all.as_doc().iter().filter(|(name, _)| !matches!(*name, "count" | "avgObjSize" | "clustered"))
    {
        doc.append(name, value);
    }
    Ok(doc.with("timeseries", &section))
}
