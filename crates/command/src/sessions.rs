//! Logical sessions: which the clients use, and when they last did.
//!
//! On a standalone server a session holds no state but its cursors; they close when it ends or is forgotten.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// `logicalSessionTimeoutMinutes`.
pub const TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// A connection tells about its session again after this time, so that requests do not meet at the map's lock.
pub const REFRESH: Duration = Duration::from_secs(60);

/// More sessions than this at a time are refused.
const SESSIONS_MAX: usize = 1_000_000;

pub type SessionId = [u8; 16];

#[derive(Default)]
pub struct Sessions {
    last_used: Mutex<HashMap<SessionId, Instant>>,
}

/// There are too many.
#[derive(Debug)]
pub struct TooMany;

impl Sessions {
    pub fn touch(&self, session: SessionId) -> Result<(), TooMany> {
        let mut sessions = self.lock();
        if sessions.len() >= SESSIONS_MAX && !sessions.contains_key(&session) {
            return Err(TooMany);
        }
        sessions.insert(session, Instant::now());
        Ok(())
    }

    /// Forgets a session; false when it was not known.
    pub fn end(&self, session: &SessionId) -> bool {
        self.lock().remove(session).is_some()
    }

    /// Forgets the sessions that nobody used for [`TIMEOUT`]; their cursors are to be closed.
    pub fn expire(&self, now: Instant) -> Vec<SessionId> {
        let mut sessions = self.lock();
        let old = |used: &Instant| now.saturating_duration_since(*used) >= TIMEOUT;
        let expired: Vec<SessionId> = sessions.iter().filter(|(_, used)| old(used)).map(|(id, _)| *id).collect();
        sessions.retain(|_, used| !old(used));
        expired
    }

    pub fn all(&self) -> Vec<(SessionId, Duration)> {
        self.lock().iter().map(|(id, used)| (*id, used.elapsed())).collect()
    }

    pub fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Instant>> {
        self.last_used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_used_ended_and_forgotten() {
        let sessions = Sessions::default();
        sessions.touch([1; 16]).unwrap();
        sessions.touch([2; 16]).unwrap();
        assert!(sessions.end(&[1; 16]) && !sessions.end(&[1; 16]));
        assert!(sessions.expire(Instant::now()).is_empty());
        assert_eq!(sessions.expire(Instant::now() + TIMEOUT), [[2; 16]]);
        assert_eq!(sessions.len(), 0);
    }
}
