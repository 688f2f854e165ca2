//! Builds that the end of the process interrupted begin again, [`RESTARTS_MAX`] times: a build that ends the process would end
//! it at each start. The count is in the build's note and is durable before the build begins.

use std::sync::atomic::Ordering;

use arbor_bson::DocBuf;
use arbor_txn::{Durability, Transaction};
use uuid::Uuid;

use super::BuildSettings;
use crate::catalogue::{self, CATALOGUE};
use crate::noting::commands::{self as noting, BuildStep};
use crate::{Collection, Error, IndexesCreated, Namespace, Result, Store};

/// A build that is noted in the catalogue, but not running.
#[derive(Clone, Debug)]
pub struct UnfinishedBuild {
    pub uuid: Uuid,
    pub collection: Uuid,
    pub namespace: Namespace,
    pub specs: Vec<DocBuf>,
    /// Number of restarts that ended with the process, but for a shutdown.
    pub restarts: u32,
}

/// Maximum number of times that a build begins again.
pub(super) const RESTARTS_MAX: u32 = 2;

impl UnfinishedBuild {
    /// Returns true if the next [`Store::build_again`] builds; else it ends the build.
    pub fn begins_again(&self) -> bool {
        self.restarts < RESTARTS_MAX
    }

    pub(super) fn put_note(&self, txn: &mut Transaction) {
        txn.put(CATALOGUE, catalogue::unfinished_key(self.uuid), catalogue::encode_unfinished(self).into_bytes());
    }
}

impl Store {
    /// Returns the unfinished builds of the catalogue when the store was opened, or last took over.
    pub fn unfinished_builds(&self) -> Vec<UnfinishedBuild> {
        self.unfinished.lock().clone()
    }

    /// Builds the indexes that are not there yet. `None`: the collection is gone.
    ///
    /// Its note is removed in any case, unless a shutdown interrupts it once more.
    ///
    /// Errors: `IndexBuildAborted` when it began again too often; why it failed.
    pub fn build_again(&self, build: &UnfinishedBuild, settings: BuildSettings<'_>) -> Result<Option<IndexesCreated>> {
        let collection = self.collection(&build.namespace).filter(|own| own.uuid == build.collection);
        if !build.begins_again() {
            return Err(self.abort_restarted(build, collection.as_deref())?);
        }
        let mut txn = self.transactions.begin()?;
        UnfinishedBuild { restarts: build.restarts + 1, ..build.clone() }.put_note(&mut txn);
        txn.commit(Durability::Journaled)?;
        self.builds.begun_again.fetch_add(1, Ordering::Relaxed);
        let outcome = match collection {
            Some(_) => self.create_indexes_as(build.uuid, &build.namespace, &build.specs, settings).map(Some),
            None => Ok(None),
        };
        let mut txn = self.transactions.begin()?;
        match outcome.is_err() && settings.watch.is_closing() {
            true => build.put_note(&mut txn),
            false => txn.delete(CATALOGUE, catalogue::unfinished_key(build.uuid)),
        }
        txn.commit(Durability::Applied)?;
        outcome
    }

    /// Returns the error that the build ends with. Its trees went when the store was opened.
    fn abort_restarted(&self, build: &UnfinishedBuild, collection: Option<&Collection>) -> Result<Error> {
        let error =
            Error::IndexBuildAborted { build: build.uuid, reason: "the server ended during it again and again" };
        let mut txn = self.transactions.begin()?;
        txn.delete(CATALOGUE, catalogue::unfinished_key(build.uuid));
        if let Some(collection) = collection {
            noting::build(&mut txn, collection, build.uuid, &build.specs, BuildStep::Aborted(&error.to_string()));
        }
        txn.commit(Durability::Journaled)?;
        Ok(error)
    }
}
