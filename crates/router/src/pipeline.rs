//! Pipelines over several shards: what the shards run, and what the router runs over their rows.

use std::sync::Arc;

use arbor_bson::{Array, ArrayBuf, Code, Doc, DocBuf, ValueRef};
use arbor_command::{Answer, Error, Result, RoutedCursor};
use arbor_lang::Context;
use arbor_query::Scope;

use crate::catalog::{Routing, version_entry};
use crate::rows::Merge;
use crate::shard::Shard;
use crate::table::Table;
use crate::time_series::unpacks;
use crate::{Request, fields};

/// Stages that a shard can run on its documents alone.
const OF_SHARDS: &[&str] = &[
    "$_internalUnpackBucket",
    "$match",
    "$project",
    "$addFields",
    "$set",
    "$unset",
    "$unwind",
    "$redact",
    "$replaceRoot",
    "$replaceWith",
];

/// Stages about what each shard has.
const ABOUT_COLLECTIONS: &[&str] = &["$collStats", "$indexStats", "$planCacheStats"];

/// Accumulators whose results can be combined by themselves or, for `$count`, by a sum.
const COMBINABLE: &[&str] = &["$sum", "$min", "$max", "$count"];

/// A pipeline over a collection of the request's database.
#[derive(Clone, Default)]
pub(crate) struct RoutedPipeline {
    pub collection: String,
    pub stages: ArrayBuf,
    /// That of the view through which it reads. None: that of the request.
    pub collation: Option<DocBuf>,
    pub batch_size: Option<i64>,
    pub single_batch: bool,
    pub no_timeout: bool,
    /// It is not the one of the request, but of a view or of another statement.
    pub rewritten: bool,
}

enum Opened {
    /// A shard has done all of it.
    Reply(DocBuf),
    Cursor(arbor_query::Cursor),
}

