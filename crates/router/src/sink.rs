//! `$out` and `$merge` at the end of a pipeline that runs on the router: the shards of the target write the documents.
//!
//! Each batch becomes a pipeline over the target on its shard, `$documents` and the stage, so a shard writes as it writes by itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use arbor_bson::{ArrayBuf, Code, DocBuf, ValueRef};
use arbor_command::{Error, Result};
use arbor_query::{BatchLimit, Cursor};

use crate::catalog::{Routing, version_entry, versioned};
use crate::pipeline::{others, stage_of};
use crate::shard::Shard;
use crate::{Request, fields};

/// Documents with their places in the batch.
type Placed = Vec<(usize, DocBuf)>;

/// Documents of one batch; its bytes leave room in a command.
const BATCH: BatchLimit = BatchLimit { docs: 1000, bytes: 8 << 20 };

/// Refuses fields of `$merge` by which a shard could not know whether another one has the document.
fn check_on(routing: &Routing, on: Option<ValueRef<'_>>) -> Result<()> {
    let (Routing::Sharded(table, _), Some(on)) = (routing, on) else { return Ok(()) };
    let is_named = |path: &str| match on {
        ValueRef::String(name) => name == path,
        ValueRef::Array(names) => names.iter().any(|name| matches!(name, ValueRef::String(name) if name == path)),
        _ => false,
    };
    if table.unsplittable || table.key.as_doc().iter().all(|(path, _)| is_named(path)) {
        return Ok(());
    }
    let text =
        "Cannot find index to verify that join fields will be unique: they must have all fields of the shard key";
    Err(Error::new(Code(51183), text))
}

