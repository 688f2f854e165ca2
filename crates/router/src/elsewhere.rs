//! Collections that stages on the router read by name: `$lookup`, `$graphLookup` and `$unionWith`.

use std::sync::Arc;
use std::time::Duration;

use arbor_bson::{ArrayBuf, Doc, DocBuf};
use arbor_command::Result;
use arbor_lang::{Collation, Context};
use arbor_query::{Elsewhere, Interrupt, Rows};
use arbor_store::Namespace;

use crate::catalog::{Catalog, Routing, versioned};
use crate::pipeline::shards_of_pipeline;
use crate::rows::{Merge, as_query, open_streams};
use crate::shard::Read;
use crate::transactions::Joined;
use crate::{ATTEMPTS, REPAIRED_AT, fields, is_stale};

/// Time to find out what a name is.
const RESOLVE_MAX: Duration = Duration::from_secs(60);

/// The collections of the cluster, for one statement.
#[derive(Clone)]
pub(crate) struct Foreign {
    pub catalog: Arc<Catalog>,
    pub collation: Option<DocBuf>,
    /// Fields of the request that name its session and its user, and the time of a snapshot.
    pub session: DocBuf,
    pub transaction: Option<Joined>,
}

impl Elsewhere for Foreign {
    fn resolve(&self, namespace: &Namespace) -> arbor_query::Result<(Namespace, ArrayBuf)> {
        let interrupt = Interrupt::never().within(RESOLVE_MAX);
        match self.catalog.view_now(namespace.db(), namespace.collection(), &interrupt).map_err(as_query)? {
            Some(view) => Ok((Namespace::new(namespace.db(), &view.on)?, view.stages)),
            None => Ok((namespace.clone(), ArrayBuf::new())),
        }
    }

    fn open(&self, namespace: &Namespace, stages: ArrayBuf, variables: DocBuf) -> Box<dyn Rows> {
        let pending = Some(Pending { foreign: self.clone(), namespace: namespace.clone(), stages, variables });
        Box::new(ForeignRows { pending, merge: None })
    }
}

struct Pending {
    foreign: Foreign,
    namespace: Namespace,
    stages: ArrayBuf,
    variables: DocBuf,
}

struct ForeignRows {
    pending: Option<Pending>,
    merge: Option<Merge>,
}

impl Rows for ForeignRows {
    fn next(&mut self, interrupt: &Interrupt) -> arbor_query::Result<Option<DocBuf>> {
        if let Some(pending) = self.pending.take() {
            self.merge = Some(pending.open(interrupt).map_err(as_query)?);
        }
        match &mut self.merge {
            Some(merge) => merge.next(interrupt),
            None => Ok(None),
        }
    }
}

impl Pending {
    /// Opens a cursor of each shard that may have documents.
    fn open(&self, interrupt: &Interrupt) -> Result<Merge> {
        let (db, catalog) = (self.namespace.db(), &self.foreign.catalog);
        let namespace = self.namespace.to_string();
        let mut attempts = 0;
        loop {
            let routing = catalog.routing(db, &namespace, interrupt)?;
            match self.open_by(&routing, interrupt) {
                Err(error) if is_stale(&error) && attempts < ATTEMPTS => {
                    interrupt.check()?;
                    let refused = catalog.forget_refused((db, &namespace), &routing, &error);
                    std::thread::sleep(Duration::from_millis(10 << attempts.min(8)));
                    attempts += 1;
                    if attempts >= REPAIRED_AT {
                        catalog.request_repair(refused);
                    }
                }
                other => return other,
            }
        }
    }

    fn open_by(&self, routing: &Routing, interrupt: &Interrupt) -> Result<Merge> {
        let (db, foreign) = (self.namespace.db(), &self.foreign);
        let shards = match routing {
            Routing::Unsharded(shard, _) | Routing::Config(shard) => vec![shard.clone()],
            Routing::Sharded(table, _) => {
                let mut context = Context::new(arbor_protocol::log::now_ms());
                if let Some(collation) = &foreign.collation {
                    context.collation = Collation::parse(collation.as_doc())?;
                }
                let names = shards_of_pipeline(table, self.stages.as_array(), &context);
                names.iter().map(|name| foreign.catalog.shard(name, interrupt)).collect::<Result<_>>()?
            }
        };
        let mut command = DocBuf::new()
            .with("aggregate", self.namespace.collection())
            .with("pipeline", &self.stages)
            .with("cursor", &DocBuf::new());
        if let Some(collation) = &foreign.collation {
            command.append("collation", collation);
        }
        if !self.variables.as_doc().is_empty() {
            command.append("let", &self.variables);
        }
        foreign.session.as_doc().iter().for_each(|(name, value)| {
            command.append(name, value);
        });
        let mut reads = Vec::new();
        for shard in shards {
            let command = versioned(command.clone(), routing, &shard.name);
            let entered = match &foreign.transaction {
                Some(transaction) => transaction.enter(&shard, command)?,
                None => (command, None),
            };
            reads.push(Read::begin(shard, db, entered, interrupt));
        }
        let streams = open_streams(reads, db, None, interrupt)?;
        Ok(Merge::new(streams, None, 0, None))
    }
}

/// Returns the fields of a request that name its session, its transaction and its user, and the time of a snapshot.
pub(crate) fn session_of(body: Doc<'_>) -> DocBuf {
    let in_transaction = body.get("autocommit").is_some();
    let is_snapshot = fields::document(body, "readConcern").is_some_and(|own| own.get("atClusterTime").is_some());
    let is_taken = |name: &str| match name {
        "lsid" | "$audit" => true,
        "txnNumber" | "autocommit" => in_transaction,
        // of a transaction the shards know it
        "readConcern" => is_snapshot && !in_transaction,
        _ => false,
    };
    body.iter().filter(|(name, _)| is_taken(name)).collect()
}
