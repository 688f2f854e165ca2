//! Reads over several shards.

use std::collections::HashSet;
use std::sync::Arc;

use arbor_base::memory::{self, Class};
use arbor_bson::{Array, ArrayBuf, Code, Doc, DocBuf, ValueRef};
use arbor_command::{Answer, Error, Result, RoutedCursor};
use arbor_lang::{Collation, Context, Filter};
use arbor_query::{AggregateSpec, BatchLimit, Elsewhere, Scope};
use arbor_store::Namespace;
use arbor_txn::Durability;

use crate::catalog::{Routing, View, versioned};
use crate::elsewhere::{Foreign, session_of};
use crate::rows::{Merge, Order, SORT_KEY, Stream, open_streams, reserve};
use crate::shard::{Read, Shard};
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

impl Request<'_> {
    /// Returns what the meaning of a filter of this request depends on.
    pub(crate) fn context(&self, collation: Option<Doc<'_>>) -> Context {
        let mut context = Context::new(arbor_protocol::log::now_ms());
        if let Some(Ok(collation)) = collation.filter(|collation| !collation.is_empty()).map(Collation::parse) {
            context.collation = collation;
        }
        match fields::document(self.body(), "let").map(|variables| context.clone().with_let(variables)) {
            Some(Ok(context)) => context,
            _ => context,
        }
    }

    pub(crate) fn shards_named(&self, names: &[&str]) -> Result<Vec<Arc<Shard>>> {
        names.iter().map(|name| self.by_preference(self.catalog().shard(name, self.interrupt())?)).collect()
    }

    /// Opens a cursor of each shard.
    pub(crate) fn open(
        &self,
        routing: &Routing,
        shards: &[Arc<Shard>],
        command: &DocBuf,
        batch: Option<i64>,
    ) -> Result<Vec<Stream>> {
        let commands = shards.iter().map(|shard| (shard.clone(), versioned(command.clone(), routing, &shard.name)));
        self.open_each(commands.collect(), batch)
    }

    /// Opens the cursor of each command.
    pub(crate) fn open_each(&self, commands: Vec<(Arc<Shard>, DocBuf)>, batch: Option<i64>) -> Result<Vec<Stream>> {
        let interrupt = self.interrupt();
        let mut reads = Vec::new();
        for (shard, command) in commands {
            let entered = self.enter(&shard, command)?;
            reads.push(Read::begin(shard, self.routed.db, entered, interrupt));
        }
        open_streams(reads, self.routed.db, batch, interrupt)
    }

    pub(crate) fn merged(
        &self,
        namespace: &str,
        merge: Merge,
        stages: &ArrayBuf,
        collation: Option<Doc<'_>>,
    ) -> Result<arbor_query::Cursor> {
        let spec = self.spec(namespace, stages.as_array(), collation)?;
        let scope = Scope::of(&self.server.database);
        let elsewhere = Some(self.elsewhere(collation));
        Ok(arbor_query::aggregate_rows(&scope, &spec, Box::new(merge), elsewhere, self.interrupt())?)
    }

    fn spec<'s>(
        &'s self,
        namespace: &str,
        pipeline: Array<'s>,
        collation: Option<Doc<'_>>,
    ) -> Result<AggregateSpec<'s>> {
        Ok(AggregateSpec {
            namespace: Namespace::parse(namespace)?,
            collectionless: false,
            pipeline,
            hint: None,
            collation: collation.filter(|given| !given.is_empty()).map(Collation::parse).transpose()?,
            let_variables: fields::document(self.body(), "let"),
            durability: Durability::Applied,
            allow_disk_use: self
                .body()
                .get("allowDiskUse")
                .is_none_or(|_| fields::is_true(self.body(), "allowDiskUse")),
            bypass_validation: false,
        })
    }

    fn elsewhere(&self, collation: Option<Doc<'_>>) -> Arc<dyn Elsewhere> {
        Arc::new(Foreign {
            catalog: self.router.catalog.clone(),
            collation: collation.filter(|given| !given.is_empty()).map(Doc::to_buf),
            session: session_of(self.body()),
            transaction: self.router.transactions.joined(self.routed),
        })
    }

    pub(crate) fn find(&self) -> Result<Answer> {
        let namespace = self.namespace()?;
        if let Some(view) = self.view()? {
            return self.find_in_view(&view);
        }
        let body = self.body();
        let filter = fields::document(body, "filter").unwrap_or(Doc::empty());
        let collation = fields::document(body, "collation");
        self.with_routing(self.routed.db, &namespace, false, |routing| {
            let Routing::Sharded(table, _) = routing else {
                let (Routing::Unsharded(shard, _) | Routing::Config(shard)) = routing else {
                    unreachable!("the other case")
                };
                return Ok(Answer::Reply(self.forward_to(routing, shard)?));
            };
            let collation = routing.collation(collation);
            let (names, _) = table.shards_for_filter(filter, &self.context(collation));
            let shards = self.shards_named(&names)?;
            if let [only] = shards.as_slice() {
                return Ok(Answer::Reply(self.forward_to(routing, only)?));
            }
            if fields::is_true(body, "tailable") {
                // a sharded collection is not capped
                return Err(Error::bad_value("tailable cursor requested on non capped collection"));
            }
            let skip = unsigned(body, "skip")?;
            let limit = unsigned(body, "limit")?;
            let sort = fields::document(body, "sort").filter(|sort| !sort.is_empty());
            let own = ["$db", "$readPreference", "startTransaction", "skip", "limit", "singleBatch", "projection"];
            let mut command = fields::without(body, &own);
            if limit > 0 {
                command.append("limit", limit.saturating_add(skip).min(i64::MAX as u64) as i64);
            }
            let projection = fields::document(body, "projection");
            let order = sort.filter(|sort| !is_natural(*sort)).map(|sort| Order {
                descending: sort.iter().map(|(_, direction)| is_descending(direction)).collect(),
                // the keys of a collation are compared by it
                collation: self.context(collation).collation,
            });
            let is_near =
                |filter| Filter::parse_query(filter, &self.context(collation)).is_ok_and(|own| own.near().is_some());
            let (order, key) = match order {
                None if sort.is_none() && is_near(filter) => {
                    let nearest = Order { descending: vec![false], collation: Collation::simple() };
                    (Some(nearest), "geoNearDistance")
                }
                order => (order, "sortKey"),
            };
            match (&order, projection) {
                (Some(_), projection) => {
                    let projection = projection.map_or_else(DocBuf::new, Doc::to_buf);
                    command.append("projection", &projection.with(SORT_KEY, &DocBuf::new().with("$meta", key)));
                }
                (None, Some(projection)) => drop(command.append("projection", projection)),
                (None, None) => {}
            }
            let batch_size = body.get("batchSize").map(|_| fields::int(body, "batchSize"));
            let streams = self.open(routing, &shards, &command, batch_size)?;
            let merge = Merge::new(streams, order, skip, (limit > 0).then_some(limit));
            let cursor = self.merged(&namespace, merge, &ArrayBuf::new(), None)?;
            Ok(Answer::Cursor(RoutedCursor {
                cursor: Box::new(cursor),
                batch_size: batch_size.and_then(|size| u64::try_from(size).ok()),
                single_batch: fields::is_true(body, "singleBatch"),
                no_timeout: fields::is_true(body, "noCursorTimeout"),
                time: None,
                extra: None,
            }))
        })
    }

    pub(crate) fn count(&self) -> Result<Answer> {
        let namespace = self.namespace()?;
        if let Some(view) = self.view()? {
            return self.count_in_view(&view);
        }
        let body = self.body();
        let filter = fields::document(body, "query").unwrap_or(Doc::empty());
        self.with_routing(self.routed.db, &namespace, false, |routing| {
            let context = self.context(routing.collation(fields::document(body, "collation")));
            let shards = self.targets(routing, filter, &context)?;
            if let [only] = shards.as_slice() {
                return Ok(Answer::Reply(self.forward_to(routing, only)?));
            }
            let (skip, limit) = (unsigned(body, "skip")?, fields::int(body, "limit").unsigned_abs());
            let command = fields::without(self.plain().as_doc(), &["skip", "limit"]);
            let commands = shards.iter().map(|shard| (shard.clone(), versioned(command.clone(), routing, &shard.name)));
            let replies = self.on_all(self.routed.db, commands.collect())?;
            let all: i64 = replies.iter().map(|(_, reply)| fields::int(reply.as_doc(), "n")).sum();
            let left = u64::try_from(all).unwrap_or(0).saturating_sub(skip);
            let n = if limit > 0 { left.min(limit) } else { left } as i64;
            Ok(Answer::Reply(count_reply(n)))
        })
    }

    /// Returns the shards that a request on documents of this filter concerns.
    pub(crate) fn targets(&self, routing: &Routing, filter: Doc<'_>, context: &Context) -> Result<Vec<Arc<Shard>>> {
        match routing {
            Routing::Unsharded(shard, _) | Routing::Config(shard) => Ok(vec![shard.clone()]),
            Routing::Sharded(table, _) => self.shards_named(&table.shards_for_filter(filter, context).0),
        }
    }

    pub(crate) fn distinct(&self) -> Result<Answer> {
        let namespace = self.namespace()?;
        if let Some(view) = self.view()? {
            return self.distinct_in_view(&view);
        }
        let filter = fields::document(self.body(), "query").unwrap_or(Doc::empty());
        self.with_routing(self.routed.db, &namespace, false, |routing| {
            let context = self.context(routing.collation(fields::document(self.body(), "collation")));
            let shards = self.targets(routing, filter, &context)?;
            if let [only] = shards.as_slice() {
                return Ok(Answer::Reply(self.forward_to(routing, only)?));
            }
            let commands = shards.iter().map(|shard| (shard.clone(), versioned(self.plain(), routing, &shard.name)));
            let replies = self.on_all(self.routed.db, commands.collect())?;
            let mut memory = memory::process().reservation(Class::Statement);
            // the values, and their keys twice
            reserve(&mut memory, 3 * replies.iter().map(|(_, reply)| reply.as_bytes().len()).sum::<usize>())?;
            let mut seen = HashSet::new();
            let mut values: Vec<(Vec<u8>, ValueRef<'_>)> = Vec::new();
            for (_, reply) in &replies {
                for value in fields::array(reply.as_doc(), "values").iter().flat_map(|values| values.iter()) {
                    let key = context.collation.key_of(value).bytes;
                    if seen.insert(key.clone()) {
                        values.push((key, value));
                    }
                }
            }
            values.sort_by(|a, b| a.0.cmp(&b.0));
            let values: ArrayBuf = values.into_iter().map(|(_, value)| value).collect();
            if values.as_array().as_bytes().len() > arbor_bson::USER_SIZE_MAX {
                return Err(Error::new(Code(17217), "distinct too big, 16mb cap"));
            }
            Ok(Answer::Reply(DocBuf::new().with("values", &values)))
        })
    }

    pub(crate) fn explain(&self) -> Result<Answer> {
        let Some(("explain", ValueRef::Document(inner))) = self.body().first() else { return Ok(Answer::Local) };
        match inner.first() {
            Some((name, ValueRef::String(collection))) => self.explain_command(name, collection, inner),
            _ => self.forward(false),
        }
    }

    /// Lets the shards explain their parts of a command; they get the request as it is.
    fn explain_command(&self, name: &str, collection: &str, inner: Doc<'_>) -> Result<Answer> {
        let namespace = format!("{}.{collection}", self.routed.db);
        let filter = filter_of(name, inner);
        if let Some(table) = self.catalog().buckets(self.routed.db, collection, self.interrupt())? {
            return self.explain_series(&table, inner, filter);
        }
        self.with_routing(self.routed.db, &namespace, false, |routing| {
            let context = self.context(routing.collation(fields::document(inner, "collation")));
            let shards = self.targets(routing, filter, &context)?;
            if matches!(routing, Routing::Config(_)) {
                let Some(only) = shards.first() else { return Ok(Answer::Local) };
                return Ok(Answer::Reply(self.forward_to(&Routing::Config(only.clone()), only)?));
            }
            let stages = fields::array(inner, "pipeline").unwrap_or(Array::empty());
            if name == "aggregate" && matches!(routing, Routing::Sharded(..)) {
                self.check_stages(&namespace, stages, routing.collation(fields::document(inner, "collation")))?;
            }
            let commands = shards.iter().map(|shard| (shard.clone(), self.plain())).collect();
            let replies = self.on_all(self.routed.db, commands)?;
            if name == "aggregate" {
                let shown: DocBuf = replies
                    .iter()
                    .map(|(shard, reply)| (shard.name.as_str(), fields::without(reply.as_doc(), NOT_OF_PLANS)))
                    .fold(DocBuf::new(), |all, (name, plan)| all.with(name, &plan));
                let merge = if replies.len() > 1 { "router" } else { "none" };
                let mut reply = DocBuf::new().with("mergeType", merge);
                if replies.len() > 1 {
                    let (of_shards, of_router) = split(stages);
                    let parts = DocBuf::new().with("shardsPart", &of_shards).with("mergerPart", &of_router);
                    reply.append("splitPipeline", &parts);
                } else {
                    reply.append("splitPipeline", ValueRef::Null);
                }
                reply.append("shards", &shown);
                copy_of_first(&replies, &["queryShapeHash", "serverParameters"], &mut reply);
                reply.append("command", inner);
                return Ok(Answer::Reply(reply));
            }
            let stage = if replies.len() > 1 { "SHARD_MERGE" } else { "SINGLE_SHARD" };
            let part = |section: &str, plan: &str| -> ArrayBuf {
                let of = |(shard, reply): &(Arc<Shard>, DocBuf)| {
                    let own = fields::document(reply.as_doc(), section).unwrap_or(Doc::empty());
                    let mut shown = DocBuf::new().with("shardName", shard.name.as_str());
                    if plan == "winningPlan" {
                        shown.append("connectionString", shard.hosts().as_str());
                    }
                    own.iter().for_each(|(name, value)| {
                        shown.append(name, value);
                    });
                    shown
                };
                replies.iter().map(of).collect::<Vec<_>>().iter().collect()
            };
            let plan = DocBuf::new().with("stage", stage).with("shards", &part("queryPlanner", "winningPlan"));
            let planner = DocBuf::new().with("mongosPlannerVersion", 1i32).with("winningPlan", &plan);
            let mut reply = DocBuf::new();
            copy_of_first(&replies, &["explainVersion", "queryShapeHash"], &mut reply);
            reply.append("queryPlanner", &planner);
            if replies.iter().any(|(_, reply)| reply.get("executionStats").is_some()) {
                let sum = |field: &str| -> i64 {
                    let of = |reply: &DocBuf| {
                        fields::document(reply.as_doc(), "executionStats").map(|own| fields::int(own, field))
                    };
                    replies.iter().filter_map(|(_, reply)| of(reply)).sum()
                };
                let stages =
                    DocBuf::new().with("stage", stage).with("shards", &part("executionStats", "executionStages"));
                let statistics = DocBuf::new()
                    .with("nReturned", sum("nReturned"))
                    .with("executionTimeMillis", sum("executionTimeMillis"))
                    .with("totalKeysExamined", sum("totalKeysExamined"))
                    .with("totalDocsExamined", sum("totalDocsExamined"))
                    .with("executionStages", &stages);
                reply.append("executionStats", &statistics);
            }
            copy_of_first(&replies, &["serverInfo", "serverParameters"], &mut reply);
            reply.append("command", inner);
            Ok(Answer::Reply(reply))
        })
    }

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

    /// Returns the view that this request is on, if only the router can resolve it.
    fn view(&self) -> Result<Option<View>> {
        self.catalog().view_to_resolve(self.routed.db, self.collection()?, self.interrupt())
    }

    /// Runs a pipeline, on the shards as far as each of them can do it alone.
    fn pipeline(&self, over: &RoutedPipeline) -> Result<Answer> {
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
    fn check_stages(&self, namespace: &str, stages: Array<'_>, collation: Option<Doc<'_>>) -> Result<()> {
        if stage_of(stages.get(0)).is_some_and(|(name, _)| ABOUT_COLLECTIONS.contains(&name)) {
            return Ok(());
        }
        let scope = Scope::of(&self.server.database);
        let spec = self.spec(namespace, stages, collation)?;
        Ok(arbor_query::check_pipeline(&scope, &spec, Some(self.elsewhere(collation)))?)
    }

    /// Returns the collation of a statement on a view. Errors: it names another one than the view has.
    fn collation_of_view(&self, name: &str, view: &View) -> Result<DocBuf> {
        let parse = |given: Doc<'_>| match given.is_empty() {
            true => Ok(Collation::simple()),
            false => Collation::parse(given),
        };
        let asked =
            fields::document(self.body(), "collation").filter(|asked| !asked.is_empty()).map(parse).transpose()?;
        if view.is_time_series {
            let given = fields::document(self.body(), "collation").filter(|given| !given.is_empty());
            return Ok(given.map_or_else(|| DocBuf::new().with("locale", "simple"), Doc::to_buf));
        }
        if asked.is_some_and(|asked| parse(view.collation.as_doc()).is_ok_and(|own| own != asked)) {
            let text = format!("Cannot override a view's default collation, {}.{name}", self.routed.db);
            return Err(Error::new(Code::OPTION_NOT_SUPPORTED_ON_VIEW, text));
        }
        Ok(match view.collation.as_doc().is_empty() {
            true => DocBuf::new().with("locale", "simple"),
            false => view.collation.clone(),
        })
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
            return self.forward_to(routing, only).map(Opened::Reply);
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

    /// Runs a statement on a view as a pipeline, and returns all of its documents.
    fn all_of_view(&self, view: &View, own: Vec<DocBuf>) -> Result<Vec<DocBuf>> {
        let stages = view.stages.as_array().iter().chain(own.iter().map(ValueRef::from)).collect();
        let over = RoutedPipeline {
            collation: Some(self.collation_of_view(self.collection()?, view)?),
            collection: view.on.clone(),
            stages,
            rewritten: true,
            ..RoutedPipeline::default()
        };
        let Answer::Cursor(RoutedCursor { mut cursor, .. }) = self.pipeline(&over)? else {
            return Err(Error::new(Code::INTERNAL_ERROR, "a view was not read here"));
        };
        let mut documents = Vec::new();
        let (mut memory, mut bytes) = (memory::process().reservation(Class::Statement), 0);
        loop {
            let batch = cursor.next_batch(BatchLimit::more(), self.interrupt())?;
            bytes += batch.docs.as_array().as_bytes().len();
            reserve(&mut memory, bytes)?;
            for value in batch.docs.as_array().iter() {
                if let ValueRef::Document(document) = value {
                    documents.push(document.to_buf());
                }
            }
            if batch.exhausted {
                return Ok(documents);
            }
        }
    }

    fn find_in_view(&self, view: &View) -> Result<Answer> {
        let body = self.body();
        for name in ["min", "max", "showRecordId", "returnKey", "tailable"] {
            if body.get(name).is_some_and(|_| fields::document(body, name).is_some() || fields::is_true(body, name)) {
                let text = format!("Option {name} not supported in aggregation.");
                return Err(Error::new(Code::INVALID_PIPELINE_OPERATOR, text));
            }
        }
        let mut stages = view.stages.clone();
        let given = |name| fields::document(body, name).filter(|given| !given.is_empty());
        for (field, stage) in [("filter", "$match"), ("sort", "$sort")] {
            if let Some(given) = given(field) {
                stages.push(&DocBuf::new().with(stage, given));
            }
        }
        for (field, stage) in [("skip", "$skip"), ("limit", "$limit")] {
            let number = unsigned(body, field)?;
            if number > 0 {
                stages.push(&DocBuf::new().with(stage, i64::try_from(number).unwrap_or(i64::MAX)));
            }
        }
        if let Some(projection) = given("projection") {
            stages.push(&DocBuf::new().with("$project", projection));
        }
        self.pipeline(&RoutedPipeline {
            collation: Some(self.collation_of_view(self.collection()?, view)?),
            collection: view.on.clone(),
            stages,
            batch_size: body.get("batchSize").map(|_| fields::int(body, "batchSize")),
            single_batch: fields::is_true(body, "singleBatch"),
            no_timeout: fields::is_true(body, "noCursorTimeout"),
            rewritten: true,
        })
    }

    fn count_in_view(&self, view: &View) -> Result<Answer> {
        let body = self.body();
        let filter = fields::document(body, "query").unwrap_or(Doc::empty());
        let mut own = vec![DocBuf::new().with("$match", filter)];
        for (stage, number) in
            [("$skip", unsigned(body, "skip")?), ("$limit", fields::int(body, "limit").unsigned_abs())]
        {
            if number > 0 {
                own.push(DocBuf::new().with(stage, i64::try_from(number).unwrap_or(i64::MAX)));
            }
        }
        own.push(DocBuf::new().with("$count", "count"));
        let found = self.all_of_view(view, own)?;
        let n = found.first().map_or(0, |found| fields::int(found.as_doc(), "count"));
        Ok(Answer::Reply(count_reply(n)))
    }

    fn distinct_in_view(&self, view: &View) -> Result<Answer> {
        let body = self.body();
        let key = fields::string(body, "key").unwrap_or_default();
        let filter = fields::document(body, "query").unwrap_or(Doc::empty());
        let mut own = vec![DocBuf::new().with("$match", filter)];
        let ends = key.match_indices('.').map(|(at, _)| at).chain([key.len()]);
        for path in ends.filter_map(|end| key.get(..end)) {
            let spec = DocBuf::new().with("path", format!("${path}").as_str()).with("preserveNullAndEmptyArrays", true);
            own.push(DocBuf::new().with("$unwind", &spec));
        }
        let exists = DocBuf::new().with(key, &DocBuf::new().with("$exists", true));
        own.push(DocBuf::new().with("$match", &exists));
        own.push(DocBuf::new().with("$group", &DocBuf::new().with("_id", format!("${key}").as_str())));
        own.push(DocBuf::new().with("$sort", &DocBuf::new().with("_id", 1i32)));
        let found = self.all_of_view(view, own)?;
        let values: ArrayBuf = found.iter().filter_map(|group| group.get("_id")).collect();
        if values.as_array().as_bytes().len() > arbor_bson::USER_SIZE_MAX {
            return Err(Error::new(Code(17217), "distinct too big, 16mb cap"));
        }
        Ok(Answer::Reply(DocBuf::new().with("values", &values)))
    }
}

/// A pipeline over a collection of the request's database.
#[derive(Clone, Default)]
struct RoutedPipeline {
    collection: String,
    stages: ArrayBuf,
    /// That of the view through which it reads. None: that of the request.
    collation: Option<DocBuf>,
    batch_size: Option<i64>,
    single_batch: bool,
    no_timeout: bool,
    /// It is not the one of the request, but of a view or of another statement.
    rewritten: bool,
}

enum Opened {
    /// A shard has done all of it.
    Reply(DocBuf),
    Cursor(arbor_query::Cursor),
}

/// Copies fields that the explanations of all shards have alike.
fn copy_of_first(replies: &[(Arc<Shard>, DocBuf)], names: &[&str], into: &mut DocBuf) {
    replies.iter().take(1).for_each(|(_, reply)| fields::copy(reply.as_doc(), names, into));
}

fn explain_here() -> Error {
    Error::new(Code::NOT_IMPLEMENTED, "use the command explain on a sharded collection")
}

fn count_reply(n: i64) -> DocBuf {
    let reply = DocBuf::new();
    match i32::try_from(n) {
        Ok(n) => reply.with("n", n),
        Err(_) => reply.with("n", n),
    }
}

/// Splits a stage at the end that writes from those before it.
fn without_sink(stages: Array<'_>) -> (ArrayBuf, Option<ValueRef<'_>>) {
    let mut all: Vec<ValueRef<'_>> = stages.iter().collect();
    let sink = all.pop_if(|stage| stage_of(Some(*stage)).is_some_and(|(name, _)| matches!(name, "$out" | "$merge")));
    (all.into_iter().collect(), sink)
}

/// Fields of a reply that are not about its plan.
const NOT_OF_PLANS: &[&str] = &["ok", "$clusterTime", "operationTime", "serverParameters", "command"];

fn unsigned(body: Doc<'_>, name: &str) -> Result<u64> {
    match body.get(name) {
        None | Some(ValueRef::Null) => Ok(0),
        Some(value) => match fields::number_of(value) {
            Some(number) if number >= 0.0 => Ok(number as u64),
            Some(number) => {
                let text = format!("BSON field '{name}' value must be >= 0, actual value '{number}'");
                Err(Error::new(Code(51024), text))
            }
            None => {
                let field = arbor_protocol::arguments::Field::new("find", name);
                Err(field.wrong_type(value, "long").into())
            }
        },
    }
}

pub(crate) fn is_natural(sort: Doc<'_>) -> bool {
    sort.first().is_some_and(|(name, _)| name == "$natural")
}

pub(crate) fn is_descending(direction: ValueRef<'_>) -> bool {
    match direction {
        // by a score
        ValueRef::Document(_) => true,
        direction => fields::number_of(direction).is_some_and(|number| number < 0.0),
    }
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

fn filter_of<'d>(command: &str, body: Doc<'d>) -> Doc<'d> {
    let first_statement = |name: &str| match fields::array(body, name).and_then(|all| all.get(0)) {
        Some(ValueRef::Document(statement)) => fields::document(statement, "q"),
        _ => None,
    };
    let first_match = || match fields::array(body, "pipeline").and_then(|all| stage_of(all.get(0))) {
        Some(("$match", ValueRef::Document(filter))) => Some(filter),
        _ => None,
    };
    let filter = match command {
        "find" => fields::document(body, "filter"),
        "aggregate" => first_match(),
        "update" => first_statement("updates"),
        "delete" => first_statement("deletes"),
        _ => fields::document(body, "query"),
    };
    filter.unwrap_or(Doc::empty())
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
