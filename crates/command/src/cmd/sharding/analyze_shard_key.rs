//! `analyzeShardKey` on a replica set.

use arbor_bson::{ArrayBuf, Code, DocBuf};
use arbor_query::AggregateSpec;
use arbor_store::{Collection, Namespace};
use arbor_txn::Durability;
use std::sync::Arc;

use crate::analysis::{Analysis, Analyzed, ConfigCollections, SAMPLES, Totals, samples_of};
use crate::call::Call;
use crate::cmd::diagnostics::coll_stats::Statistics;
use crate::{Error, Result};

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    let analysis = Analysis::parse(call.body)?;
    refuse_alone(call, call.info.name)?;
    let reply = analysis.run(&Local { call })?;
    call.reply = reply;
    Ok(())
}

/// Refuses what replica sets and routers have, but neither standalone servers nor shards.
pub(crate) fn refuse_alone(call: &Call<'_>, name: &str) -> Result<()> {
    let what = match (call.server.is_shard(), call.database().transactions.retention()) {
        (true, _) => "a shard: send it to a router",
        (false, None) => "a standalone server",
        (false, Some(_)) => return Ok(()),
    };
    Err(Error::new(Code::ILLEGAL_OPERATION, format!("{name} is not supported on {what}")))
}

/// A collection of this server.
pub(super) struct Local<'l, 'c> {
    pub call: &'l Call<'c>,
}

impl Local<'_, '_> {
    fn collection(&self, namespace: &Namespace) -> Result<Arc<Collection>> {
        let store = &self.call.database().store;
        if store.buckets_of(namespace).is_some() {
            let text = format!("{namespace} is a time series collection");
            return Err(Error::new(Code::ILLEGAL_OPERATION, text));
        }
        store.refuse_view(namespace)?;
        let missing = || Error::new(Code::NAMESPACE_NOT_FOUND, format!("Namespace {namespace} does not exist"));
        store.collection(namespace).ok_or_else(missing)
    }
}

impl Analyzed for Local<'_, '_> {
    fn totals(&self, namespace: &Namespace) -> Result<Totals> {
        let statistics = Statistics::of(self.call, &*self.collection(namespace)?)?;
        let average = statistics.data_bytes.checked_div(statistics.documents).unwrap_or(0);
        Ok(Totals { documents: statistics.documents, orphans: None, bytes_of_document: average })
    }

    fn uuid(&self, namespace: &Namespace) -> Result<Vec<u8>> {
        Ok(self.collection(namespace)?.uuid.as_bytes().to_vec())
    }

    fn samples(&self, namespace: &Namespace) -> Result<Vec<DocBuf>> {
        self.call.server.store_samples(&self.call.interrupt);
        self.call.server.read(SAMPLES, &samples_of(namespace, &self.uuid(namespace)?), &self.call.interrupt)
    }

    fn indexes(&self, namespace: &Namespace) -> Result<Vec<DocBuf>> {
        Ok(self.collection(namespace)?.index_specs())
    }

    fn aggregate(&self, namespace: &Namespace, pipeline: &ArrayBuf) -> Result<Vec<DocBuf>> {
        let spec = AggregateSpec {
            namespace: namespace.clone(),
            collectionless: false,
            pipeline: pipeline.as_array(),
            hint: None,
            collation: Some(arbor_lang::Collation::simple()),
            let_variables: None,
            durability: Durability::Applied,
            allow_disk_use: true,
            bypass_validation: false,
        };
        Ok(arbor_query::aggregate(&self.call.scope(), &spec, &self.call.interrupt)?.all(&self.call.interrupt)?)
    }
}
