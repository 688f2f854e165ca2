//! Reads of documents over several shards.

use std::collections::HashSet;
use std::sync::Arc;

use arbor_base::memory::{self, Class};
use arbor_bson::{Array, ArrayBuf, Code, Doc, DocBuf, ValueRef};
use arbor_command::{Answer, Error, Result, RoutedCursor};
use arbor_lang::{Collation, Context, Filter};
use arbor_query::{AggregateSpec, Elsewhere, Scope};
use arbor_store::Namespace;
use arbor_txn::Durability;

use crate::catalog::{Routing, versioned};
use crate::elsewhere::{Foreign, session_of};
use crate::rows::{Merge, Order, SORT_KEY, Stream, open_streams, reserve};
use crate::shard::{Read, Shard};
use crate::{Request, fields};

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

    pub(crate) fn spec<'s>(
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

    pub(crate) fn elsewhere(&self, collation: Option<Doc<'_>>) -> Arc<dyn Elsewhere> {
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
}

pub(crate) fn count_reply(n: i64) -> DocBuf {
    let reply = DocBuf::new();
    match i32::try_from(n) {
        Ok(n) => reply.with("n", n),
        Err(_) => reply.with("n", n),
    }
}

pub(crate) fn unsigned(body: Doc<'_>, name: &str) -> Result<u64> {
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
