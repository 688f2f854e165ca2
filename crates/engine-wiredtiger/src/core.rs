//! The state that the parts of the engine share: one writer, many readers, concurrent checkpoints.
//!
//! Locks, in the order in which they are taken: `flushing` (checkpoints and what must not overlap them), `writer` (the writer:
//! a group of batches), `stable`, the pool's and the short ones of `published` and `samples`, WiredTiger's own. Readers
//! take only their session and the short ones.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arbor_base::Position;
use arbor_engine::adapter::BarrierSlot;
use arbor_engine::{Error, Result, TreeOptions};
use parking_lot::{Mutex, MutexGuard};

use crate::estimate::Samples;
use crate::options::{CACHE_BYTES_MIN, WiredTigerOptions};
use crate::pace::Pace;
use crate::pool::Pool;
use crate::published::Published;
use crate::raw::{Called, Connection, Session};
use crate::reading::Reading;
use crate::records::{self, CATALOGUE, PROBE, State};
use crate::writer::WriterState;
use crate::{config_string, published};

pub(crate) struct Core {
    writer: Mutex<WriterState>,
    pub reading: Arc<Reading>,
    pub published: Arc<Published>,
    pub options: WiredTigerOptions,
    cache_bytes: AtomicU64,
    /// Bytes the cache has in addition, since snapshots hold more than it has room for.
    extra_bytes: AtomicU64,
    /// Bytes for the large transaction that is being applied, else 0.
    transaction_bytes: AtomicU64,
    /// Bytes applied after the stable generation, about.
    pub unstable_bytes: AtomicU64,
    pub barrier: BarrierSlot,
    pub stable: Mutex<Stable>,
    /// The session that makes checkpoints.
    pub flushing: Mutex<Session>,
    pub applied: AtomicU64,
    pub durable: AtomicU64,
    /// Generation of the durable state.
    pub flushed_generation: AtomicU64,
    pub pace: Pace,
    /// Configurations that tables were made with; locked while one is tried.
    pub probed: Mutex<HashSet<String>>,
    pub counters: Counters,
    pub connection: Arc<Connection>,
}

/// The stable generation, and its position.
#[derive(Clone, Copy)]
pub(crate) struct Stable {
    pub generation: u64,
    pub position: Position,
}

#[derive(Default)]
pub(crate) struct Counters {
    pub transactions: AtomicU64,
    pub rollbacks: AtomicU64,
    pub checkpoints: AtomicU64,
    pub checkpoint_ms: AtomicU64,
    pub swept_tables: AtomicU64,
    pub background_errors: AtomicU64,
}

impl Counters {
    pub(crate) fn count_rollback(&self) {
        self.rollbacks.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_transaction(&self) {
        self.transactions.fetch_add(1, Ordering::Relaxed);
    }
}

impl Core {
    pub(crate) fn new(connection: &Arc<Connection>, options: WiredTigerOptions) -> Result<Core> {
        let (mut session, mut tables_session) = (connection.session()?, connection.service_session()?);
        let existing = tables_session.tables()?;
        if !existing.contains(&CATALOGUE) {
            tables_session.create(CATALOGUE, &options.create_config(&TreeOptions::default())?)?;
        }
        let state = first_state(&mut session)?;
        // Before anything else is committed: closing keeps what is stable, or everything where nothing ever was.
        connection.set_stable(state.generation)?;
        let trees = records::trees(&mut session)?;
        let tables: published::Map = trees.iter().map(|(tree, record)| (*tree, record.table)).collect();
        let tables = Arc::new(tables);
        let published = Arc::new(Published::new(state, tables.clone()));
        let numbers = existing.iter().chain(tables.values()).filter(|table| **table != PROBE).map(|table| table.0);
        let next_table = numbers.max().unwrap_or(0) + 1;
        let reading =
            Reading { published: published.clone(), pool: Pool::new(connection), samples: Samples::default() };
        let cache_bytes = AtomicU64::new(options.cache_bytes.max(CACHE_BYTES_MIN));
        let writer = WriterState {
            session,
            tables_session,
            trees,
            tables,
            state,
            next_table,
            pending_drops: Vec::new(),
            poisoned: None,
        };
        Ok(Core {
            writer: Mutex::new(writer),
            reading: Arc::new(reading),
            published,
            cache_bytes,
            extra_bytes: AtomicU64::new(0),
            transaction_bytes: AtomicU64::new(0),
            unstable_bytes: AtomicU64::new(0),
            barrier: BarrierSlot::default(),
            stable: Mutex::new(Stable { generation: state.generation, position: state.applied }),
            flushing: Mutex::new(connection.service_session()?),
            applied: AtomicU64::new(state.applied.0),
            durable: AtomicU64::new(state.applied.0),
            flushed_generation: AtomicU64::new(state.generation),
            pace: Pace::new(options.cache_bytes),
            probed: Mutex::default(),
            counters: Counters::default(),
            options,
            connection: connection.clone(),
        })
    }

