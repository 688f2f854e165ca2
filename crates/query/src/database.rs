//! Shared state of all statements: the store with its transactions, and the open cursors.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use arbor_base::Position;
use arbor_base::memory::{self, Allowance, Budget, Class};
use arbor_bson::{Code, DocBuf};
use arbor_store::{Collection, Namespace, Store};
use arbor_txn::{Durability, ReadView, Transactions};

use crate::feed::Feed;
use crate::stream::ImagesExpiry;
use crate::write::UnreadUpdates;
use crate::{CursorRegistry, Error, IndexFilters, PlanCache, QuerySettings, Result};

/// Memory limit of one blocking operator, and the directory for the rest.
#[derive(Clone, Debug)]
pub struct Memory {
    pub bytes_max: usize,
    /// Budget that it is reserved from.
    pub budget: &'static Budget,
    /// Directory for sorted runs. None: what does not fit is an error.
    pub scratch: Option<PathBuf>,
}

impl Memory {
    pub fn allowance(&self) -> Allowance {
        self.budget.allowance(Class::Statement, self.bytes_max)
    }
}

/// Bounds on the work of one statement.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Bytes that one blocking sort may hold.
    pub sort_bytes_max: usize,
    /// Bytes that one `$group` may hold.
    pub group_bytes_max: usize,
    /// Budget that both are reserved from.
    pub budget: &'static Budget,
    /// Directory for what exceeds these. None: it is an error.
    pub scratch: Option<PathBuf>,
    /// Cost (in index keys read) from which candidate plans are tried where statistics are inconclusive.
    pub trial_cost_min: f64,
    /// Documents and bytes that one transaction of a multi-document write takes.
    pub write_docs_max: usize,
    pub write_bytes_max: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            sort_bytes_max: 100 * 1024 * 1024,
            group_bytes_max: 100 * 1024 * 1024,
            budget: memory::process(),
            scratch: None,
            trial_cost_min: 500.0,
            write_docs_max: 1000,
            write_bytes_max: 16 * 1024 * 1024,
        }
    }
}

impl Settings {
    /// For a statement that may use the disk, or may not.
    pub fn with_disk_use(&self, allowed: bool) -> Settings {
        let scratch = self.scratch.clone().filter(|_| allowed);
        Settings { scratch, ..self.clone() }
    }

    pub fn sort_memory(&self) -> Memory {
        Memory { bytes_max: self.sort_bytes_max, budget: self.budget, scratch: self.scratch.clone() }
    }

    pub fn group_memory(&self) -> Memory {
        Memory { bytes_max: self.group_bytes_max, budget: self.budget, scratch: self.scratch.clone() }
    }
}

/// Callback for a document that was written although it fails the validator of its collection: the collection, and
/// which document and why.
pub type WarnOfMismatch = Box<dyn Fn(&Namespace, &DocBuf) + Send + Sync>;

/// Collections without rows of their own: the server's state as documents, which can only be read.
pub trait ServerCollections: Send + Sync {
    /// Returns true if the name is that of such a collection.
    fn has(&self, namespace: &Namespace) -> bool;

    /// Returns the documents of a collection that is there.
    fn documents(&self, namespace: &Namespace) -> Result<Vec<DocBuf>>;

    /// Names of the collections that listings of a database show.
    fn listed(&self, _db: &str) -> Vec<&'static str> {
        Vec::new()
    }
}

/// Shared by all connections.
pub struct Database {
    pub store: Arc<Store>,
    pub transactions: Arc<Transactions>,
    pub cursors: CursorRegistry,
    pub settings: Settings,
    pub plan_cache: PlanCache,
    pub index_filters: IndexFilters,
    pub query_settings: QuerySettings,
    pub feed: Arc<Feed>,
    pub images_expiry: Arc<ImagesExpiry>,
    pub unread_updates: UnreadUpdates,
    /// None: mismatches are not reported.
    pub on_mismatch: Option<WarnOfMismatch>,
    /// They take precedence over collections of the store.
    pub server_collections: Vec<Box<dyn ServerCollections>>,
}

impl Database {
    /// Errors: `IllegalOperation` for a change of the database `local` on a member of several. It belongs to each member alone, and
    /// the log to all of them.
    pub fn check_local(&self, db: &str) -> Result<()> {
        if db != "local" || !self.transactions.is_of_set() {
            return Ok(());
        }
        let text =
            "the database local cannot be written on a member of a set of several: the write would reach all members";
        Err(Error::new(Code::ILLEGAL_OPERATION, text))
    }

    pub fn new(store: Arc<Store>, transactions: Arc<Transactions>) -> Database {
        crate::aggregate::out::drop_unfinished(&store);
        let feed = Feed::new(transactions.clone());
        let settings = Settings { scratch: Some(store.scratch().to_owned()), ..Settings::default() };
        Database {
            store,
            transactions,
            cursors: CursorRegistry::default(),
            settings,
            plan_cache: PlanCache::default(),
            index_filters: IndexFilters::default(),
            query_settings: QuerySettings::default(),
            feed,
            images_expiry: Arc::new(ImagesExpiry::new(-1)),
            unread_updates: UnreadUpdates::default(),
            on_mismatch: None,
            server_collections: Vec::new(),
        }
    }

    /// A collection with a snapshot in which it and its indexes are. None: there is no such collection.
    pub(crate) fn snapshot(&self, namespace: &Namespace) -> Result<Option<(Arc<Collection>, ReadView)>> {
        Ok(self.store.snapshot(namespace)?)
    }

    /// Returns true for a collection without rows of its own.
    pub fn has_of_server(&self, namespace: &Namespace) -> bool {
        self.server_collections.iter().any(|own| own.has(namespace))
    }

    pub(crate) fn documents_of_server(&self, namespace: &Namespace) -> Result<Vec<DocBuf>> {
        let own = self.server_collections.iter().find(|own| own.has(namespace));
        own.map_or_else(|| Ok(Vec::new()), |own| own.documents(namespace))
    }

    pub(crate) fn warn_of_mismatch(&self, collection: &Collection, info: &DocBuf) {
        if let Some(warn) = &self.on_mismatch {
            warn(&collection.namespace, info);
        }
    }

    /// Waits until a commit is as durable as the client requested. None: everything that was committed before the call is.
    pub fn make_durable(&self, durability: Durability, commit: Option<Position>) -> Result<()> {
        match durability {
            Durability::Applied => Ok(()),
            Durability::Journaled => Ok(self.transactions.make_durable(commit)?),
        }
    }
}

/// Milliseconds since 1970.
pub fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}
