//! Time series over several shards. Sharded is the collection of their buckets, by a key over buckets; each shard with a part of it has
//! the view of the measurements, too.
//!
//! Reads are pipelines over the buckets, as those of views that the router resolves. Other requests are sent as ones on the
//! buckets, by whose version the shard lets them in, with the note that they are on the measurements.

use std::sync::Arc;

use arbor_bson::{Array, ArrayBuf, Code, Doc, DocBuf, ValueRef};
use arbor_command::{Answer, Error, Result, Routed};
use arbor_lang::time_series::{TimeSeriesOptions, Unpack};

use crate::catalog::Routing;
use crate::definitions::first_batch;
use crate::shard::Shard;
use crate::table::Table;
use crate::{Request, fields};

/// Before the name of a time series in that of its buckets.
pub(crate) const BUCKETS: &str = "system.buckets.";
/// Notes that a request on buckets is one on measurements.
pub(crate) const OF_TIME_SERIES: &str = "isTimeseriesNamespace";
/// The filter of the buckets that such a request may change.
pub(crate) const ONLY_BUCKETS: &str = "_buckets";

/// Commands of the cluster on a collection, which mean its buckets.
const OF_CLUSTER: &[&str] = &[
    "balancerCollectionStatus",
    "clearJumboFlag",
    "configureCollectionBalancing",
    "getShardVersion",
    "mergeAllChunksOnShard",
    "mergeChunks",
    "moveChunk",
    "moveRange",
    "setAllowMigrations",
    "split",
    "updateZoneKeyRange",
];
/// Commands that would part the buckets from their view.
const REFUSED: &[&str] = &["moveCollection", "refineCollectionShardKey", "reshardCollection", "unshardCollection"];

/// Returns true if a pipeline reads measurements out of buckets.
pub(crate) fn unpacks(stages: Array<'_>) -> bool {
    crate::pipeline::stage_of(stages.get(0)).is_some_and(|(name, _)| name == Unpack::NAME)
}

impl<'r> Request<'r> {
    /// Returns the table of the buckets of the request's collection, if it is a time series on chosen shards.
    pub(crate) fn buckets(&self) -> Result<Option<Arc<Table>>> {
        match self.body().first() {
            Some((_, ValueRef::String(name))) => self.catalog().buckets(self.routed.db, name, self.interrupt()),
            _ => Ok(None),
        }
    }

    /// Like [`Request::buckets`] for any name, as the config servers have it now.
    pub(crate) fn newest_buckets(&self, db: &str, name: &str) -> Result<Option<Arc<Table>>> {
        if name.is_empty() || name.starts_with("system.") {
            return Ok(None);
        }
        let table = self.catalog().newest_table(&format!("{db}.{BUCKETS}{name}"), self.interrupt())?;
        Ok(table.filter(|table| table.time_series.is_some()))
    }

    /// Errors: the request is one on buckets, which are not on chosen shards any more. It begins again, as one on the name.
    pub(crate) fn check_series(&self, routing: &Routing) -> Result<()> {
        if !self.is_of_time_series() || matches!(routing, Routing::Sharded(..)) {
            return Ok(());
        }
        let text = "the time series was dropped meanwhile";
        Err(Error::new(Code::COMMAND_ON_SHARDED_VIEW_NOT_SUPPORTED_ON_MONGOD, text))
    }

    pub(crate) fn is_of_time_series(&self) -> bool {
        self.body().get(OF_TIME_SERIES).is_some()
    }

