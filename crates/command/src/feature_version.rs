//! The feature compatibility version: kept in `admin.system.version`, and shown. It changes nothing: any version of Arbor opens any
//! older format.

use std::sync::atomic::{AtomicBool, Ordering};

use arbor_bson::{DocBuf, ValueRef};
use arbor_query::{FindSpec, Interrupt, Scope};
use arbor_store::Namespace;

use crate::{Commands, Result};

pub(crate) const LATEST: &str = "8.0";
/// The version that MongoDB of the latest one can be set back to.
pub(crate) const OLDER: &str = "7.0";

const ID: &str = "featureCompatibilityVersion";

#[derive(Default)]
pub(crate) struct FeatureVersion {
    is_older: AtomicBool,
}

impl FeatureVersion {
    pub(crate) fn name(&self) -> &'static str {
        if self.is_older.load(Ordering::Relaxed) { OLDER } else { LATEST }
    }
}

impl Commands {
    /// Takes the version that was set before the start; directories without one have the latest.
    pub fn read_feature_version(&self) -> Result<()> {
        let filter = DocBuf::new().with("_id", ID);
        let spec = FindSpec { filter: filter.as_doc(), ..FindSpec::new(namespace()?) };
        let found = arbor_query::find(&Scope::of(&self.database), &spec, &Interrupt::never())?;
        let stored = found.all(&Interrupt::never())?.into_iter().next();
        let is_older = stored.is_some_and(|stored| matches!(stored.get("version"), Some(ValueRef::String(OLDER))));
        self.feature_version.is_older.store(is_older, Ordering::Relaxed);
        Ok(())
    }

    /// Requires [`LATEST`] or [`OLDER`].
    pub(crate) fn set_feature_version(&self, version: &str) -> Result<()> {
        self.persist(&namespace()?, DocBuf::new().with("_id", ID).with("version", version).as_doc())?;
        self.feature_version.is_older.store(version == OLDER, Ordering::Relaxed);
        Ok(())
    }
}

fn namespace() -> Result<Namespace> {
    Ok(Namespace::new("admin", "system.version")?)
}
