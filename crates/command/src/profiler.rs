//! The database profiler: operations of a database as documents of its capped collection `system.profile`.
//!
//! A level belongs to a database and lasts until the restart: 0 records nothing, 1 what is slow or what the database's filter takes,
//! 2 everything. Threshold and sample rate are the server's, and those of the slow query log. A filter takes the place of both, in the log
//! as well. Documents are written by the operation's thread, after it ended, without waiting for the disk; they are not in the oplog.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

use arbor_base::Durability;
use arbor_bson::DocBuf;
use arbor_lang::{Context, Filter};
use arbor_protocol::log::{events, now_ms};
use arbor_query::{InsertSpec, Interrupt, Scope};
use arbor_store::Namespace;
use parking_lot::RwLock;

use crate::{Commands, Result};

const COLLECTION: &str = "system.profile";
/// A shorter operation that is logged has an exact CPU time.
const EXACT_BELOW_MS: i32 = 10;
/// As in MongoDB.
const COLLECTION_BYTES: i64 = 1 << 20;

pub(crate) struct Profiler {
    slow_ms: AtomicI32,
    /// The bits of a double.
    sample_rate: AtomicU64,
    databases: RwLock<BTreeMap<String, DatabaseProfile>>,
    /// Level of databases without one of their own.
    default_level: AtomicI32,
    /// A database has a level or a filter.
    active: AtomicBool,
    /// The log has every operation, whatever it took.
    logs_all: AtomicBool,
    /// See the parameter `notablescan`; kept here, since every statement reads it.
    scans_forbidden: AtomicBool,
}

#[derive(Clone, Default)]
pub(crate) struct DatabaseProfile {
    pub level: i32,
    pub filter: Option<(DocBuf, Filter)>,
}

/// Outcome for an operation that ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub logged: bool,
    pub recorded: bool,
}

impl Profiler {
    pub(crate) fn new(slow_ms: i32, sample_rate: f64, level: i32) -> Profiler {
        Profiler {
            slow_ms: AtomicI32::new(slow_ms),
            sample_rate: AtomicU64::new(sample_rate.to_bits()),
            databases: RwLock::default(),
            default_level: AtomicI32::new(level),
            active: AtomicBool::new(level > 0),
            logs_all: AtomicBool::new(false),
            scans_forbidden: AtomicBool::new(false),
        }
    }

    pub(crate) fn slow_ms(&self) -> i32 {
        self.slow_ms.load(Ordering::Relaxed)
    }

    pub(crate) fn set_slow_ms(&self, slow_ms: i32) {
        self.slow_ms.store(slow_ms, Ordering::Relaxed);
    }

    pub(crate) fn sample_rate(&self) -> f64 {
        f64::from_bits(self.sample_rate.load(Ordering::Relaxed))
    }

    pub(crate) fn set_sample_rate(&self, rate: f64) {
        self.sample_rate.store(rate.to_bits(), Ordering::Relaxed);
    }

    pub(crate) fn forbid_scans(&self, forbid: bool) {
        self.scans_forbidden.store(forbid, Ordering::Relaxed);
    }

    pub(crate) fn forbids_scans(&self) -> bool {
        self.scans_forbidden.load(Ordering::Relaxed)
    }

    pub(crate) fn log_all(&self, all: bool) {
        self.logs_all.store(all, Ordering::Relaxed);
    }

    /// Returns true if operations of less than [`EXACT_BELOW_MS`] may have to be logged or recorded.
    pub(crate) fn is_exact(&self) -> bool {
        (0..EXACT_BELOW_MS).contains(&self.slow_ms()) || self.is_active() || self.logs_all.load(Ordering::Relaxed)
    }

    /// Returns true if operations may have to be recorded.
    pub(crate) fn is_active(&self) -> bool {
        self.active.load(Ordering::Relaxed)
    }

    pub(crate) fn of(&self, db: &str) -> DatabaseProfile {
        let level = self.default_level.load(Ordering::Relaxed);
        let own = self.databases.read().get(db).cloned();
        own.unwrap_or(DatabaseProfile { level, filter: None })
    }

    pub(crate) fn set(&self, db: &str, profile: DatabaseProfile) {
        let mut databases = self.databases.write();
        databases.insert(db.to_owned(), profile);
        let of_one = databases.values().any(|own| own.level > 0 || own.filter.is_some());
        self.active.store(of_one || self.default_level.load(Ordering::Relaxed) > 0, Ordering::Relaxed);
    }

    /// Decides about an operation; `shown` makes its document, for a filter.
    pub(crate) fn judge(&self, db: &str, took_ms: u128, shown: impl FnOnce() -> DocBuf) -> Verdict {
        let profile = if self.is_active() { self.of(db) } else { DatabaseProfile::default() };
        if let Some((_, filter)) = &profile.filter {
            let matches = filter.matches(shown().as_doc()).unwrap_or(false);
            return Verdict { logged: matches, recorded: profile.level > 1 || matches && profile.level == 1 };
        }
        let slow_ms = self.slow_ms();
        let slow = slow_ms >= 0 && took_ms >= slow_ms as u128;
        let rate = self.sample_rate();
        let slow = slow && (rate >= 1.0 || rand::random::<f64>() < rate);
        let logged = slow || self.logs_all.load(Ordering::Relaxed);
        Verdict { logged, recorded: profile.level > 1 || slow && profile.level == 1 }
    }
}

impl DatabaseProfile {
    /// Errors: the filter is none.
    pub(crate) fn with_filter(self, filter: &DocBuf) -> Result<DatabaseProfile> {
        let parsed = Filter::parse(filter.as_doc(), &Context::new(now_ms()))?;
        Ok(DatabaseProfile { filter: Some((filter.clone(), parsed)), ..self })
    }
}

impl Commands {
    /// Creates the collection of a database's profile, unless it is there.
    pub(crate) fn ensure_profile(&self, db: &str) -> Result<Namespace> {
        let namespace = Namespace::new(db, COLLECTION)?;
        if self.database.store.collection(&namespace).is_none() {
            let options = DocBuf::new().with("capped", true).with("size", COLLECTION_BYTES);
            match self.database.store.create_collection(&namespace, &options) {
                Ok(_) | Err(arbor_store::Error::NamespaceExists(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(namespace)
    }

    /// Adds the document of one operation. What fails is in the log: the operation itself is done.
    pub(crate) fn record(&self, db: &str, operation: &DocBuf) {
        let recorded = self.ensure_profile(db).and_then(|namespace| {
            let spec = InsertSpec {
                namespace,
                documents: vec![operation.as_doc()],
                ordered: true,
                durability: Durability::Applied,
                bypass_validation: true,
            };
            let outcome = arbor_query::insert(&Scope::of_server(&self.database), &spec, &Interrupt::never())?;
            match outcome.errors.into_iter().next() {
                Some(failed) => Err(failed.error.into()),
                None => Ok(()),
            }
        });
        if let Err(error) = recorded {
            let attributes = DocBuf::new().with("db", db).with("error", &error.message);
            self.log.warn(events::PROFILE_FAILED, "profiler", attributes);
        }
    }
}
