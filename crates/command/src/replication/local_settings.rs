//! Settings that a member stores in collections: the oplog's size, the set's defaults, `local.startup_log`.

use std::time::Duration;

use arbor_bson::{Doc, DocBuf, ValueRef};
use arbor_protocol::log::{iso8601, now_ms};
use arbor_protocol::process;
use arbor_query::{BatchLimit, FindSpec, InsertSpec, Interrupt, Scope};
use arbor_repl::{Defaults, Replication, SETTINGS_ID};
use arbor_store::Namespace;
use arbor_txn::{Durability, Retention};

use crate::{Commands, MONGODB_VERSION, Result};

/// Size and retention set by `replSetResizeOplog`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct OplogSize {
    pub megabytes: Option<f64>,
    pub hours_min: Option<f64>,
}

const OPLOG_SETTINGS_ID: &str = "oplog";
const STARTUP_LOG_BYTES: i64 = 10 << 20;

impl OplogSize {
    fn applied_to(self, retention: Retention) -> Retention {
        let bytes = self.megabytes.map_or(retention.bytes, |megabytes| (megabytes * (1 << 20) as f64) as u64);
        let hours =
            |hours: f64| Duration::try_from_secs_f64(hours * 3600.0).unwrap_or(Duration::from_secs(u32::MAX.into()));
        Retention { bytes, time: self.hours_min.map_or(retention.time, hours) }
    }

    fn from_doc(doc: Doc<'_>) -> OplogSize {
        let real = |name| match doc.get(name) {
            Some(ValueRef::Double(number)) => Some(number),
            _ => None,
        };
        OplogSize { megabytes: real("size"), hours_min: real("minRetentionHours") }
    }

    fn to_doc(self) -> DocBuf {
        let fields = [("size", self.megabytes), ("minRetentionHours", self.hours_min)];
        let mut doc = DocBuf::new().with("_id", OPLOG_SETTINGS_ID);
        for (name, value) in fields {
            if let Some(value) = value {
                doc.append(name, value);
            }
        }
        doc
    }
}

impl Commands {
    pub(super) fn load_defaults(&self, replication: &Replication) -> Result<()> {
        if let Some(doc) = self.setting(&settings()?, SETTINGS_ID)? {
            replication.put_defaults(Defaults::from_doc(doc.as_doc()));
        }
        Ok(())
    }

    /// At the start of a member.
    pub(super) fn load_local_settings(&self, replication: &Replication) -> Result<()> {
        self.load_defaults(replication)?;
        if let Some(doc) = self.setting(&oplog_settings()?, OPLOG_SETTINGS_ID)? {
            self.apply_oplog_size(OplogSize::from_doc(doc.as_doc()));
        }
        self.log_startup()
    }

    pub(crate) fn resize_oplog(&self, change: OplogSize) -> Result<()> {
        let before = self.setting(&oplog_settings()?, OPLOG_SETTINGS_ID)?;
        let before = before.map(|doc| OplogSize::from_doc(doc.as_doc())).unwrap_or_default();
        let after = OplogSize {
            megabytes: change.megabytes.or(before.megabytes),
            hours_min: change.hours_min.or(before.hours_min),
        };
        self.persist(&oplog_settings()?, after.to_doc().as_doc())?;
        self.apply_oplog_size(after);
        Ok(())
    }

    fn apply_oplog_size(&self, size: OplogSize) {
        let transactions = &self.database.transactions;
        if let Some(retention) = transactions.retention() {
            transactions.set_retention(size.applied_to(retention));
        }
    }

    pub(crate) fn set_defaults(&self, replication: &Replication, defaults: Defaults) -> Result<()> {
        self.persist(&settings()?, defaults.to_doc().as_doc())?;
        replication.put_defaults(defaults);
        Ok(())
    }

    fn setting(&self, namespace: &Namespace, id: &str) -> Result<Option<DocBuf>> {
        let filter = DocBuf::new().with("_id", id);
        let spec = FindSpec { filter: filter.as_doc(), ..FindSpec::new(namespace.clone()) };
        let interrupt = Interrupt::default();
        let batch = arbor_query::find(&Scope::of(&self.database), &spec, &interrupt)?
            .next_batch(BatchLimit::docs(1), &interrupt)?;
        Ok(match batch.docs.as_array().get(0) {
            Some(ValueRef::Document(doc)) => Some(doc.to_buf()),
            _ => None,
        })
    }

    /// One document for each start.
    fn log_startup(&self) -> Result<()> {
        let namespace = Namespace::new("local", "startup_log")?;
        let options = DocBuf::new().with("capped", true).with("size", STARTUP_LOG_BYTES);
        if self.database.store.collection(&namespace).is_none() {
            self.database.store.create_collection(&namespace, &options)?;
        }
        let (host, now) = (process::host_name(), now_ms());
        let build = DocBuf::new().with("version", MONGODB_VERSION).with("arbor", env!("CARGO_PKG_VERSION"));
        let doc = DocBuf::new()
            .with("_id", format!("{host}-{now}").as_str())
            .with("hostname", host.as_str())
            .with("startTime", ValueRef::DateTime(now))
            .with("startTimeLocal", iso8601(now).as_str())
            .with("cmdLine", &self.options.parsed)
            .with("pid", i64::from(std::process::id()))
            .with("buildinfo", &build);
        let spec = InsertSpec {
            namespace,
            documents: vec![doc.as_doc()],
            ordered: true,
            durability: Durability::Applied,
            bypass_validation: true,
        };
        let outcome = arbor_query::insert(&Scope::of(&self.database), &spec, &Interrupt::default())?;
        match outcome.errors.into_iter().next() {
            Some(failed) => Err(failed.error.into()),
            None => Ok(()),
        }
    }
}

fn settings() -> Result<Namespace> {
    Ok(Namespace::new("config", "settings")?)
}

/// Only this member's.
fn oplog_settings() -> Result<Namespace> {
    Ok(Namespace::new("local", "replset.oplogSettings")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_that_was_said_goes_over_the_flags() {
        let flags = Retention { bytes: 7, time: Duration::from_secs(9) };
        let size = OplogSize { megabytes: Some(1000.0), hours_min: None };
        assert_eq!(size.applied_to(flags), Retention { bytes: 1000 << 20, ..flags });
        let both = OplogSize { hours_min: Some(1.5), ..size };
        assert_eq!(both.applied_to(flags).time, Duration::from_secs(5400));
        assert_eq!(OplogSize::from_doc(both.to_doc().as_doc()), both);
    }
}
