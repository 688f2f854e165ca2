//! `explain` over several shards.

use std::sync::Arc;

use arbor_bson::{Array, ArrayBuf, Doc, DocBuf, ValueRef};
use arbor_command::{Answer, Result};

use crate::catalog::Routing;
use crate::pipeline::{split, stage_of};
use crate::shard::Shard;
use crate::{Request, fields};

/// Fields of a reply that are not about its plan.
const NOT_OF_PLANS: &[&str] = &["ok", "$clusterTime", "operationTime", "serverParameters", "command"];

impl Request<'_> {
    pub(crate) fn explain(&self) -> Result<Answer> {
        let Some(("explain", ValueRef::Document(inner))) = self.body().first() else { return Ok(Answer::Local) };
        match inner.first() {
            Some((name, ValueRef::String(collection))) => self.explain_command(name, collection, inner),
            _ => self.forward(false),
        }
    }

    /// Lets the shards explain their parts of a command; they get the request as it is.
    pub(crate) fn explain_command(&self, name: &str, collection: &str, inner: Doc<'_>) -> Result<Answer> {
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
}

/// Copies fields that the explanations of all shards have alike.
pub(crate) fn copy_of_first(replies: &[(Arc<Shard>, DocBuf)], names: &[&str], into: &mut DocBuf) {
    replies.iter().take(1).for_each(|(_, reply)| fields::copy(reply.as_doc(), names, into));
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