    pub(crate) fn with_body<T>(&self, body: &DocBuf, work: impl FnOnce(&Request<'_>) -> Result<T>) -> Result<T> {
        let routed = Routed { body: body.as_doc(), ..*self.routed };
        work(&Request { routed: &routed, ..*self })
    }

    /// Runs `work` for the request as one on the buckets.
    pub(crate) fn on_buckets<T>(&self, work: impl FnOnce(&Request<'_>) -> Result<T>) -> Result<T> {
        let body = renamed(self.body(), |name| format!("{BUCKETS}{name}")).with(OF_TIME_SERIES, true);
        self.with_body(&body, work)
    }

    /// Like `work` for the request, where a statement has run on some buckets already.
    pub(crate) fn on_other_buckets<T>(
        &self,
        others: Option<&DocBuf>,
        work: impl FnOnce(&Request<'_>) -> Result<T>,
    ) -> Result<T> {
        match others {
            Some(others) => self.with_body(&self.body().to_buf().with(ONLY_BUCKETS, others), work),
            None => work(self),
        }
    }

    /// Processes a request on a time series on chosen shards. None: it is processed as one on any name, as reads and writes are.
    pub(crate) fn on_time_series(&self, name: &str, table: &Arc<Table>) -> Result<Option<Answer>> {
        let first_stage = || match fields::array(self.body(), "pipeline") {
            Some(stages) => crate::pipeline::stage_of(stages.get(0)).map_or("", |(name, _)| name).to_owned(),
            None => String::new(),
        };
        Ok(Some(match name {
            "aggregate" if matches!(first_stage().as_str(), "$collStats" | "$indexStats") => {
                self.on_buckets(|request| request.aggregate())?
            }
            "collMod" | "createIndexes" => self.change_series(table)?,
            "deleteIndexes" | "dropIndexes" => self.drop_series_indexes(table)?,
            "drop" => {
                self.drop_everywhere(&table.namespace)?;
                let namespace = self.namespace()?;
                Answer::Reply(DocBuf::new().with("ns", namespace.as_str()).with("nIndexesWas", 1i32))
            }
            "create" | "findAndModify" | "findandmodify" | "cloneCollectionAsCapped" | "convertToCapped" => self
                .on_buckets(|request| {
                    let one = table.shards().next().unwrap_or_default();
                    let one = self.catalog().shard(one, self.interrupt())?;
                    let namespace = request.namespace()?;
                    request.with_routing(self.routed.db, &namespace, false, |routing| {
                        Ok(Answer::Reply(request.forward_to(routing, &one)?))
                    })
                })?,
            "collStats" | "collstats" => self.series_statistics()?,
            "compact" | "listIndexes" | "reIndex" | "validate" => self.on_buckets(|request| request.forward(false))?,
            _ => return Ok(None),
        }))
    }

    /// `collMod` and `createIndexes`.
    fn change_series(&self, table: &Arc<Table>) -> Result<Answer> {
        let changes_windows = self.body().get("timeseries").is_some();
        let series = table.time_series.as_ref();
        let has_time = |options: &TimeSeriesOptions| {
            let time = format!("control.min.{}", options.time_field);
            table.key.as_doc().iter().any(|(path, _)| path == time)
        };
        if changes_windows && series.is_some_and(has_time) {
            // routers know the key of a measurement by the windows of before
            let text = "the bucket parameters of a time series whose shard key has its timeField cannot be changed";
            return Err(Error::new(Code::INVALID_OPTIONS, text));
        }
        let replies = self.on_buckets(|request| request.change_definition(&table.namespace, request.plain()))?;
        if changes_windows {
            self.note_series(table)?;
        }
        let first = replies.first().map_or_else(DocBuf::new, |(_, reply)| fields::passed(reply));
        Ok(Answer::Reply(match self.routed.info.name {
            "collMod" => first,
            _ => DocBuf::new().with("raw", &crate::ddl::raw(&replies)),
        }))
    }

    /// Notes on the config servers what the options of a time series are now.
    fn note_series(&self, table: &Table) -> Result<()> {
        let (db, _) = table.namespace.split_once('.').unwrap_or_default();
        let guard = self.completed(self.lock_patiently(&table.namespace)?)?;
        let one = self.catalog().shard(table.shards().next().unwrap_or_default(), self.interrupt())?;
        let Some(options) = self.series_on(&one, db, table.series())? else { return Ok(()) };
        let set = DocBuf::new().with("$set", &DocBuf::new().with("timeseriesFields", &options.to_doc()));
        self.change_collection(&table.namespace, &guard, &set)?;
        self.forget(&table.namespace);
        Ok(())
    }

    /// Returns the options of a time series. Errors: the name is a collection or a view. None: there is none of the name.
    fn series_on(&self, shard: &Shard, db: &str, name: &str) -> Result<Option<TimeSeriesOptions>> {
        let filter = DocBuf::new().with("name", name);
        let list = DocBuf::new().with("listCollections", 1i32).with("filter", &filter);
        let listed = shard.call(db, &list, self.interrupt())?;
        let Some(existing) = first_batch(listed.as_doc())?.into_iter().next() else { return Ok(None) };
        let options = fields::document(existing, "options").and_then(|options| fields::document(options, "timeseries"));
        match options.filter(|_| fields::string(existing, "type") == Some("timeseries")) {
            Some(options) => Ok(Some(TimeSeriesOptions::parse(options)?)),
            None => {
                let text = format!("{db}.{name} is not a time series");
                Err(Error::new(Code::INVALID_OPTIONS, text))
            }
        }
    }

    fn drop_series_indexes(&self, table: &Arc<Table>) -> Result<Answer> {
        let mut body = renamed(self.body(), |name| format!("{BUCKETS}{name}"));
        let series = table.time_series.as_ref().map(Unpack::of);
        if let (Some(key), Some(series)) = (fields::document(self.body(), "index"), series) {
            let key = series.bucket_key(key).unwrap_or_else(|| key.to_buf());
            body = fields::without(body.as_doc(), &["index"]).with("index", &key);
        }
        self.with_body(&body, |request| request.on_shards_of(false))
    }

    fn series_statistics(&self) -> Result<Answer> {
        let Answer::Reply(reply) = self.on_buckets(|request| request.forward(false))? else {
            return Err(Error::new(Code::INTERNAL_ERROR, "statistics are one document"));
        };
        let of_shards = fields::document(reply.as_doc(), "shards").unwrap_or(Doc::empty());
        let parts = || {
            of_shards.iter().filter_map(|(_, own)| match own {
                ValueRef::Document(own) => fields::document(own, "timeseries"),
                _ => None,
            })
        };
        if parts().next().is_none() {
            return Ok(Answer::Reply(reply));
        }
        let count: i64 = parts().map(|own| fields::int(own, "bucketCount")).sum();
        let bytes: i64 = parts().map(|own| fields::int(own, "bucketCount") * fields::int(own, "avgBucketSize")).sum();
        let name = self.collection()?;
        let section = DocBuf::new()
            .with("bucketsNs", format!("{}.{BUCKETS}{name}", self.routed.db).as_str())
            .with("bucketCount", count)
            .with("avgBucketSize", if count > 0 { bytes / count } else { 0 });
        let namespace = self.namespace()?;
        let shown = |(field, value)| (field, if field == "ns" { ValueRef::String(&namespace) } else { value });
        let others: DocBuf = reply.as_doc().iter().filter(|(name, _)| *name != "count").map(shown).collect();
        Ok(Answer::Reply(others.with("timeseries", &section)))
    }

    /// Explains a read of measurements: each shard does it on its part.
    pub(crate) fn explain_series(&self, table: &Table, inner: Doc<'_>, filter: Doc<'_>) -> Result<Answer> {
        let context = self.context(fields::document(inner, "collation"));
        let shards = self.shards_named(&table.shards_for_measurements(filter, &context).0)?;
        let commands = shards.iter().map(|shard| (shard.clone(), self.plain())).collect();
        let replies = self.on_all(self.routed.db, commands)?;
        let shown = replies.iter().fold(DocBuf::new(), |all, (shard, reply)| {
            all.with(&shard.name, &fields::without(reply.as_doc(), &["ok", "$clusterTime", "operationTime"]))
        });
        let merge = if replies.len() > 1 { "router" } else { "none" };
        Ok(Answer::Reply(DocBuf::new().with("mergeType", merge).with("shards", &shown).with("command", inner)))
    }

    /// Runs a command of the cluster on a time series as one on its buckets. None: it is about another collection.
    pub(crate) fn administer_buckets(&self, command: &str) -> Result<Option<DocBuf>> {
        let (is_run, is_refused) = (OF_CLUSTER.contains(&command), REFUSED.contains(&command));
        let Some((_, ValueRef::String(namespace))) = self.body().first().filter(|_| is_run || is_refused) else {
            return Ok(None);
        };
        let Some((db, name)) = namespace.split_once('.') else { return Ok(None) };
        let table = self.newest_buckets(db, name)?;
        if is_refused && (table.is_some() || name.starts_with(BUCKETS)) {
            return Err(Error::new(Code::NOT_IMPLEMENTED, format!("{command} of a sharded time series")));
        }
        let Some(table) = table else { return Ok(None) };
        let series = table.time_series.as_ref();
        let bound = |bound: Doc<'_>| -> DocBuf {
            bound
                .iter()
                .map(|(path, value)| (series.map_or(path.to_owned(), |own| path_of(own, path)), value))
                .collect()
        };
        let body = self.body().iter().skip(1).fold(
            DocBuf::new().with(command, table.namespace.as_str()),
            |body, (name, value)| match (name, value) {
                ("find" | "max" | "middle" | "min", ValueRef::Document(own)) => body.with(name, &bound(own)),
                ("bounds", ValueRef::Array(own)) => {
                    let translated = own.iter().filter_map(|value| match value {
                        ValueRef::Document(own) => Some(bound(own)),
                        _ => None,
                    });
                    body.with(name, &translated.collect::<Vec<DocBuf>>().iter().collect::<ArrayBuf>())
                }
                _ => body.with(name, value),
            },
        );
        self.with_body(&body, |request| request.administer(command))
    }

    /// Returns the options of the time series that a collection is, or that `timeseries` of `shardCollection` makes it; and the shard key
    /// over its buckets. None: it is none.
    pub(crate) fn series_to_shard(
        &self,
        (db, name): (&str, &str),
        key: &DocBuf,
        primary: &Shard,
    ) -> Result<Option<(TimeSeriesOptions, DocBuf)>> {
        let given = fields::document(self.body(), "timeseries");
        let existing = match self.series_on(primary, db, name) {
            Err(error) if error.code == Code::INVALID_OPTIONS && given.is_none() => return Ok(None),
            existing => existing?,
        };
        let asked = given.map(TimeSeriesOptions::parse).transpose()?;
        if asked.is_some() && existing.is_some() && asked != existing {
            return Err(Error::new(Code::INVALID_OPTIONS, format!("{db}.{name} is a time series with other options")));
        }
        let must_create = existing.is_none();
        let Some(options) = existing.or(asked) else { return Ok(None) };
        if fields::is_true(self.body(), "unique") {
            return Err(Error::new(Code::INVALID_OPTIONS, "the shard key of a time series cannot be unique"));
        }
        let key = key_of_buckets(&options, key)?;
        if let (true, Some(given)) = (must_create, given) {
            let create = DocBuf::new().with("create", name).with("timeseries", given);
            primary.call(db, &create, self.interrupt())?;
        }
        Ok(Some((options, key)))
    }
}

/// Returns a shard key over measurements as one over buckets. Errors: it has other fields than the metaField, fields in it, and the timeField
/// ascending at its end.
pub(crate) fn key_of_buckets(options: &TimeSeriesOptions, key: &DocBuf) -> Result<DocBuf> {
    let unpack = Unpack::of(options);
    let refused = |text: String| Err(Error::new(Code::INVALID_OPTIONS, text));
    let count = key.as_doc().iter().count();
    for (at, (path, direction)) in key.as_doc().iter().enumerate() {
        if path == options.time_field {
            if at + 1 < count {
                return refused(format!("the timeField '{path}' can only be at the end of the shard key pattern"));
            }
            if fields::number_of(direction) != Some(1.0) {
                return refused(format!("the timeField '{path}' must be ascending in the shard key pattern"));
            }
        } else if unpack.meta_path(path).is_none() {
            return refused(format!("only the metaField and the timeField can be in the shard key, not '{path}'"));
        }
    }
    Ok(key.as_doc().iter().map(|(path, direction)| (path_of(options, path), direction)).collect())
}

/// Returns the path in buckets for one in measurements; one that is none of the shard key stays.
fn path_of(options: &TimeSeriesOptions, path: &str) -> String {
    match Unpack::of(options).meta_path(path) {
        Some(path) => path,
        None if path == options.time_field => format!("control.min.{path}"),
        None => path.to_owned(),
    }
}

/// Returns what the bucket of a measurement has in the fields of a shard key.
pub(crate) fn bucket_of(options: &TimeSeriesOptions, measurement: Doc<'_>) -> DocBuf {
    let mut bucket = DocBuf::new();
    if let Some(meta) = options.meta_field.as_deref().and_then(|field| measurement.get(field)) {
        bucket.append("meta", meta);
    }
    if let Some(ValueRef::DateTime(time)) = measurement.get(&options.time_field) {
        let window = ValueRef::DateTime(options.window_of(time).saturating_mul(1000));
        let min = DocBuf::new().with(&options.time_field, window);
        bucket.append("control", &DocBuf::new().with("min", &min));
    }
    bucket
}

fn renamed(body: Doc<'_>, name: impl FnOnce(&str) -> String) -> DocBuf {
    let begin = match body.first() {
        Some((command, ValueRef::String(own))) => DocBuf::new().with(command, name(own).as_str()),
        _ => DocBuf::new(),
    };
    body.iter().skip(1).fold(begin, |all, (name, value)| all.with(name, value))
}
