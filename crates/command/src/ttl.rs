//! The TTL monitor's work: passes over all TTL indexes that delete what has expired. The thread is the process's own.
//!
//! A pass goes round the indexes, one batch of each in turn, so that one with a backlog does not keep the others waiting,
//! and ends when none has more. An index that fails is skipped until the next pass.

use std::sync::atomic::Ordering;
use std::time::Duration;

use arbor_bson::DocBuf;
use arbor_protocol::log::{events, now_ms};
use arbor_query::{Interrupt, Scope};
use arbor_store::Namespace;

use crate::Commands;

/// Documents of one index that are deleted before the next index has its turn: one or a few transactions.
const BATCH_DOCUMENTS: u64 = 1000;

/// One TTL index, by its names, since it may be dropped at any time.
struct Job {
    namespace: Namespace,
    /// None: the collection itself, which is clustered.
    index: Option<String>,
}

impl Commands {
    /// Time between two passes. None: the monitor is switched off.
    pub fn ttl_pause(&self) -> Option<Duration> {
        let seconds = self.parameters.int("ttlMonitorSleepSecs").unwrap_or(60).max(1) as u64;
        self.parameters.bool("ttlMonitorEnabled").then_some(Duration::from_secs(seconds))
    }

    /// One pass.
    pub fn delete_expired(&self) {
        if self.replication.as_ref().is_some_and(|replication| !replication.is_primary()) {
            return;
        }
        if self.write_block.is_locked() {
            return;
        }
        let now = now_ms();
        let mut jobs = self.ttl_jobs();
        while !jobs.is_empty() {
            jobs.retain(|job| !self.stopping.load(Ordering::Relaxed) && self.run_job(job, now));
        }
        self.metrics.ttl.passes.add(1);
    }

    fn ttl_jobs(&self) -> Vec<Job> {
        let store = &self.database.store;
        let collections = store.list_databases().into_iter().flat_map(|db| store.list_collections(&db));
        let jobs = collections.flat_map(|collection| {
            let expiring = collection.indexes.iter().filter(|index| index.expire_after_seconds.is_some());
            let expiring = expiring.map(|index| Some(index.name.clone()));
            let itself = collection.expire_after_seconds().map(|_| None);
            let job = |index| Job { namespace: collection.namespace.clone(), index };
            itself.into_iter().chain(expiring).map(job).collect::<Vec<_>>()
        });
        jobs.collect()
    }

    /// One batch; answers whether there may be more.
    fn run_job(&self, job: &Job, now_ms: i64) -> bool {
        let Job { namespace, index } = job;
        let never = Interrupt::never();
        let scope = &Scope::of(&self.database);
        let deleted = match index {
            Some(index) => arbor_query::expire(scope, namespace, index, now_ms, BATCH_DOCUMENTS, &never),
            None => arbor_query::expire_clustered(scope, namespace, now_ms, BATCH_DOCUMENTS, &never),
        };
        match deleted {
            Ok(deleted) => {
                self.metrics.ttl.deleted.add(deleted);
                deleted == BATCH_DOCUMENTS
            }
            Err(error) => {
                let attributes = DocBuf::new()
                    .with("namespace", namespace.as_str())
                    .with("index", index.as_deref().unwrap_or("clustered"));
                self.log.warn(events::TTL_FAILED, "TTLMonitor", attributes.with("error", &error.to_string()));
                false
            }
        }
    }
}