impl Request<'_> {
    pub(crate) fn aggregate(&self) -> Result<Answer> {
        let body = self.body();
        let stages = fields::array(body, "pipeline").unwrap_or(Array::empty());
        let first = stage_of(stages.get(0)).map_or("", |(name, _)| name);
        let cursor_options = fields::document(body, "cursor").unwrap_or(Doc::empty());
        let batch_size = cursor_options.get("batchSize").map(|_| fields::int(cursor_options, "batchSize"));
        if first == "$changeStream" && !fields::is_true(body, "explain") {
            return self.change_stream(stages, batch_size);
        }
        if self.collection()?.is_empty() {
            return match first {
                "$shardedDataDistribution" => self.data_distribution(stages),
                "$currentOp" => self.current_op_stage(stages),
                "$listClusterCatalog" => self.cluster_catalog(stages),
                "$listLocalSessions" | "$listSampledQueries" | "$listSessions" => Ok(Answer::Local),
                _ => self.forward(false),
            };
        }
        let is_sharded = || {
            Ok::<_, Error>(
                self.catalog().table(&self.namespace()?, self.interrupt())?.is_some() || self.buckets()?.is_some(),
            )
        };
        if fields::is_true(body, "explain") && is_sharded()? {
            let mut shown = DocBuf::new();
            let names = ["aggregate", "pipeline", "cursor", "collation", "hint", "let", "allowDiskUse"];
            fields::copy(body, &names, &mut shown);
            return self.explain_command("aggregate", self.collection()?, shown.as_doc());
        }
        let (collection, stages) = (self.collection()?.to_owned(), stages.to_buf());
        self.pipeline(&RoutedPipeline { collection, stages, batch_size, ..RoutedPipeline::default() })
    }

    /// Runs a pipeline, on the shards as far as each of them can do it alone.
    pub(crate) fn pipeline(&self, over: &RoutedPipeline) -> Result<Answer> {
        if let Some(view) = self.catalog().view_to_resolve(self.routed.db, &over.collection, self.interrupt())? {
            if fields::is_true(self.body(), "explain") {
                return Err(explain_here());
            }
            let stages = view.stages.as_array().iter().chain(over.stages.as_array().iter()).collect();
            return self.pipeline(&RoutedPipeline {
                collation: Some(self.collation_of_view(&over.collection, &view)?),
                collection: view.on,
                stages,
                rewritten: true,
                ..over.clone()
            });
        }
        let namespace = format!("{}.{}", self.routed.db, over.collection);
        let (stages, sink) = without_sink(over.stages.as_array());
        let opened = self.with_routing(self.routed.db, &namespace, false, |routing| {
            self.open_pipeline(over, routing, stages.as_array(), sink)
        })?;
        let shown = self.namespace()?;
        match (opened, sink) {
            (Opened::Reply(reply), _) => Ok(Answer::Reply(reply)),
            (Opened::Cursor(cursor), None) => Ok(Answer::Cursor(RoutedCursor {
                cursor: Box::new(cursor),
                batch_size: over.batch_size.and_then(|size| u64::try_from(size).ok()),
                single_batch: over.single_batch,
                no_timeout: over.no_timeout,
                time: None,
                extra: None,
            })),
            (Opened::Cursor(cursor), Some(stage)) => {
                self.write_into(cursor, stage)?;
                let none = ArrayBuf::new();
                let cursor = DocBuf::new().with("firstBatch", &none).with("id", 0i64).with("ns", shown.as_str());
                Ok(Answer::Reply(DocBuf::new().with("cursor", &cursor)))
            }
        }
    }

    /// Refuses a pipeline that could not run as a whole.
    pub(crate) fn check_stages(&self, namespace: &str, stages: Array<'_>, collation: Option<Doc<'_>>) -> Result<()> {
        if stage_of(stages.get(0)).is_some_and(|(name, _)| ABOUT_COLLECTIONS.contains(&name)) {
            return Ok(());
        }
        let scope = Scope::of(&self.server.database);
        let spec = self.spec(namespace, stages, collation)?;
        Ok(arbor_query::check_pipeline(&scope, &spec, Some(self.elsewhere(collation)))?)
    }

    fn open_pipeline(
        &self,
        over: &RoutedPipeline,
        routing: &Routing,
        stages: Array<'_>,
        sink: Option<ValueRef<'_>>,
    ) -> Result<Opened> {
        let body = self.body();
        let of_view = over.collation.as_ref().map(DocBuf::as_doc);
        let collation = routing.collation(of_view.or(fields::document(body, "collation")));
        let all = over.stages.as_array();
        let used = others(self.routed.db, all);
        let shards = match routing {
            Routing::Config(shard) | Routing::Unsharded(shard, _) => vec![shard.clone()],
            Routing::Sharded(table, _) => {
                self.shards_named(&shards_of_pipeline(table, all, &self.context(collation)))?
            }
        };
        // a sink without a target is refused by any shard
        let is_alone = match routing {
            Routing::Config(_) => true,
            Routing::Unsharded(..) => self.are_all_on_one(&used)?,
            Routing::Sharded(..) => used.is_empty(),
        };
        if let ([only], true, false) = (shards.as_slice(), is_alone, over.rewritten) {
            let written = used.last().filter(|_| sink.is_some());
            return self.forward_with_target(routing, only, written).map(Opened::Reply);
        }
        if fields::is_true(body, "explain") {
            return Err(explain_here());
        }
        let collection = format!("{}.{}", self.routed.db, over.collection);
        self.check_stages(&collection, all, collation)?;
        let (mut of_shards, of_router) = split(stages);
        if let Some(stage) = arbor_query::metadata_stage(stages.get(0), of_router.as_array()) {
            of_shards.push(&stage);
        }
        let mut command = DocBuf::new().with("aggregate", over.collection.as_str()).with("pipeline", &of_shards);
        let own: &[&str] = match over.rewritten {
            // another statement
            true => &[
                "let",
                "readConcern",
                "maxTimeMS",
                "allowDiskUse",
                "comment",
                "lsid",
                "$audit",
                "txnNumber",
                "autocommit",
            ],
            false => &[],
        };
        command.append("cursor", fields::document(body, "cursor").unwrap_or(Doc::empty()));
        if let Some(collation) = collation.filter(|_| over.rewritten) {
            command.append("collation", collation);
        }
        let plain = self.plain();
        plain.as_doc().iter().skip(1).for_each(|(name, value)| {
            let is_taken = match over.rewritten {
                true => own.contains(&name),
                false => !["pipeline", "cursor"].contains(&name),
            };
            if is_taken && !(sink.is_some() && matches!(name, "writeConcern" | "bypassDocumentValidation")) {
                command.append(name, value);
            }
        });
        let streams = self.open(routing, &shards, &command, over.batch_size)?;
        let merge = Merge::new(streams, None, 0, None);
        self.merged(&self.namespace()?, merge, &of_router, collation).map(Opened::Cursor)
    }

    /// Runs a pipeline on one shard, which also checks the version of the collection that the last stage writes.
    fn forward_with_target(
        &self,
        routing: &Routing,
        shard: &Arc<Shard>,
        written: Option<&(String, String)>,
    ) -> Result<DocBuf> {
        let Some((db, collection)) = written else { return self.forward_to(routing, shard) };
        let namespace = format!("{db}.{collection}");
        let target = self.routing(db, &namespace, false)?;
        let versions: ArrayBuf = version_entry(&namespace, &target).iter().collect();
        let body = fields::without(self.body(), &["shardVersions"]).with("shardVersions", &versions);
        self.with_body(&body, |request| request.forward_to(routing, shard))
    }

    /// Returns true if the shard of this database has all these collections, and none of them is sharded.
    fn are_all_on_one(&self, used: &[(String, String)]) -> Result<bool> {
        let interrupt = self.interrupt();
        for (db, collection) in used {
            let primary =
                |db: &str| Ok::<_, Error>(self.catalog().database(db, interrupt)?.map(|database| database.primary));
            let is_here = *db == self.routed.db || primary(db)? == primary(self.routed.db)?;
            let is_sharded =
                || Ok::<_, Error>(self.catalog().table(&format!("{db}.{collection}"), interrupt)?.is_some());
            if !is_here || is_sharded()? || self.catalog().view_now(db, collection, interrupt)?.is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

pub(crate) fn explain_here() -> Error {
    Error::new(Code::NOT_IMPLEMENTED, "use the command explain on a sharded collection")
}

/// Splits a stage at the end that writes from those before it.
fn without_sink(stages: Array<'_>) -> (ArrayBuf, Option<ValueRef<'_>>) {
    let mut all: Vec<ValueRef<'_>> = stages.iter().collect();
    let sink = all.pop_if(|stage| stage_of(Some(*stage)).is_some_and(|(name, _)| matches!(name, "$out" | "$merge")));
    (all.into_iter().collect(), sink)
}

/// Returns the shards with documents that the first stages of a pipeline let through.
pub(crate) fn shards_of_pipeline<'t>(table: &'t Table, stages: Array<'_>, context: &Context) -> Vec<&'t str> {
    let filter = |at| match stage_of(stages.get(at)) {
        Some(("$match", ValueRef::Document(filter))) => filter,
        _ => Doc::empty(),
    };
    match unpacks(stages) {
        true => table.shards_for_measurements(filter(1), context).0,
        false => table.shards_for_filter(filter(0), context).0,
    }
}

pub(crate) fn stage_of(stage: Option<ValueRef<'_>>) -> Option<(&str, ValueRef<'_>)> {
    match stage {
        Some(ValueRef::Document(stage)) => stage.first(),
        _ => None,
    }
}

/// Returns the collections that the stages of a pipeline use besides its own.
pub(crate) fn others(db: &str, stages: Array<'_>) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let named = |value: ValueRef<'_>, field: &str| match value {
        ValueRef::String(name) => Some((db.to_owned(), name.to_owned())),
        ValueRef::Document(spec) => match spec.get(field) {
            Some(ValueRef::String(name)) => {
                Some((fields::string(spec, "db").unwrap_or(db).to_owned(), name.to_owned()))
            }
            Some(ValueRef::Document(inner)) => {
                let inner_db = fields::string(inner, "db").filter(|own| !own.is_empty()).unwrap_or(db);
                fields::string(inner, "coll").map(|name| (inner_db.to_owned(), name.to_owned()))
            }
            _ => None,
        },
        _ => None,
    };
    for stage in stages.iter() {
        let Some((name, spec)) = stage_of(Some(stage)) else { continue };
        match name {
            "$lookup" | "$graphLookup" => found.extend(named(spec, "from")),
            "$unionWith" | "$out" => found.extend(named(spec, "coll")),
            "$merge" => found.extend(named(spec, "into")),
            "$facet" => {
                if let ValueRef::Document(facets) = spec {
                    for (_, inner) in facets {
                        if let ValueRef::Array(inner) = inner {
                            found.extend(others(db, inner));
                        }
                    }
                }
            }
            _ => {}
        }
        if let ValueRef::Document(spec) = spec
            && let Some(inner) = fields::array(spec, "pipeline")
        {
            found.extend(others(db, inner));
        }
    }
    found
}

/// Splits a pipeline over several shards at the first stage that needs documents of more than one: what the shards run, and what the
/// router runs over their rows.
pub(crate) fn split(stages: Array<'_>) -> (ArrayBuf, ArrayBuf) {
    let (mut of_shards, mut of_router) = (ArrayBuf::new(), ArrayBuf::new());
    let all: Vec<ValueRef<'_>> = stages.iter().collect();
    let own = |name: &str| OF_SHARDS.contains(&name) || ABOUT_COLLECTIONS.contains(&name);
    let at = all.iter().take_while(|stage| stage_of(Some(**stage)).is_some_and(|(name, _)| own(name))).count();
    let (before, rest) = all.split_at_checked(at).unwrap_or((&all, &[]));
    before.iter().for_each(|stage| {
        of_shards.push(*stage);
    });
    let number = |name: &str, value: i64| DocBuf::new().with(name, value);
    let whole = |value: ValueRef<'_>| fields::number_of(value).filter(|n| *n >= 0.0 && *n < 1e15).map(|n| n as i64);
    let mut handled = 0;
    match (stage_of(rest.first().copied()), rest.first()) {
        (Some(("$limit", _) | ("$sample", ValueRef::Document(_))), Some(stage)) => {
            of_shards.push(*stage);
        }
        (Some(("$geoNear", ValueRef::Document(spec))), Some(stage)) => {
            of_shards.push(*stage);
            handled = 1;
            let distance = DocBuf::new().with("$meta", "geoNearDistance");
            let order = match fields::string(spec, "distanceField") {
                Some(field) => DocBuf::new().with(field, 1i32),
                None => DocBuf::new().with("distance", &distance),
            };
            of_router.push(&DocBuf::new().with("$sort", &order));
        }
        (Some(("$count", ValueRef::String(field))), Some(stage)) => {
            of_shards.push(*stage);
            handled = 1;
            let sum = DocBuf::new().with("$sum", format!("${field}").as_str());
            let group = DocBuf::new().with("_id", ValueRef::Null).with(field, &sum);
            of_router.push(&DocBuf::new().with("$group", &group));
            of_router.push(&DocBuf::new().with("$project", &DocBuf::new().with("_id", 0i32)));
        }
        (Some(("$group", ValueRef::Document(spec))), Some(stage)) => {
            if let Some(again) = regrouped(spec) {
                of_shards.push(*stage);
                of_router.push(&DocBuf::new().with("$group", &again));
                handled = 1;
            }
        }
        (Some((first @ ("$sort" | "$skip"), spec)), Some(stage)) => {
            // the first documents of each shard are enough for those of all
            let mut skip = if first == "$skip" { whole(spec) } else { Some(0) };
            let mut limit = None;
            for next in rest.iter().skip(1) {
                match (stage_of(Some(*next)), skip) {
                    (Some(("$skip", value)), Some(before)) => {
                        skip = whole(value).map(|more| before.saturating_add(more))
                    }
                    (Some(("$limit", value)), Some(before)) => {
                        limit = whole(value).filter(|n| *n > 0).map(|n| n.saturating_add(before));
                        break;
                    }
                    _ => break,
                }
            }
            if let Some(limit) = limit {
                if first == "$sort" {
                    of_shards.push(*stage);
                }
                of_shards.push(&number("$limit", limit));
            }
        }
        _ => {}
    }
    rest.iter().skip(handled).for_each(|stage| {
        of_router.push(*stage);
    });
    (of_shards, of_router)
}

/// Returns the `$group` that combines the groups of the shards. None: they cannot be combined.
fn regrouped(spec: Doc<'_>) -> Option<DocBuf> {
    let mut again = DocBuf::new().with("_id", "$_id");
    for (name, value) in spec.iter().filter(|(name, _)| *name != "_id") {
        let ValueRef::Document(accumulator) = value else { return None };
        let (operator, _) = accumulator.first()?;
        if !COMBINABLE.contains(&operator) || name.contains('.') || name.starts_with('$') {
            return None;
        }
        let operator = if operator == "$count" { "$sum" } else { operator };
        again.append(name, &DocBuf::new().with(operator, format!("${name}").as_str()));
    }
    spec.get("_id").is_some().then_some(again)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arbor_notation::doc;

    fn parts(stages: &str) -> (String, String) {
        let body = doc(&format!("{{p: {stages}}}"));
        let (shards, router) = split(fields::array(body.as_doc(), "p").unwrap());
        let shown = |part: &ArrayBuf| DocBuf::new().with("p", part).as_doc().to_string();
        (shown(&shards), shown(&router))
    }

    fn shown(stages: &str) -> String {
        doc(&format!("{{p: {stages}}}")).as_doc().to_string()
    }

    #[test]
    fn pipelines_are_split_at_the_first_stage_over_all_documents() {
        for (stages, shards, router) in [
            ("[{$match: {a: 1}}, {$set: {b: 1}}]", "[{$match: {a: 1}}, {$set: {b: 1}}]", "[]"),
            (
                "[{$sort: {a: 1}}, {$skip: 2}, {$limit: 3}]",
                "[{$sort: {a: 1}}, {$limit: Long(5)}]",
                "[{$sort: {a: 1}}, {$skip: 2}, {$limit: 3}]",
            ),
            ("[{$sort: {a: 1}}, {$match: {}}, {$limit: 3}]", "[]", "[{$sort: {a: 1}}, {$match: {}}, {$limit: 3}]"),
            ("[{$limit: 3}, {$match: {a: 1}}]", "[{$limit: 3}]", "[{$limit: 3}, {$match: {a: 1}}]"),
            ("[{$skip: 3}, {$limit: 3}]", "[{$limit: Long(6)}]", "[{$skip: 3}, {$limit: 3}]"),
            (
                "[{$group: {_id: '$a', n: {$count: {}}, s: {$sum: '$b'}}}]",
                "[{$group: {_id: '$a', n: {$count: {}}, s: {$sum: '$b'}}}]",
                "[{$group: {_id: '$_id', n: {$sum: '$n'}, s: {$sum: '$s'}}}]",
            ),
            ("[{$group: {_id: '$a', n: {$avg: '$b'}}}]", "[]", "[{$group: {_id: '$a', n: {$avg: '$b'}}}]"),
            ("[{$facet: {a: []}}]", "[]", "[{$facet: {a: []}}]"),
            ("[{$count: 'n'}]", "[{$count: 'n'}]", "[{$group: {_id: null, n: {$sum: '$n'}}}, {$project: {_id: 0}}]"),
        ] {
            assert_eq!(parts(stages), (shown(shards), shown(router)), "{stages}");
        }
    }

    #[test]
    fn other_collections_are_found_wherever_they_are() {
        let body = doc(
            "{p: [{$facet: {f: [{$lookup: {from: 'a', as: 'x', pipeline: [{$unionWith: 'b'}]}}]}}, {$merge: {into: {db: 'd', coll: 'c'}}}]}",
        );
        let found = others("own", fields::array(body.as_doc(), "p").unwrap());
        let shown: Vec<String> = found.iter().map(|(db, name)| format!("{db}.{name}")).collect();
        assert_eq!(shown, ["own.a", "own.b", "d.c"]);
    }
}
