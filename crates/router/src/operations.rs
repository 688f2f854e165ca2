//! Operations of the cluster: `currentOp`, `$currentOp` and `killOp`. Those of a shard have ids of the form `shard:id`.

use arbor_auth::{Action, Target};
use arbor_bson::{Array, ArrayBuf, Code, Doc, DocBuf, ValueRef};
use arbor_command::{Answer, Error, Result, RoutedCursor};
use arbor_lang::{Context, Filter};
use arbor_protocol::generic::is_generic;
use arbor_query::{AggregateSpec, Scope};
use arbor_store::Namespace;
use arbor_txn::Durability;

use crate::pipeline::stage_of;
use crate::rows::Stream;
use crate::{Request, fields};

impl Request<'_> {
    pub(crate) fn current_op(&self) -> Result<Answer> {
        let body = self.body();
        let options = DocBuf::new()
            .with("allUsers", !fields::is_true(body, "$ownOps"))
            .with("idleConnections", fields::is_true(body, "$all"));
        let query: DocBuf =
            body.iter().skip(1).filter(|(name, _)| !is_generic(name) && !matches!(*name, "$all" | "$ownOps")).collect();
        let filter = Filter::parse(query.as_doc(), &Context::new(arbor_protocol::log::now_ms()))?;
        let mut listed = ArrayBuf::new();
        for operation in self.operations_of_shards(options.as_doc())? {
            if filter.matches(operation.as_doc())? {
                listed.push(&operation);
            }
        }
        Ok(Answer::Reply(DocBuf::new().with("inprog", &listed)))
    }

    /// `$currentOp` and the stages after it. With `localOps` it is about the router.
    pub(crate) fn current_op_stage(&self, stages: Array<'_>) -> Result<Answer> {
        match stage_of(stages.get(0)) {
            Some((_, ValueRef::Document(options))) if !fields::is_true(options, "localOps") => {
                self.over_documents(self.operations_of_shards(options)?, stages)
            }
            _ => Ok(Answer::Local),
        }
    }

    fn operations_of_shards(&self, options: Doc<'_>) -> Result<Vec<DocBuf>> {
        let pipeline: ArrayBuf = std::iter::once(&DocBuf::new().with("$currentOp", options)).collect();
        let mut command =
            DocBuf::new().with("aggregate", 1i32).with("pipeline", &pipeline).with("cursor", &DocBuf::new());
        fields::copy(self.body(), &["lsid", "$audit", "maxTimeMS", "comment"], &mut command);
        let shards = self.catalog().shards(self.interrupt())?;
        let replies = self.on_all("admin", shards.into_iter().map(|shard| (shard, command.clone())).collect())?;
        let mut operations = Vec::new();
        for (shard, reply) in replies {
            let mut stream = Stream::begin(shard.clone(), reply.as_doc(), command.as_doc(), None)?;
            while let Some(operation) = stream.pull(self.interrupt())? {
                let own = DocBuf::new().with("shard", shard.name.as_str());
                operations.push(operation.as_doc().iter().fold(own, |all, (name, value)| match (name, value) {
                    ("opid", ValueRef::Int64(id)) => all.with(name, format!("{}:{id}", shard.name).as_str()),
                    ("opid", ValueRef::Int32(id)) => all.with(name, format!("{}:{id}", shard.name).as_str()),
                    _ => all.with(name, value),
                }));
            }
        }
        Ok(operations)
    }

    pub(crate) fn kill_op(&self) -> Result<Answer> {
        let Some(op) = fields::string(self.body(), "op") else { return Ok(Answer::Local) };
        let malformed = || {
            let text = format!("The op argument to killOp must be of the format shardid:opid but found \"{op}\"");
            Error::new(Code(28625), text)
        };
        let (shard, id) =
            op.rsplit_once(':').filter(|(shard, id)| !shard.is_empty() && !id.is_empty()).ok_or_else(malformed)?;
        let id: i64 = id.parse().map_err(|_| malformed())?;
        let shard = self.catalog().shard(shard, self.interrupt())?;
        let mut command = DocBuf::new().with("killOp", 1i32).with("op", id);
        if !self.permits(Target::Cluster, Action::KillOp) {
            fields::copy(self.body(), &["$audit"], &mut command);
        }
        let reply = shard.call("admin", &command, self.interrupt())?;
        Ok(Answer::Reply(fields::passed(&reply)))
    }

    /// Replies with documents that the router has made, after the stages that follow the first one.
    pub(crate) fn over_documents(&self, documents: Vec<DocBuf>, stages: Array<'_>) -> Result<Answer> {
        let rest: ArrayBuf = stages.iter().skip(1).collect();
        let spec = AggregateSpec {
            namespace: Namespace::new("admin", "$cmd.aggregate")?,
            collectionless: true,
            pipeline: rest.as_array(),
            hint: None,
            collation: None,
            let_variables: None,
            durability: Durability::Applied,
            allow_disk_use: true,
            bypass_validation: false,
        };
        let scope = Scope::of(&self.server.database);
        let cursor = arbor_query::aggregate_documents(&scope, &spec, documents, self.interrupt())?;
        let extra = None;
        Ok(Answer::Cursor(RoutedCursor {
            cursor: Box::new(cursor),
            batch_size: None,
            single_batch: false,
            no_timeout: false,
            time: None,
            extra,
        }))
    }
}