impl Request<'_> {
    /// Writes what a cursor returns as `stage`, an `$out` or `$merge`, says.
    pub(crate) fn write_into(&self, cursor: Cursor, stage: ValueRef<'_>) -> Result<()> {
        if self.routed.generic.numbered.is_some_and(|numbered| numbered.is_transaction()) {
            let name = stage_of(Some(stage)).map_or("", |(name, _)| name);
            let text = format!("{name} cannot be used in a transaction");
            return Err(Error::new(Code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION, text));
        }
        let own: ArrayBuf = std::iter::once(stage).collect();
        let target = others(self.routed.db, own.as_array()).into_iter().next();
        let (Some((db, collection)), Some((name, spec))) = (target, stage_of(Some(stage))) else {
            return Err(Error::new(Code::FAILED_TO_PARSE, "the last stage has no target"));
        };
        match name {
            "$out" => self.write_out(cursor, &db, &collection, spec),
            _ => self.write_merge(cursor, &db, &collection, spec),
        }
    }

    fn next_documents(&self, cursor: &mut Cursor) -> Result<(Vec<DocBuf>, bool)> {
        let batch = cursor.next_batch(BATCH, self.interrupt())?;
        let documents = batch.docs.as_array().iter().filter_map(|value| match value {
            ValueRef::Document(document) => Some(with_id(document.to_buf())),
            _ => None,
        });
        Ok((documents.collect(), batch.exhausted))
    }

    fn write_merge(&self, mut cursor: Cursor, db: &str, collection: &str, spec: ValueRef<'_>) -> Result<()> {
        let into = DocBuf::new().with("db", db).with("coll", collection);
        let mut own = DocBuf::new().with("into", &into);
        if let ValueRef::Document(spec) = spec {
            spec.iter().filter(|(name, _)| *name != "into").for_each(|(name, value)| {
                own.append(name, value);
            });
        }
        let stage = DocBuf::new().with("$merge", &own);
        let namespace = format!("{db}.{collection}");
        if self.catalog().buckets(db, collection, self.interrupt())?.is_some() {
            let text = format!("Namespace {namespace} is a view, not a collection");
            return Err(Error::new(Code::COMMAND_NOT_SUPPORTED_ON_VIEW, text));
        }
        // without any documents it is checked, and the target is created, all the same
        loop {
            let (mut waiting, is_last) = self.next_documents(&mut cursor)?;
            let mut is_first = true;
            self.with_routing(db, &namespace, true, |routing| {
                check_on(routing, own.get("on"))?;
                while is_first || !waiting.is_empty() {
                    // those of one shard, which are not sent again once it has written them
                    let (shard, some) = self.of_one_shard(routing, &waiting)?;
                    self.send_documents(
                        routing,
                        &shard,
                        (db, collection),
                        &some.iter().map(|(_, one)| one).collect(),
                        &stage,
                    )?;
                    is_first = false;
                    let done: Vec<usize> = some.iter().map(|(at, _)| *at).collect();
                    waiting = waiting
                        .iter()
                        .enumerate()
                        .filter(|(at, _)| !done.contains(at))
                        .map(|(_, one)| one.clone())
                        .collect();
                }
                Ok(())
            })?;
            if is_last {
                return Ok(());
            }
        }
    }

    /// Returns the shard of the first document with all documents of that shard and their places.
    fn of_one_shard(&self, routing: &Routing, documents: &[DocBuf]) -> Result<(Arc<Shard>, Placed)> {
        let all = || documents.iter().cloned().enumerate().collect();
        let table = match routing {
            Routing::Unsharded(shard, _) | Routing::Config(shard) => return Ok((shard.clone(), all())),
            Routing::Sharded(table, _) => table,
        };
        let mut by_shard: BTreeMap<&str, Placed> = BTreeMap::new();
        for (at, document) in documents.iter().enumerate() {
            let key = table.key_of_document(document.as_doc())?;
            by_shard.entry(table.shard_of(&key)).or_default().push((at, document.clone()));
        }
        let first = by_shard.into_iter().next();
        let (name, some) = first.unwrap_or((table.shards().next().unwrap_or_default(), Vec::new()));
        Ok((self.catalog().shard(name, self.interrupt())?, some))
    }

    /// Lets a shard write documents by a stage.
    fn send_documents(
        &self,
        routing: &Routing,
        shard: &Arc<Shard>,
        (db, collection): (&str, &str),
        documents: &ArrayBuf,
        stage: &DocBuf,
    ) -> Result<()> {
        let literal = DocBuf::new().with("$literal", documents);
        let brought = DocBuf::new().with("$documents", &literal);
        let pipeline: ArrayBuf = std::iter::once(&brought).collect();
        let union = DocBuf::new().with("$unionWith", &DocBuf::new().with("pipeline", &pipeline));
        let no_ids = DocBuf::new().with("_id", &DocBuf::new().with("$in", &ArrayBuf::new()));
        let nothing = DocBuf::new().with("$match", &no_ids);
        let stages: ArrayBuf = [&nothing, &union, stage].into_iter().collect();
        let command = self.sink_command(collection, &stages);
        shard.call(db, &versioned(command, routing, &shard.name), self.interrupt()).map(drop)
    }

    fn sink_command(&self, collection: &str, stages: &ArrayBuf) -> DocBuf {
        let mut command =
            DocBuf::new().with("aggregate", collection).with("pipeline", stages).with("cursor", &DocBuf::new());
        let own = ["let", "collation", "bypassDocumentValidation", "writeConcern", "lsid", "$audit"];
        fields::copy(self.body(), &own, &mut command);
        command
    }

    /// The documents are collected on the shard of the target, under another name, which it drops at its next start if this router ends;
    /// then the shard runs the stage.
    fn write_out(&self, mut cursor: Cursor, db: &str, collection: &str, spec: ValueRef<'_>) -> Result<()> {
        let namespace = format!("{db}.{collection}");
        let routing = self.routing(db, &namespace, true)?;
        let is_series = self.catalog().buckets(db, collection, self.interrupt())?.is_some();
        let (Routing::Unsharded(shard, _), false) = (&routing, is_series) else {
            let text = format!("namespace '{namespace}' is sharded so it can't be used for $out");
            return Err(Error::new(Code(28769), text));
        };
        let unfinished = format!("tmp.agg_out.{}", arbor_protocol::topology::new_object_id());
        let create = DocBuf::new().with("create", unfinished.as_str());
        shard.call(db, &create, self.interrupt())?;
        let written = (|| -> Result<()> {
            loop {
                let (documents, is_last) = self.next_documents(&mut cursor)?;
                if !documents.is_empty() {
                    let insert = DocBuf::new().with("insert", unfinished.as_str());
                    let reply = shard.call_with(db, &insert, &[("documents", &documents)], self.interrupt())?;
                    if let Some(ValueRef::Document(error)) =
                        fields::array(reply.as_doc(), "writeErrors").and_then(|errors| errors.get(0))
                    {
                        return Err(crate::shard::error_of(error));
                    }
                }
                if is_last {
                    break;
                }
            }
            let spec = match spec {
                ValueRef::Document(spec) => spec.to_buf(),
                _ => DocBuf::new().with("db", db).with("coll", collection),
            };
            let stage = DocBuf::new().with("$out", &spec);
            let command = self.sink_command(&unfinished, &std::iter::once(&stage).collect());
            self.with_routing(db, &namespace, true, |routing| match routing {
                Routing::Unsharded(own, _) if own.name == shard.name => {
                    // that of the target; the collection of the command is this router's own
                    let versions: ArrayBuf = version_entry(&namespace, routing).iter().collect();
                    let command = command.clone().with("shardVersions", &versions);
                    shard.call(db, &command, self.interrupt()).map(drop)
                }
                _ => {
                    let text = format!("{namespace} was moved or sharded while $out ran");
                    Err(Error::new(Code::NAMESPACE_NOT_FOUND, text))
                }
            })
        })();
        // what cannot be dropped now the shard drops at its next start
        let _ = shard.call(db, &DocBuf::new().with("drop", unfinished.as_str()), self.interrupt());
        written
    }
}

/// Adds the `_id` that a shard would make, since it may decide which shard that is.
fn with_id(document: DocBuf) -> DocBuf {
    if document.get("_id").is_some() {
        return document;
    }
    let id = DocBuf::new().with("_id", ValueRef::ObjectId(arbor_protocol::topology::new_object_id()));
    document.as_doc().iter().fold(id, |all, (name, value)| all.with(name, value))
}
