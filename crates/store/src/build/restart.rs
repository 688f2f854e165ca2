//! Builds that the end of the process broke off begin again.

use std::sync::atomic::Ordering;

use arbor_bson::DocBuf;
use arbor_txn::Durability;
use uuid::Uuid;

use super::BuildSettings;
use crate::catalogue::{self, CATALOGUE};
use crate::{IndexesCreated, Namespace, Result, Store};

/// A build that is noted in the catalogue, but not running.
#[derive(Clone, Debug)]
pub struct UnfinishedBuild {
    pub uuid: Uuid,
    pub collection: Uuid,
    pub namespace: Namespace,
    pub specs: Vec<DocBuf>,
}

impl Store {
    /// What the catalogue had when the store was opened.
    pub fn unfinished_builds(&self) -> &[UnfinishedBuild] {
        &self.unfinished
    }

    /// Builds the indexes that are not there yet. `None`: the collection is gone.
    ///
    /// Its note goes, whatever comes out, unless it is broken off once more because the server is going down.
    pub fn build_again(&self, build: &UnfinishedBuild, settings: BuildSettings<'_>) -> Result<Option<IndexesCreated>> {
        let collection = self.collection(&build.namespace).filter(|own| own.uuid == build.collection);
        self.builds.begun_again.fetch_add(1, Ordering::Relaxed);
        let outcome = match collection {
            Some(_) => self.create_indexes_as(build.uuid, &build.namespace, &build.specs, settings).map(Some),
            None => Ok(None),
        };
        if outcome.is_ok() || !settings.watch.is_closing() {
            let mut txn = self.transactions.begin()?;
            txn.delete(CATALOGUE, catalogue::unfinished_key(build.uuid));
            txn.commit(Durability::Applied)?;
        }
        outcome
    }
}