    pub(crate) fn lock_writer(&self) -> MutexGuard<'_, WriterState> {
        // The writer changes only after a commit, in steps that do not panic.
        self.writer.lock()
    }

    /// Errors: writing is over.
    pub(crate) fn usable_writer(&self) -> Result<MutexGuard<'_, WriterState>> {
        let writer = self.lock_writer();
        match &writer.poisoned {
            Some(reason) => Err(Error::Poisoned { context: reason.clone() }),
            None => Ok(writer),
        }
    }

    pub(crate) fn cache_bytes(&self) -> u64 {
        self.cache_bytes.load(Ordering::Relaxed)
    }

    /// Sets the size of WiredTiger's cache. Requires: the caller holds the writer.
    pub(crate) fn resize_cache(&self) -> Called {
        let usual = self.cache_bytes().max(self.transaction_bytes.load(Ordering::Relaxed));
        let bytes = usual + self.extra_bytes.load(Ordering::Relaxed);
        self.connection.reconfigure(&format!("cache_size={bytes}"))
    }

    /// Makes room in the cache for a transaction that needs that many bytes; 0: for none.
    pub(crate) fn make_room(&self, transaction_bytes: u64) -> Result<()> {
        let before = self.transaction_bytes.swap(transaction_bytes, Ordering::Relaxed);
        if before.max(transaction_bytes) > self.cache_bytes() { Ok(self.resize_cache()?) } else { Ok(()) }
    }

    /// Gives the cache a quarter more: snapshots hold too much of it for anything to be written. What the log has is to be
    /// applied, so the alternative would be the end of writing; the budget of the process sees the extra and others give way.
    pub(crate) fn grow_cache(&self) -> Result<()> {
        self.extra_bytes.fetch_add(self.cache_bytes() / 4, Ordering::Relaxed);
        Ok(self.resize_cache()?)
    }

    /// Takes a quarter of the extra back while the cache can do without: WiredTiger evicts down to four fifths of its size what no
    /// snapshot holds. While none is held everything can be evicted, but WiredTiger may leave it until the size demands it. Called
    /// every second.
    pub(crate) fn shrink_cache(&self) -> Result<()> {
        let extra = self.extra_bytes.load(Ordering::Relaxed);
        let needed = || Ok::<_, Error>(self.cache_used_bytes()? > (self.cache_bytes() + extra) / 20 * 17);
        if extra == 0 || (self.published.held() > 0 && needed()?) {
            return Ok(());
        }
        // The writer changes the size itself; it waits for the thread that calls this.
        let Some(_book) = self.writer.try_lock() else { return Ok(()) };
        let less = if extra < self.cache_bytes() / 16 { 0 } else { extra / 4 * 3 };
        self.extra_bytes.store(less, Ordering::Relaxed);
        Ok(self.resize_cache()?)
    }

    /// By WiredTiger's own configuration string.
    pub(crate) fn reconfigure(&self, name: &str, text: &str) -> Result<()> {
        let (cache_bytes, rest) = config_string::split_running(name, text)?;
        if let Some(bytes) = cache_bytes {
            self.set_cache_bytes(&bytes)?;
        }
        let _book = self.lock_writer();
        self.connection.reconfigure(&rest).map_err(|fault| match fault.is_invalid() {
            true => Error::InvalidOption { name: name.to_owned(), reason: fault.text() },
            false => fault.into(),
        })
    }

    pub(crate) fn set_cache_bytes(&self, value: &str) -> Result<()> {
        let invalid = |reason: String| Error::InvalidOption { name: "cacheBytes".to_owned(), reason };
        let bytes: u64 = value.parse().map_err(|_| invalid(format!("'{value}' is no number of bytes")))?;
        if bytes < CACHE_BYTES_MIN {
            return Err(invalid(format!("WiredTiger's cache has at least {CACHE_BYTES_MIN} bytes here")));
        }
        // The writer changes the cache too, while it holds the writer.
        let _book = self.lock_writer();
        let before = self.cache_bytes.swap(bytes, Ordering::Relaxed);
        self.resize_cache().map_err(|fault| {
            self.cache_bytes.store(before, Ordering::Relaxed);
            if fault.is_invalid() { invalid(fault.text()) } else { fault.into() }
        })?;
        self.pace.set_cache_bytes(bytes);
        Ok(())
    }
}

/// The state record; a new engine gets its first one.
fn first_state(session: &mut Session) -> Result<State> {
    if let Some(state) = records::state(session)? {
        return Ok(state);
    }
    let state = State { generation: 1, ..State::default() };
    session.begin()?;
    records::put_state(session, &state)?;
    session.commit(state.generation)?;
    Ok(state)
}
