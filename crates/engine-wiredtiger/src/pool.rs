//! Sessions for snapshots. A session is used by one snapshot at a time and keeps its cursors for the next one.

use std::sync::Arc;

use arbor_engine::Result;
use parking_lot::Mutex;

use crate::raw::{Connection, Session};

/// Idle sessions that are kept.
const IDLE_MAX: usize = 512;

pub(crate) struct Pool {
    connection: Arc<Connection>,
    idle: Mutex<Idle>,
}

#[derive(Default)]
struct Idle {
    sessions: Vec<Session>,
    /// Number of drops of tables: sessions that were pooled before close their cursors when they come back.
    drops: u64,
}

/// A session out of the pool.
pub(crate) struct PooledSession {
    pub session: Session,
    drops: u64,
}

impl Pool {
    pub(crate) fn new(connection: &Arc<Connection>) -> Pool {
        Pool { connection: connection.clone(), idle: Mutex::default() }
    }

    pub(crate) fn take(&self) -> Result<PooledSession> {
        let (session, drops) = {
            let mut idle = self.idle.lock();
            (idle.sessions.pop(), idle.drops)
        };
        let session = session.map_or_else(|| self.connection.session(), Ok)?;
        Ok(PooledSession { session, drops })
    }

    /// Requires: no transaction, no cursors but the session's own.
    pub(crate) fn put_back(&self, pooled: PooledSession) {
        let PooledSession { mut session, drops } = pooled;
        let mut idle = self.idle.lock();
        if idle.sessions.len() >= IDLE_MAX {
            // Closing it takes a while, and locks of WiredTiger.
            drop(idle);
            return drop(session);
        }
        if idle.drops != drops {
            session.close_cursors();
        }
        idle.sessions.push(session);
    }

    /// Cursors of idle sessions, and of the others when they come back, no longer prevent dropping tables.
    pub(crate) fn close_cursors(&self) {
        let mut idle = self.idle.lock();
        idle.drops += 1;
        idle.sessions.iter_mut().for_each(Session::close_cursors);
    }
}
