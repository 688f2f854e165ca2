//! A snapshot: a transaction of WiredTiger on a session of its own, with the tables of its moment.

use std::borrow::Cow;
use std::sync::Arc;

use arbor_base::memory::values;
use arbor_base::{Position, TreeId};
use arbor_engine::{Cursor, Error, RangeEstimate, Result, Snapshot};
use parking_lot::{Mutex, MutexGuard};

use crate::cursor::WiredTigerCursor;
use crate::pool::PooledSession;
use crate::published::Tables;
use crate::raw::{Session, Table};
use crate::reading::Reading;
use crate::records::{self, State};
use crate::{estimate, room};

/// Keeps the database open, so it may outlive the engine.
pub(crate) struct WiredTigerSnapshot {
    /// `None` only while it is dropped. Cursors may be on other threads than the snapshot, so both lock it.
    session: Mutex<Option<PooledSession>>,
    reading: Arc<Reading>,
    held: u64,
    position: Position,
    tables: Tables,
}

impl WiredTigerSnapshot {
    pub(crate) fn new(reading: &Arc<Reading>) -> Result<WiredTigerSnapshot> {
        let held = reading.published.hold();
        let begun = room::patiently(|| begin(reading, reading.pool.take()?));
        match begun {
            Ok((pooled, position, tables)) => {
                let session = Mutex::new(Some(pooled));
                Ok(WiredTigerSnapshot { session, reading: reading.clone(), held, position, tables })
            }
            Err(error) => {
                reading.published.release(held);
                Err(error)
            }
        }
    }

    pub(crate) fn lock(&self) -> Locked<'_> {
        // A panic inside leaves the session as it was between two of its calls.
        Locked(self.session.lock())
    }

    fn read<T>(&self, table: Table, key: &[u8], take: impl Fn(&[u8]) -> T) -> Result<Option<T>> {
        room::patiently(|| Ok(self.lock().session().read(table, key, &take)?))
    }

    fn table(&self, tree: TreeId) -> Result<Table> {
        self.tables.get(&tree).copied().ok_or(Error::UnknownTree(tree))
    }
}

fn begin(reading: &Reading, mut pooled: PooledSession) -> Result<(PooledSession, Position, Tables)> {
    let session = &mut pooled.session;
    let state = session.begin().map_err(Error::from).and_then(|()| records::state(session));
    let shown = state.and_then(|state| {
        let State { applied, shape, .. } = state.unwrap_or_default();
        let tables = reading.published.tables(shape);
        let unknown =
            || records::damaged(session, format!("the state record names shape {shape}, which was not written"));
        Ok((applied, tables.ok_or_else(unknown)?))
    });
    match shown {
        Ok((position, tables)) => Ok((pooled, position, tables)),
        Err(error) => {
            session.rollback();
            reading.pool.put_back(pooled);
            Err(error)
        }
    }
}

/// The session of a snapshot, for one call.
pub(crate) struct Locked<'s>(MutexGuard<'s, Option<PooledSession>>);

impl Locked<'_> {
    pub(crate) fn session(&mut self) -> &mut Session {
        &mut self.0.as_mut().expect("I3: a snapshot has its session until it is dropped").session
    }
}

impl Drop for WiredTigerSnapshot {
    fn drop(&mut self) {
        let pooled = self.session.get_mut().take();
        if let Some(mut pooled) = pooled {
            pooled.session.rollback();
            self.reading.pool.put_back(pooled);
        }
        self.reading.published.release(self.held);
    }
}

impl Snapshot for WiredTigerSnapshot {
    fn position(&self) -> Position {
        self.position
    }

    fn get(&self, tree: TreeId, key: &[u8]) -> Result<Option<Cow<'_, [u8]>>> {
        let table = self.table(tree)?;
        let row = self.read(table, key, |value| match values::must_wait(value.len()) {
            true => Err(value.len()),
            false => Ok(value.to_vec()),
        })?;
        let row = match row {
            Some(Err(bytes)) => {
                values::before_value(bytes);
                self.read(table, key, <[u8]>::to_vec)?
            }
            Some(Ok(value)) => Some(value),
            None => None,
        };
        Ok(row.map(Cow::Owned))
    }

    fn cursor(&self, tree: TreeId) -> Result<Box<dyn Cursor + '_>> {
        let table = self.table(tree)?;
        let rows = room::patiently(|| Ok(self.lock().session().rows(table)?))?;
        Ok(Box::new(WiredTigerCursor::new(self, rows)))
    }

    fn estimate(&self, tree: TreeId, from: &[u8], to: Option<&[u8]>) -> Result<RangeEstimate> {
        self.table(tree)?;
        room::patiently(|| {
            let mut locked = self.lock();
            let session = locked.session();
            let record = records::tree(session, tree)?.ok_or(Error::UnknownTree(tree))?;
            Ok(estimate::of_range(&self.reading.samples, session, &record, from, to)?)
        })
    }
}
