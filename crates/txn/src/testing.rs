//! A commit path in memory, for the tests of the crates above: model engine, log on a faulty disk.

use std::path::Path;
use std::sync::Arc;

use arbor_disk::FaultyDisk;
use arbor_engine::model::ModelEngine;
use arbor_log::{Log, LogOptions};

use crate::{Options, Result, Transactions};

/// Everything that a test may want to break, crash or open again.
pub struct InMemory {
    pub disk: FaultyDisk,
    pub engine: Arc<ModelEngine>,
    pub transactions: Arc<Transactions>,
}

impl InMemory {
    /// A new, empty one.
    pub fn new(options: Options) -> Result<InMemory> {
        let engine = options.updates.clone().map_or_else(ModelEngine::new, ModelEngine::with_updates);
        InMemory::open(FaultyDisk::new(), engine, options)
    }

    /// Creates a new, empty one whose log has segments of `segment_bytes` bytes.
    pub fn with_segments(options: Options, segment_bytes: u64) -> Result<InMemory> {
        let log = LogOptions { segment_bytes, ..LogOptions::default() };
        InMemory::open_with(FaultyDisk::new(), ModelEngine::new(), options, log)
    }

    /// On what a crash left behind (see `FaultyDisk::crash` and `ModelEngine::crash`).
    pub fn open(disk: FaultyDisk, engine: ModelEngine, options: Options) -> Result<InMemory> {
        InMemory::open_with(disk, engine, options, LogOptions::default())
    }

    fn open_with(disk: FaultyDisk, engine: ModelEngine, options: Options, log: LogOptions) -> Result<InMemory> {
        let log = Log::open(Arc::new(disk.clone()), Path::new("log"), log);
        let log = log.map_err(crate::error::log_error)?;
        let engine = Arc::new(engine);
        let transactions = Transactions::open(log, engine.clone(), options)?;
        Ok(InMemory { disk, engine, transactions })
    }
}

/// Like [`InMemory::new`] with default options, but returns the transactions alone.
pub fn transactions() -> Result<Arc<Transactions>> {
    InMemory::new(Options::default()).map(|own| own.transactions)
}
