//! Periodic session maintenance.

use std::time::{Duration, Instant};

use arbor_protocol::log::{events, now_ms};

use crate::{Commands, session};

/// Seconds between sweeps; a sweep reads all sessions.
const EXPIRY_EVERY_S: u64 = 60;

impl Commands {
    /// Ends transactions that are open for too long, and closes what belongs to ended ones.
    pub(crate) fn end_expired_transactions(&self) {
        let seconds = self.parameters.int("transactionLifetimeLimitSeconds").unwrap_or(60).max(1) as u64;
        for busy in self.sessions.abort_expired(Duration::from_secs(seconds)) {
            self.operations.kill_session(busy);
        }
        let is_open = |id: &[u8], number: i64| {
            let open = session::from_bytes(id).and_then(|id| self.sessions.open_transaction(id));
            open.is_some_and(|open| open.number == number)
        };
        self.database.cursors.kill_transactions_unless(is_open);
    }

    /// Removes unused sessions with their cursors and transactions. Acts only every `EXPIRY_EVERY_S` seconds.
    pub(crate) fn expire_sessions(&self, now: Instant) {
        if self.replication.is_some() && !self.is_primary() {
            // Only the primary may delete rows.
            return;
        }
        if !now.saturating_duration_since(self.started).as_secs().is_multiple_of(EXPIRY_EVERY_S) {
            return;
        }
        let failed = |error: arbor_session::Error| {
            let attributes = arbor_bson::DocBuf::new().with("error", &error.to_string());
            self.log.warn(events::EXPIRED_SESSIONS_KEPT, "clock", attributes);
        };
        match self.sessions.expire(now) {
            Err(error) => failed(error),
            Ok(expired) => expired.into_iter().for_each(|id| {
                self.database.cursors.kill_session(&session::bytes(id));
            }),
        }
        if let Err(error) = self.sessions.sweep(now_ms()) {
            failed(error);
        }
    }
}
