//! Settings at the start of a member: the oplog's size, which is its own, and the set's defaults, which are rows of a collection. The member's
//! own is in a file, and shown as collections of `local`: neither is in the log, which all members share.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use arbor_bson::{Code, Doc, DocBuf, ValueRef};
use arbor_protocol::log::{iso8601, now_ms};
use arbor_protocol::process;
use arbor_query::{BatchLimit, FindSpec, Interrupt, Scope, ServerCollections};
use arbor_repl::{Defaults, Facts, OwnFacts, Replication, SETTINGS_ID};
use arbor_store::{Namespace, RecordCursor};
use arbor_txn::Retention;

use crate::{Commands, Error, MONGODB_VERSION, Result};

/// Size and retention set by `replSetResizeOplog`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct OplogSize {
    pub megabytes: Option<f64>,
    pub hours_min: Option<f64>,
}

const OPLOG_SETTINGS_ID: &str = "oplog";

const LOCAL: &str = "local";
const CONFIG: &str = "system.replset";
const OPLOG_SETTINGS: &str = "replset.oplogSettings";
const STARTUP_LOG: &str = "startup_log";

/// Collections of `local` that show what a member knows about itself.
pub(crate) struct LocalCollections {
    replication: Arc<Replication>,
    facts: Arc<OwnFacts>,
}

impl LocalCollections {
    pub(crate) fn new(replication: Arc<Replication>, facts: Arc<OwnFacts>) -> LocalCollections {
        LocalCollections { replication, facts }
    }

    fn read(&self, collection: &str) -> Vec<DocBuf> {
        let config = || {
            let state = self.replication.state();
            state.config.as_ref().map(|config| config.to_doc(state.term))
        };
        match collection {
            STARTUP_LOG => self.facts.starts(),
            OPLOG_SETTINGS => Some(self.facts.oplog()).filter(|oplog| oplog.get("_id").is_some()).into_iter().collect(),
            _ => config().into_iter().collect(),
        }
    }
}

impl ServerCollections for LocalCollections {
    fn has(&self, namespace: &Namespace) -> bool {
        namespace.db() == LOCAL && matches!(namespace.collection(), CONFIG | OPLOG_SETTINGS | STARTUP_LOG)
    }

    fn documents(&self, namespace: &Namespace) -> arbor_query::Result<Vec<DocBuf>> {
        debug_assert!(self.has(namespace), "{namespace} is a collection of the server");
        Ok(self.read(namespace.collection()))
    }

    fn listed(&self, db: &str) -> Vec<&'static str> {
        let all = [OPLOG_SETTINGS, STARTUP_LOG, CONFIG];
        all.into_iter().filter(|name| db == LOCAL && !self.read(name).is_empty()).collect()
    }
}

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

    /// Takes over what this member keeps about itself, and adds this start to it.
    pub(super) fn load_own_facts(&self) {
        let Some(facts) = &self.own_facts else { return };
        match facts.load() {
            Ok(true) => {}
            Ok(false) => self.attempt(self.facts_in_rows().map(|earlier| facts.replace(earlier))),
            Err(error) => self.attempt(Err(unwritten(error))),
        }
        self.apply_oplog_size(OplogSize::from_doc(facts.oplog().as_doc()));
        self.attempt(facts.add_start(self.describe_start()).map_err(unwritten));
    }

    /// Releases up to 2026-11-27 kept these facts in collections, and so in the log.
    fn facts_in_rows(&self) -> Result<Facts> {
        let sizes = self.stored_documents(&oplog_settings()?)?;
        let oplog = sizes.last().cloned().unwrap_or_default();
        Ok(Facts { oplog, starts: self.stored_documents(&startup_log()?)? })
    }

    /// Drops the collections in which earlier releases kept them, once they are in the file. They are in the log of all members, so a set of
    /// several keeps them, unseen: another member may not have read its own yet.
    pub(super) fn drop_rows_of_facts(&self) -> Result<()> {
        let is_kept = self.own_facts.as_ref().is_some_and(|facts| facts.is_kept());
        if !is_kept || self.several.handle().is_some() {
            return Ok(());
        }
        for namespace in [oplog_settings()?, startup_log()?, shown_config()?] {
            if self.database.store.collection(&namespace).is_some() {
                self.database.store.drop_collection(&namespace)?;
            }
        }
        Ok(())
    }

    pub(crate) fn resize_oplog(&self, change: OplogSize) -> Result<()> {
        let Some(facts) = &self.own_facts else { return Ok(()) };
        let before = OplogSize::from_doc(facts.oplog().as_doc());
        let after = OplogSize {
            megabytes: change.megabytes.or(before.megabytes),
            hours_min: change.hours_min.or(before.hours_min),
        };
        facts.set_oplog(after.to_doc()).map_err(unwritten)?;
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

    /// The documents of a collection in the order of their `_id`, not those that the server shows in its place.
    fn stored_documents(&self, namespace: &Namespace) -> Result<Vec<DocBuf>> {
        let mut rows = Vec::new();
        let Some((collection, view)) = self.database.store.snapshot(namespace)? else { return Ok(rows) };
        let mut cursor = RecordCursor::new(&view, &collection)?;
        let mut valid = cursor.first()?;
        while valid {
            rows.push(cursor.doc().to_buf());
            valid = cursor.next()?;
        }
        Ok(rows)
    }

    fn describe_start(&self) -> DocBuf {
        let (host, now) = (process::host_name(), now_ms());
        let build = DocBuf::new().with("version", MONGODB_VERSION).with("arbor", env!("CARGO_PKG_VERSION"));
        DocBuf::new()
            .with("_id", format!("{host}-{now}").as_str())
            .with("hostname", host.as_str())
            .with("startTime", ValueRef::DateTime(now))
            .with("startTimeLocal", iso8601(now).as_str())
            .with("cmdLine", &self.options.parsed)
            .with("pid", i64::from(std::process::id()))
            .with("buildinfo", &build)
    }
}

fn unwritten(error: io::Error) -> Error {
    Error::new(Code::INTERNAL_ERROR, error.to_string())
}

fn settings() -> Result<Namespace> {
    Ok(Namespace::new("config", "settings")?)
}

fn oplog_settings() -> Result<Namespace> {
    Ok(Namespace::new(LOCAL, OPLOG_SETTINGS)?)
}

fn startup_log() -> Result<Namespace> {
    Ok(Namespace::new(LOCAL, STARTUP_LOG)?)
}

fn shown_config() -> Result<Namespace> {
    Ok(Namespace::new(LOCAL, CONFIG)?)
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
